"""The simulation of any size law, against a naive twin, closed forms and exact analysis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.kit.arrays import Floats
from corewise.model.sizes import (
    Deterministic,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
    Pareto,
    SizeLaw,
    Weibull,
)
from corewise.observation.sample_path import EventKind
from corewise.policies.base import BoundPolicy, bind
from corewise.policies.fitted.rule import Fitted
from corewise.simulation.decisions.fitted import FittedJobs
from corewise.simulation.decisions.levels import LevelJobs
from corewise.simulation.decisions.remembered import RememberedJobs
from corewise.simulation.loops.loop import Loop
from corewise.simulation.loops.sources import JobSource, RandomJobs
from corewise.simulation.paths import first_walk
from corewise.simulation.run import Run
from corewise.simulation.state import State
from corewise.simulation.window import Window
from tests.control.test_improve import some_values

FALSE_ALARM = 1e-6
"""The probability that a statistical test below fails although all is well, over all its cases together."""

LAWS: dict[str, SizeLaw] = {
    "deterministic": Deterministic(),
    "erlang": Erlang(4),
    "exponential": Exponential(),
    "hyperexponential": Hyperexponential(4.0),
    "lognormal": Lognormal(4.0),
    "weibull": Weibull(0.5),
    "pareto": Pareto(1.5, 1000.0),
}


def one_class(law: SizeLaw, p: float = 0.6, load: float = 0.7) -> cw.System:
    return cw.System(8, [cw.JobClass("a", 8.0 * load * 1.5, 1.5, cw.Amdahl(p), sizes=law)])


def two_classes(first: SizeLaw, second: SizeLaw, p: float = 0.8, q: float = 0.4) -> cw.System:
    return cw.System(
        6,
        [
            cw.JobClass("one", 1.6, 0.8, cw.Amdahl(p), sizes=first),
            cw.JobClass("two", 4.0, 2.0, cw.Amdahl(q), sizes=second),
        ],
    )


# --- the twin -------------------------------------------------------------------------------------


@dataclass
class Job:
    number: int
    kind: int
    remaining: float
    attained: float = 0.0


Row = tuple[float, bool, int, int]
"""When, whether it is a departure, of which class, which job."""


def naive_cores(bound: BoundPolicy, system: cw.System, present: Sequence[Job]) -> Floats:
    """The cores of each class: where jobs outnumber cores by residual work, if the policy goes by it."""
    counts = [sum(job.kind == i for job in present) for i in range(len(system.classes))]
    if len(present) <= bound.decision.by_counts_up_to:
        return bound.allocate(counts)
    index, cores, left = {}, np.zeros(len(counts)), system.cores
    for i, one in enumerate(system.classes):
        assert one.size_rate is not None
        to_go = [one.sizes.mean_residual(job.attained * one.size_rate) for job in present if job.kind == i]
        if to_go:
            index[i] = one.weight * one.size_rate * len(to_go) / float(sum(to_go))
    for i in sorted(index, key=lambda i: -index[i]):
        cores[i] = min(left, counts[i])
        left -= cores[i]
    return cores


def naive_path(
    system: cw.System,
    policy: cw.Policy | str,
    arrivals: Sequence[tuple[float, int, float]],
    end: float,
) -> list[Row]:
    """Follow jobs one by one: each has its own remaining work, and no clock is shared."""
    bound, now, present, rows, coming = bind(policy, system), 0.0, list[Job](), list[Row](), 0
    while True:
        counts = [sum(job.kind == i for job in present) for i in range(len(system.classes))]
        widths = naive_cores(bound, system, present) / np.maximum(counts, 1)
        curves = [one.speedup for one in system.regime(now).classes]
        speeds = [float(curve.rate(z)) for curve, z in zip(curves, widths, strict=True)]
        leaving = [
            (now + (job.remaining / speeds[job.kind] if speeds[job.kind] else math.inf), place)
            for place, job in enumerate(present)
        ]
        soonest, place = min(leaving, default=(math.inf, -1))
        arrival = arrivals[coming][0] if coming < len(arrivals) else math.inf
        change = min((one.time for one in system.changes if one.time > now), default=math.inf)
        ahead = min(soonest, arrival, change, end)
        for job in present:
            job.remaining -= (ahead - now) * speeds[job.kind]
            job.attained += (ahead - now) * speeds[job.kind]
        now = ahead
        if ahead == end:
            return rows
        if ahead == soonest:
            gone = present.pop(place)
            rows.append((now, True, gone.kind, gone.number))
        elif ahead == arrival:
            _, kind, size = arrivals[coming]
            present.append(Job(coming, kind, size))
            rows.append((now, False, kind, coming))
            coming += 1


def drawn_jobs(source: JobSource, end: float) -> list[tuple[float, int, float]]:
    """The jobs that a source gives up to a time, in the order in which they come."""
    at, work, _ = source.arrays
    jobs = [(at[i, k], i, work[i, k]) for i in range(len(at)) for k in range(at.shape[1]) if at[i, k] < end]
    return sorted(jobs)


def box(system: cw.System, policy: cw.Policy | str, seed: int) -> Loop:
    begin, rng = State((0,) * len(system.classes)), np.random.default_rng(seed)
    source = RandomJobs(system, rng, begin)
    return first_walk(system, bind(policy, system), begin, rng, record=True, source=source)


def by_level(system: cw.System, policy: cw.Policy | str, seed: int) -> Loop:
    return _tableless(LevelJobs, system, policy, seed)


def by_rule(system: cw.System, policy: cw.Policy | str, seed: int) -> Loop:
    return _tableless(RememberedJobs, system, policy, seed)


def _tableless(kind: type[RememberedJobs], system: cw.System, policy: cw.Policy | str, seed: int) -> Loop:
    begin, rng = State((0,) * len(system.classes)), np.random.default_rng(seed)
    source = RandomJobs(system, rng, begin)
    return kind(system, bind(policy, system), source, begin, rng, record=True, tally=True)


MIXED = two_classes(Lognormal(4.0), Erlang(4))
CHANGING = cw.System(MIXED.cores, MIXED.classes, [cw.Change(20.0, "one", cw.Amdahl(0.2))])
RENEWAL = cw.System(
    MIXED.cores,
    [
        replace(one, arrivals=law)
        for one, law in zip(MIXED.classes, (Erlang(3), Deterministic()), strict=True)
    ],
)


Build = Callable[[cw.System, cw.Policy | str, int], Loop]


@pytest.mark.parametrize("engine", [box, by_level, by_rule])
@pytest.mark.parametrize("policy", ["equi", "whittle", "priority:two,one", "residual"])
@pytest.mark.parametrize("system", [MIXED, CHANGING, RENEWAL], ids=["mixed", "changing", "renewal"])
def test_a_path_is_that_of_jobs_followed_one_by_one(system: cw.System, policy: str, engine: Build) -> None:
    rule = cw.Residual(base="whittle") if policy == "residual" else policy
    walk, end = engine(system, rule, 3), 29.9
    jobs = drawn_jobs(RandomJobs(system, np.random.default_rng(3), State((0, 0))), end)
    walk.run_time(end, 4, None)
    _, path = walk.finish()
    assert path is not None
    inner = slice(1, -1)
    twin = naive_path(system, rule, jobs, end)
    assert len(twin) == path.time[inner].size > 150
    times, leaves, kinds, numbers = (np.array(column) for column in zip(*twin, strict=True))
    assert np.max(np.abs(times - path.time[inner])) < 1e-9
    assert np.array_equal(leaves, path.event[inner] == EventKind.DEPARTURE)
    assert np.array_equal(kinds, path.job_class[inner])
    assert np.array_equal(numbers, path.job[inner])
    assert np.all(path.cores[path.counts.sum(axis=1) > 0].sum(axis=1) == pytest.approx(system.cores))
    of_path = cw.Statistics.of(path)
    for name in system.names:
        own, seen = walk.statistics()[name], of_path[name]
        assert own.arrivals == seen.arrivals
        assert own.departures.sum() == pytest.approx(seen.departures.sum(), rel=1e-12)
        assert own.job_time.sum() == pytest.approx(seen.job_time.sum(), rel=1e-9)


# --- closed forms ---------------------------------------------------------------------------------


def chance(found: float, interval: tuple[float, float], exact: float) -> float:
    """The p-value of a mean with a 95 % interval from 20 batches, by Student's law."""
    low, high = interval
    scale = 0.5 * (high - low) / stats.t.ppf(0.975, 19)
    return float(2.0 * stats.t.sf(abs(found - exact) / scale, 19))


def equal_sharing(system: cw.System) -> Floats:
    """P(N = n) of jobs that are all alike: π(n) ∝ Π_{k ≤ n} (Σ λ/μ) / (k s(c/k)), for any size laws."""
    k = np.arange(1.0, 400.0)
    speed = np.asarray(system.classes[0].speedup.rate(system.cores / k))
    logs = np.concatenate([[0.0], np.cumsum(np.log(system.load * system.cores / (k * speed)))])
    law = np.exp(logs - logs.max())
    return np.asarray(law / law.sum())


def mean_of(law: Floats) -> float:
    return float(law @ np.arange(law.size))


def in_states(run: Run, counts: Sequence[int]) -> float:
    """The share of the time with so many jobs in all."""
    return float(run.times[np.isin(run.visited.sum(axis=0), counts)].sum() / run.time)


@pytest.mark.statistical
@pytest.mark.parametrize("name", LAWS)
def test_one_class_sees_the_mean_of_its_sizes_only(name: str) -> None:
    """The number of jobs, and its mean: false alarm 1e-6 in all. Control: a curve of another p.

    Equal sharing is a symmetric queue (Kelly 1979): the law of the count is that of exponential sizes.
    """
    system = one_class(LAWS[name])
    exact, wrong = equal_sharing(system), equal_sharing(one_class(LAWS[name], p=0.9))
    run = cw.simulate(system, "equi", departures=400_000, rng=11)
    times, rate = run.response_times["a"], float(system.arrival_rates[0])
    mean, interval = times.mean * rate, (times.interval[0] * rate, times.interval[1] * rate)
    if system.memoryless:
        mean, interval = run.mean_jobs, run.interval
    assert chance(mean, interval, mean_of(exact)) > FALSE_ALARM / len(LAWS)
    assert chance(mean, interval, mean_of(wrong)) < FALSE_ALARM
    assert np.allclose([in_states(run, [n]) for n in range(12)], exact[:12], atol=0.01)


@pytest.mark.statistical
def test_response_times_are_in_proportion_to_sizes() -> None:
    """E[T | X = x] = x E[T]/E[X] with one class: in each quarter of the sizes, false alarm 1e-6 in all.

    Control: under priority with two classes, response is not proportional.
    """
    system = one_class(Lognormal(4.0))
    run = cw.simulate(system, "equi", departures=200_000, rng=5, record=True)
    assert run.path is not None
    sizes = drawn_sizes(system, 5)
    ratio = mean_of(equal_sharing(system)) / system.load / system.cores
    leaves = run.path.event == EventKind.DEPARTURE
    work = sizes[run.path.job[leaves]]
    spent = run.path.response_times["a"]
    for part in np.array_split(np.argsort(work), 4):
        low_and_high = np.array_split(np.sort(part), 20)  # batches in the order of departure
        ratios = np.array([spent[own].sum() / work[own].sum() for own in low_and_high])
        shift = abs(ratios.mean() - ratio) / (ratios.std(ddof=1) / math.sqrt(20))
        assert 2.0 * stats.t.sf(shift, 19) > FALSE_ALARM / 4


def drawn_sizes(system: cw.System, seed: int) -> Floats:
    """The sizes of the jobs of a single class, in the order in which they come."""
    source, sizes = RandomJobs(system, np.random.default_rng(seed), State((0,))), list[Floats]()
    for _ in range(60):
        _, work, used = source.arrays
        sizes.append(work[0].copy())
        used[0] = work.shape[1]
        source.refill()
    return np.concatenate(sizes)


@pytest.mark.statistical
def test_classes_with_one_curve_share_as_if_sizes_were_exponential() -> None:
    """The joint law under EQUI, for two size laws: π(n) ∝ |n|!/Π n_i! Π (λ_i/μ_i)^{n_i} / Π k s(c/k).

    Means of each class within Student's law, false alarm 1e-6. Control: under priority to a class they move
    with the size law, by more than half.
    """
    means = {}
    for policy in ("equi", "priority:one,two"):
        for law in (Deterministic(), Hyperexponential(16.0)):
            system = two_classes(law, law, 0.9, 0.9)
            run = cw.simulate(system, policy, departures=400_000, rng=2)
            means[policy, law.law] = run.response_times
    system = two_classes(Exponential(), Exponential(), 0.9, 0.9)
    total = mean_of(equal_sharing(system)) / system.load / system.cores
    for name in ("deterministic", "hyperexponential"):
        for one in system.classes:
            times = means["equi", name][one.name]
            assert one.size_rate is not None
            assert chance(times.mean, times.interval, total / one.size_rate) > FALSE_ALARM / 4
    few, many = (means["priority:one,two", law]["two"].mean for law in ("deterministic", "hyperexponential"))
    assert many > 1.5 * few


@pytest.mark.parametrize("law", [Deterministic(), Hyperexponential(16.0)], ids=lambda law: law.law)
def test_work_is_the_same_path_under_every_policy_if_speed_is_perfect(law: SizeLaw) -> None:
    system = two_classes(law, law, 1.0, 1.0)
    for time in (10.0, 50.0, 200.0):
        ends = [
            cw.simulate(system, policy, time=time, rng=9).state
            for policy in ("equi", "priority:one,two", "priority:two,one", "greedy")
        ]
        work = [sum(map(sum, end.remaining)) for end in ends]
        assert work == pytest.approx([work[0]] * 4, rel=1e-9, abs=1e-9)
        assert len({end.next_arrivals for end in ends}) == 1


@pytest.mark.statistical
def test_the_mean_work_is_that_of_pollaczek_and_khinchine() -> None:
    """E = Σ λ E[X²] / (2c(1 − ρ)) under perfect speed-up, by means at 4000 times; false alarm 1e-6.

    Control: the same with the second moment of exponential sizes.
    """
    law = Hyperexponential(4.0)
    system = two_classes(law, law, 1.0, 1.0)
    second = 1.0 + law.cv2
    unit = float(np.sum(system.arrival_rates / system.size_rates**2)) / (2.0 * 6.0 * (1.0 - system.load))
    work, walk = [], box(system, "equi", 1)
    walk.record = False
    for k in range(1, 4001):
        walk.run_time(10.0 * k, 1, None)
        work.append(sum(map(sum, walk.finish()[0].remaining)))
    batches = np.array(work).reshape(20, -1).mean(axis=1)
    scale = batches.std(ddof=1) / math.sqrt(20)
    assert 2.0 * stats.t.sf(abs(batches.mean() - second * unit) / scale, 19) > FALSE_ALARM
    assert 2.0 * stats.t.sf(abs(batches.mean() - 2.0 * unit) / scale, 19) < FALSE_ALARM


@pytest.mark.statistical
def test_exponential_sizes_followed_one_by_one_are_the_chain() -> None:
    """The mean under Whittle against exact analysis; false alarm 1e-6. Control: another p, exactly."""
    system = two_classes(Exponential(), Exponential())
    walk = box(system, "whittle", 4)
    walk.record = False
    Window.of(600_000, None).walk(walk, 20, None)
    areas, spans = np.array(walk.areas).sum(axis=1), np.array(walk.spans)
    ratio = areas.sum() / spans.sum()
    scale = (areas - ratio * spans).std(ddof=1) / spans.mean() / math.sqrt(20)
    other = two_classes(Exponential(), Exponential(), 0.7)
    exact, wrong = (cw.evaluate(one, "whittle").mean_jobs for one in (system, other))
    assert 2.0 * stats.t.sf(abs(ratio - exact) / scale, 19) > FALSE_ALARM
    assert 2.0 * stats.t.sf(abs(ratio - wrong) / scale, 19) < FALSE_ALARM


# --- the same jobs --------------------------------------------------------------------------------


def test_one_seed_gives_the_same_jobs_under_every_policy() -> None:
    columns = []
    for policy in ("equi", "priority:two,one"):
        path = cw.simulate(RENEWAL, policy, time=100.0, rng=8, record=True).path
        assert path is not None
        comes = path.event == EventKind.ARRIVAL
        columns.append((path.time[comes], path.job_class[comes], path.job[comes]))
    for one, other in zip(*columns, strict=True):
        assert np.array_equal(one, other)


def test_a_trace_comes_as_it_was_recorded_and_all_of_it_leaves() -> None:
    """The sum of response times is ∫ N dt, and on a single core each job takes its size."""
    rng = np.random.default_rng(4)
    time, size = np.cumsum(rng.exponential(size=200)), rng.lognormal(size=200)
    names = rng.choice(["one", "two"], 200).tolist()
    jobs = cw.Trace(time, names, size)
    run = cw.simulate(MIXED, "whittle", jobs=jobs, record=True)
    assert run.path is not None
    assert run.departures == 200
    comes = run.path.event == EventKind.ARRIVAL
    assert np.array_equal(run.path.time[comes], time)
    spent = sum(times.sum() for times in run.path.response_times.values())
    assert spent == pytest.approx(run.mean_jobs * run.time, rel=1e-9)
    alone = cw.simulate(MIXED, "equi", jobs=cw.Trace([5.0], ["one"], [2.0]))
    assert alone.time == pytest.approx(2.0 / float(cw.Amdahl(0.8).rate(6.0)))
    assert alone.response_times["one"].mean == pytest.approx(alone.time)


def test_a_run_goes_on_from_the_state_in_which_another_ended() -> None:
    rng = np.random.default_rng(4)
    time, size, names = np.cumsum(rng.exponential(size=100)), rng.lognormal(size=100), ["one", "two"] * 50
    whole = cw.simulate(MIXED, "whittle", jobs=cw.Trace(time, names, size))
    early = int(np.searchsorted(time, 50.0))
    first = cw.Trace(time[:early], names[:early], size[:early])
    middle = cw.simulate(MIXED, "whittle", time=50.0 - time[0], jobs=first)
    rest = cw.Trace(time[early:], names[early:], size[early:])
    last = cw.simulate(MIXED, "whittle", jobs=rest, start=middle.state)
    assert middle.state.time == pytest.approx(50.0)
    assert middle.departures + last.departures == 100
    assert middle.time + last.time == pytest.approx(whole.time, rel=1e-12)
    area = middle.mean_jobs * middle.time + last.mean_jobs * last.time
    assert area == pytest.approx(whole.mean_jobs * whole.time, rel=1e-10)


@pytest.mark.parametrize(
    ("time", "names", "size", "said"),
    [
        ([0.0, 1.0], ["one"], [1.0, 2.0], "2 times, 1 classes and 2 sizes"),
        ([], [], [], "at least one job"),
        ([0.0, 2.0, 1.0], ["one"] * 3, [1.0] * 3, "job 2: times must not go back"),
        ([0.0, 1.0], ["one"] * 2, [1.0, -3.0], "job 1: its size must be finite and not negative, got -3.0"),
        (
            [0.0, 1.0],
            ["one"] * 2,
            [math.nan, 1.0],
            "job 0: its size must be finite and not negative, got",
        ),
        ([0.0, math.inf], ["one"] * 2, [1.0, 1.0], "job 1: its time must be finite, got inf"),
        ([0.0], "one", [1.0], "a name for every job"),
        ([0.0], ["one"], ["x"], "size must be numbers"),
        ([0.0], ["tow"], [1.0], "unknown class 'tow'"),
    ],
)
def test_a_trace_that_cannot_be_is_refused(
    time: list[float], names: list[str], size: list[float], said: str
) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=said):
        cw.simulate(MIXED, "equi", jobs=cw.Trace(time, names, size))


def test_percentiles_are_those_of_the_recorded_times() -> None:
    run = cw.simulate(MIXED, "equi", departures=20_000, rng=1, record=True)
    for name, exact in run.percentiles([10.0, 50.0, 99.0]).items():
        assert run.job_times is not None
        found = run.job_times.percentiles(MIXED.index(name), np.array([10.0, 50.0, 99.0]))
        assert found == pytest.approx(exact, rel=0.012)
        assert run.response_times[name].percentiles[50.0] == pytest.approx(exact[1], rel=0.012)


@pytest.mark.parametrize("kind", [LevelJobs, FittedJobs, RememberedJobs])
def test_many_classes_are_followed_without_tables(kind: type[RememberedJobs]) -> None:
    """The path under a compiled rule is that under the rule itself; five classes have no table."""
    laws = [Lognormal(4.0), Erlang(3), Exponential(), Hyperexponential(3.0), Deterministic()]
    system = cw.System(
        6, [cw.JobClass(f"k{i}", 0.8, 1.0, cw.Amdahl(0.2 * i), sizes=law) for i, law in enumerate(laws)]
    )
    rule: cw.Policy = cw.Whittle()
    if kind is FittedJobs:
        fitted = Fitted(system, some_values(5, 1), np.full(6, 8.0))
        rule = BoundPolicy(system, "fitted", fitted)
    bound, begin, paths = bind(rule, system), State((0,) * 5), []
    for engine in (kind, RememberedJobs):
        rng = np.random.default_rng(7)
        walk = engine(system, bound, RandomJobs(system, rng, begin), begin, rng, record=True)
        walk.run_departures([400], None)
        paths.append(walk.finish()[1])
    one, other = paths
    assert one is not None
    assert other is not None
    assert np.allclose(one.time, other.time, rtol=1e-7)
    assert np.array_equal(one.job, other.job)
    if kind is not RememberedJobs:
        assert type(first_walk(system, bound, begin, np.random.default_rng(7))) is kind


@pytest.mark.parametrize("policy", ["equi", "priority:two,one,three"])
@pytest.mark.parametrize("jobs", [900, 1500])
def test_recorded_jobs_may_pile_up_beyond_any_table(policy: str, jobs: int) -> None:
    """Where all cores can always be used, the last job leaves when all work is done, whatever the policy."""
    names = ("one", "two", "three")
    system = cw.System(3, [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(1.0)) for name in names])
    rng = np.random.default_rng(3)
    size = rng.exponential(1.0, jobs)
    trace = cw.Trace(np.linspace(0.0, 1.0, jobs), [names[i % 3] for i in range(jobs)], size)
    run = cw.simulate(system, policy, jobs=trace, record=True)
    assert run.path is not None
    assert run.departures == jobs
    assert run.path.time[-1] == pytest.approx(size.sum() / 3.0, rel=1e-9)
    assert run.statistics.classes[0].departures.sum() == jobs // 3
