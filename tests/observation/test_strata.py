"""Strata tables: windows add up to the whole, and every sum is that over single jobs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import corewise as cw
from corewise.estimation.robust.strata import JobScore, NodeScore
from corewise.observation.histories import JobHistories, job_histories
from corewise.observation.sample_path import EventKind
from corewise.observation.strata.tables import NODES, Strata
from corewise.observation.strata.tally import AttainedWork, StrataTally
from tests.helpers.sized_jobs import LAWS, Floats, sized_path

SYSTEM = cw.load_system("paper:2").at_load(0.7)


def record(form: str = "totals", departures: int = 400) -> cw.SamplePath:
    path = sized_path(SYSTEM, LAWS["h2_4"], departures, np.random.default_rng(5))
    return path if form == "totals" else path.split()


def tabulated(path: cw.SamplePath, *ends: int) -> Strata:
    tally = StrataTally(path, SYSTEM)
    windows = [tally.count(end)[0] for end in (*ends, path.time.size)]
    first, *rest = [window for window in windows if window is not None]
    return sum(rest, first)


@pytest.mark.parametrize("form", ["totals", "per job"])
def test_windows_add_up_to_the_whole(form: str) -> None:
    path = record(form)
    whole, cut = tabulated(path), tabulated(path, 1, 17, 300, 301, 555)
    assert_allclose(cut.bins, whole.bins, rtol=1e-9, atol=1e-9)
    assert_allclose(cut.jobs, whole.jobs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", ["totals", "per job"])
def test_at_nodes_they_are_the_exact_strata(form: str) -> None:
    path = record(form)
    tables, jobs = tabulated(path), job_histories(path)[0]
    assert jobs is not None
    score = JobScore.of(jobs, cw.Amdahl(0.5), 1.0 / SYSTEM.classes[0].known_size_rate)
    nodes = NodeScore.of(tables)
    for m in (0, 7, NODES // 2, NODES - 1):
        p = float(tables.nodes[m])
        assert_allclose(tables.bins[m, :, :4], score.passed(p).strata, rtol=1e-9, atol=1e-9)
        assert nodes(p) == pytest.approx(score(p), rel=1e-7, abs=1e-7)
        slopes = np.linspace(-0.9, 0.8, tables.edges.size + 1)
        sloped, exact = nodes.with_slopes(slopes), score.with_slopes(slopes)
        assert_allclose(tables.sloped(slopes)[m, :, :4], exact.passed(p).strata, rtol=1e-9, atol=1e-9)
        assert sloped(p) == pytest.approx(exact(p), rel=1e-7, abs=1e-7)
        # Parts of ψ in the strata of one job are taken to be uncorrelated: of 250 jobs, within a third or so.
        assert sloped.variance(p) == pytest.approx(exact.variance(p), rel=0.35)


def parts(jobs: JobHistories, curve: cw.SpeedUp, edges: Floats) -> list[tuple[int, Floats]]:
    """What each job was in each stratum: the stratum, and d, g (if it left there), work a, slope b, and q."""
    found = []
    for j in range(jobs.first.size):
        attained, bend, b, q, mine = 0.0, 0.0, 0, 0.0, np.zeros(2)
        for k in range(jobs.first[j], jobs.last[j]):
            z, left = jobs.widths[jobs.place[k]], float(jobs.span[k])
            speed, slope = float(curve.rate(z)), float(curve.gradient(z)[0])
            q = slope / speed if attained == 0.0 else q
            while left > 0.0:
                step = left if b == edges.size else min(left, (edges[b] - attained) / speed)
                mine += [step * speed, step * slope]
                attained, bend, left = attained + step * speed, bend + step * slope, left - step
                if left > 0.0:
                    found.append((b, np.array([0.0, 0.0, *mine, q])))
                    attained, q, b, mine = float(edges[b]), bend / float(edges[b]), b + 1, np.zeros(2)
        departed = float(jobs.departed[j])
        found.append((b, np.array([departed, departed * slope / speed, *mine, q])))
    return found


def test_every_sum_in_a_stratum_is_one_over_jobs() -> None:
    path = record()
    tables, jobs = tabulated(path), job_histories(path)[0]
    assert jobs is not None
    m = 12
    expected = np.zeros(tables.bins.shape[1:])
    for b, (d, g, a, bent, q) in parts(jobs, cw.Amdahl(float(tables.nodes[m])), tables.edges):
        plain = [d, a, bent, g, g * g, d * a, d * bent, g * a, g * bent, a * a, a * bent, bent * bent]
        with_q = [d * q, q * a, g * q, d * q * q, d * q * a, g * q * a, d * q * bent, d * q * q * a]
        expected[b] += [*plain, *with_q, q * a * a, q * a * bent, (q * a) ** 2]
    assert_allclose(tables.bins[m], expected, rtol=1e-8, atol=1e-9)


def test_tables_of_earlier_versions_are_read() -> None:
    """They had twelve columns, and five numbers of a live job: q is none, or taken for what it is now."""
    whole = tabulated(record())
    old = {f"x.{name}": array for name, array in whole.arrays.items()}
    old["x.bins"] = old["x.bins"][..., :12]
    read = Strata.of_arrays("amdahl", old, "x.")
    assert read is not None
    assert np.array_equal(read.bins[..., :12], whole.bins[..., :12])
    assert not read.bins[..., 12:].any()
    assert np.array_equal((read + whole).bins[..., 12:], whole.bins[..., 12:])
    state = np.array([[1.0, 0.5, 0.25, 2.0, 1.5, 9.0], [0.0, 0.0, 0.0, 0.0, 0.0, 9.0]])
    plain = {"unit": 1.0, "jobs": [7], "states": [state[:, :5].tolist()]}
    assert AttainedWork.of(SYSTEM.classes[0], plain).states[7][:, 5].tolist() == [0.75, 0.0]
    plain["states"] = [state.tolist()]
    assert np.array_equal(AttainedWork.of(SYSTEM.classes[0], plain).states[7], state)


def test_products_are_those_of_single_jobs() -> None:
    path = record()
    tables, jobs = tabulated(path), job_histories(path)[0]
    assert jobs is not None
    m = 12
    curve = cw.Amdahl(float(tables.nodes[m]))
    speed, slope = curve.rate(jobs.widths), curve.gradient(jobs.widths)[:, 0]
    size, bend = jobs.sums(speed), jobs.sums(slope)
    departed = jobs.departed.astype(float)
    ratio = departed * (slope / speed)[jobs.leaving]
    pairs: list[tuple[Floats, Floats]] = [
        (departed, size), (departed, bend), (ratio, size), (ratio, ratio), (ratio, bend),
        (size, size), (size, bend), (bend, bend),
    ]  # fmt: skip
    sums = [column.sum() for column in (departed, size, bend, ratio)] + [float(a @ b) for a, b in pairs]
    powers = [float((size[jobs.departed] ** k).sum()) for k in range(5)]
    assert_allclose(tables.jobs[m], [*sums, *powers], rtol=1e-9)


def test_products_within_strata_are_those_of_single_jobs() -> None:
    """In the first stratum, which every job has been in: Σ a², and Σ a of those that left."""
    path = record()
    tables, jobs = tabulated(path), job_histories(path)[0]
    assert jobs is not None
    m, edge = 12, float(tables.edges[0])
    size = jobs.sums(cw.Amdahl(float(tables.nodes[m])).rate(jobs.widths))
    inside = np.minimum(size, edge)
    assert tables.bins[m, 0, 9] == pytest.approx(float(inside @ inside))
    left = jobs.departed & (size <= edge)
    assert tables.bins[m, 0, 5] == pytest.approx(float(size[left].sum()))


def test_strata_on_other_grids_do_not_add() -> None:
    one, other = Strata.empty("amdahl", (0.0, 1.0), 1.0), Strata.empty("power", (0.0, 1.0), 1.0)
    with pytest.raises(cw.errors.InvalidInput, match="amdahl and of power"):
        one + other


def test_classes_without_names_or_with_two_parameters_have_none() -> None:
    system = cw.System(30, [cw.JobClass(n, 1.0, 1.0, cw.Usl(0.1, 0.01)) for n in SYSTEM.names])
    assert StrataTally(record(), system).count(100) == (None, None)
    path = record()
    job = path.job.copy()
    job[(path.event != EventKind.START) & (path.job_class == 0)] = -1
    nameless = cw.SamplePath(path.names, path.pool, path.time, path.event, path.job_class, job, path.cores)
    first, second = StrataTally(nameless, SYSTEM).count(100)
    assert first is None
    assert second is not None
