"""Jobs that leave unfinished: their time counts, they are no departures, and estimates do not move."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import corewise as cw
from corewise.estimation.residuals import goodness_of_fit
from corewise.observation.histories import job_histories
from corewise.observation.sample_path import EventKind
from corewise.observation.strata.tally import StrataTally
from tests.helpers.sized_jobs import LAWS, sized_path

SYSTEM = cw.load_system("paper:2").at_load(0.7)


def cut_short(path: cw.SamplePath, rate: float, seed: int, how: EventKind) -> cw.SamplePath:
    """The per-job path in which each job is also ended at a rate of its own, by an event of a kind.

    `RESIZE` takes its cores away instead and leaves it there to the end: the same to any likelihood.
    """
    rng, whole = np.random.default_rng(seed), path.split()
    came = np.full(int(whole.job.max()) + 1, np.inf)
    comes = (whole.event == EventKind.ARRIVAL) | (whole.event == EventKind.PRESENT)
    came[whole.job[comes]] = whole.time[comes]
    ends = came + rng.exponential(1.0 / rate, came.size)
    limit = np.append(ends, np.inf)[whole.job]
    last = {int(job): float(t) for job, t in zip(whole.job, whole.time, strict=True)}
    gone = {int(j) for j in whole.job[whole.event == EventKind.DEPARTURE]}
    cut = [j for j in range(came.size) if ends[j] < (last[j] if j in gone else whole.end)]
    owner = {int(j): int(i) for j, i in zip(whole.job[comes], whole.job_class[comes], strict=True)}
    kept = whole.time < limit
    columns: dict[str, Any] = {
        "time": np.append(whole.time[kept], ends[cut]),
        "event": np.append(whole.event[kept], np.full(len(cut), how, dtype=np.int8)),
        "job_class": np.append(whole.job_class[kept], [owner[j] for j in cut]),
        "job": np.append(whole.job[kept], cut),
        "cores": np.append(whole.cores[kept], np.full(len(cut), 0.0 if how == EventKind.RESIZE else np.nan)),
    }
    order = np.lexsort((columns["event"] == EventKind.END, columns["time"]))
    return replace(whole, **{name: column[order] for name, column in columns.items()})


@pytest.fixture(scope="module")
def both() -> tuple[cw.SamplePath, cw.SamplePath]:
    """A log in which jobs are cancelled, and the same with jobs that stay without cores instead."""
    path = sized_path(SYSTEM, LAWS["h2_4"], 1500, np.random.default_rng(5))
    one, other = (cut_short(path, 0.5, 3, how) for how in (EventKind.CANCEL, EventKind.RESIZE))
    assert one.cancellations > 100
    assert one.departures == other.departures > 500
    return one, other


def test_by_hand_in_both_forms() -> None:
    """Two jobs share six cores; one is cancelled after 2, the other done after 3."""
    event = np.array(
        [EventKind.ARRIVAL, EventKind.ARRIVAL, EventKind.CANCEL, EventKind.DEPARTURE], dtype=np.int8
    )
    path = cw.SamplePath(
        ("a",), 6.0, np.array([0.0, 0.0, 2.0, 3.0]), event, np.zeros(4, dtype=np.int64),
        np.array([0, 1, 0, 1]), np.array([[6.0], [6.0], [6.0], [0.0]]),
    )  # fmt: skip
    for form in (path, path.split()):
        seen = cw.Statistics.of(form)["a"]
        assert (seen.widths.tolist(), seen.departures.tolist()) == ([3.0, 6.0], [0.0, 1.0])
        assert seen.job_time.tolist() == [4.0, 1.0]
        (jobs,) = job_histories(form)
        assert jobs is not None
        assert (jobs.departed.tolist(), jobs.cancelled.tolist()) == ([False, True], [True, False])
        assert jobs.sums(jobs.widths).tolist() == [6.0, 12.0]
        assert form.counts[:, 0].tolist()[-2:] == [1, 0]
        assert {name: times.tolist() for name, times in form.response_times.items()} == {"a": [3.0]}
        assert (form.arrivals, form.departures, form.cancellations) == (2, 1, 1)
        assert "1 departures, 1 unfinished, of classes a" in str(form)


def test_a_job_may_be_cancelled_while_it_waits() -> None:
    event = np.array([EventKind.ARRIVAL, EventKind.CANCEL], dtype=np.int8)
    path = cw.SamplePath(
        ("a",), 6.0, np.array([0.0, 2.0]), event, np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64),
        np.array([0.0, np.nan]),
    )  # fmt: skip
    assert cw.Statistics.of(path)["a"].job_time.tolist() == [2.0]
    with pytest.raises(cw.errors.InvalidInput, match="the job leaves although it held no cores"):
        replace(path, event=np.array([EventKind.ARRIVAL, EventKind.DEPARTURE], dtype=np.int8))


@pytest.mark.parametrize("per_job", [False, True])
def test_it_is_written_and_read_back(tmp_path: Path, per_job: bool) -> None:
    event = np.array([EventKind.ARRIVAL, EventKind.CANCEL, EventKind.END], dtype=np.int8)
    path = cw.SamplePath(
        ("one", "two"), 30.0, np.array([0.0, 2.0, 3.0]), event, np.array([0, 0, -1]), np.array([0, 0, -1]),
        np.array([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0]]),
    )  # fmt: skip
    cw.save_events(path, tmp_path / "log.csv", per_job=per_job)
    assert "2.0,cancel,one,0," in (tmp_path / "log.csv").read_text()
    again = cw.load_events(tmp_path / "log.csv", cw.load_system("paper:1")).path
    assert again.event.tolist() == event.tolist()
    assert again.per_job is per_job


def test_a_job_that_was_cancelled_is_one_that_stayed_and_got_nothing(
    both: tuple[cw.SamplePath, cw.SamplePath],
) -> None:
    tables = [cw.Statistics.of(path) for path in both]
    for a, b in zip(*(table.classes for table in tables), strict=True):
        held = b.widths > 0.0
        assert np.array_equal(a.widths[a.widths > 0.0], b.widths[held])
        assert np.array_equal(a.departures[a.widths > 0.0], b.departures[held])
        assert_allclose(a.job_time[a.widths > 0.0], b.job_time[held], rtol=1e-9)
    strata = [StrataTally(path, SYSTEM).count(path.time.size) for path in both]
    for first, second in zip(*strata, strict=True):
        assert first is not None
        assert second is not None
        assert_allclose(first.bins, second.bins, rtol=1e-9, atol=1e-9)
        assert_allclose(first.jobs, second.jobs, rtol=1e-9, atol=1e-9)
    for sizes in ("exponential", "any"):
        left, right = (cw.estimate(path, SYSTEM, sizes=sizes) for path in both)
        for name in SYSTEM.names:
            assert left[name].value == pytest.approx(right[name].value, rel=1e-6)
            assert left[name].stderr == pytest.approx(right[name].stderr, rel=1e-6)
            spread = [found[name].dispersion for found in (left, right)]
            assert spread[0] is not None
            assert spread[1] is not None
            assert spread[0].value == pytest.approx(spread[1].value, rel=1e-6)
    fits = [goodness_of_fit(path, SYSTEM) for path in both]
    for name in SYSTEM.names:
        assert fits[0][name].p_values == pytest.approx(dict(fits[1][name].p_values), rel=1e-6)


@pytest.mark.parametrize("ends", [(), (1, 17, 300, 301, 555)])
def test_strata_of_windows_add_up(both: tuple[cw.SamplePath, cw.SamplePath], ends: tuple[int, ...]) -> None:
    path = both[0]
    tally, whole = StrataTally(path, SYSTEM), StrataTally(path, SYSTEM).count(path.time.size)[0]
    windows = [tally.count(end)[0] for end in (*ends, path.time.size)]
    first, *rest = [window for window in windows if window is not None]
    total = sum(rest, first)
    assert whole is not None
    assert_allclose(total.bins, whole.bins, rtol=1e-9, atol=1e-9)
    assert_allclose(total.jobs, whole.jobs, rtol=1e-9, atol=1e-9)
    assert all(not one.states or min(one.states) >= 0 for one in tally.attained if one is not None)


@pytest.mark.statistical
def test_estimates_stay_right_where_a_quarter_of_the_jobs_is_cancelled() -> None:
    """Within four standard errors, once in 8000 tests beyond; counted as departures, they are far off."""
    path = sized_path(SYSTEM, LAWS["exp"], 8000, np.random.default_rng(8))
    cancelled = cut_short(path, 0.5, 4, EventKind.CANCEL)
    assert cancelled.cancellations > 1500
    done = replace(
        cancelled,
        event=np.where(cancelled.event == EventKind.CANCEL, EventKind.DEPARTURE, cancelled.event).astype(
            np.int8
        ),
    )
    for seen, right in ((cancelled, True), (done, False)):
        for known in SYSTEM.classes:
            found = cw.estimate(seen, SYSTEM)[known.name]
            off = abs(found.value - known.speedup.parameters["p"]) / found.stderr
            assert (off < 4.0) == right
