"""Response times of jobs that came and left: against all who might have left, one by one; what is said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.simulation.response_times import ResponseTimes

SYSTEM = cw.System(
    6.0, [cw.JobClass("one", 3.0, 1.0, cw.Amdahl(0.8)), cw.JobClass("two", 1.5, 1.0, cw.PowerLaw(0.5))]
)
MANY = cw.System(20.0, [cw.JobClass(f"c{i}", 3.0, 1.0, cw.Amdahl(0.2 * i)) for i in range(5)])


def every_way(
    moves: list[tuple[int, bool, float]], jobs: dict[int, tuple[float | None, ...]], now: float = 0.0
) -> dict[int, tuple[float, float]]:
    """Return, by class, the expected total time and number of jobs that came and left: all ways written out.

    `moves` are the class, whether a job arrives, and the time before; `jobs` when each job present came, None
    if it was there at the beginning.
    """
    if not moves:
        return dict.fromkeys(jobs, (0.0, 0.0))
    (kind, arrives, lasted), rest = moves[0], moves[1:]
    at = now + lasted
    if arrives:
        return every_way(rest, {**jobs, kind: (*jobs[kind], at)}, at)
    total = {each: [0.0, 0.0] for each in jobs}
    for k, came in enumerate(jobs[kind]):
        later = every_way(rest, {**jobs, kind: jobs[kind][:k] + jobs[kind][k + 1 :]}, at)
        for each, (spent, left) in later.items():
            own = (at - came, 1.0) if each == kind and came is not None else (0.0, 0.0)
            total[each][0] += (spent + own[0]) / len(jobs[kind])
            total[each][1] += (left + own[1]) / len(jobs[kind])
    return {each: (spent, left) for each, (spent, left) in total.items()}


@pytest.mark.parametrize("seed", range(6))
def test_all_who_might_have_left_one_by_one(seed: int) -> None:
    """In two parts, as long runs are followed."""
    rng = np.random.default_rng(seed)
    start = tuple(rng.integers(0, 3, 2).tolist())
    counts, moves = list(start), []
    for _ in range(11):
        kind = int(rng.integers(2))
        arrives = bool(counts[kind] == 0 or rng.random() < 0.5)
        counts[kind] += 1 if arrives else -1
        moves.append((kind, arrives, float(rng.exponential())))
    expected = every_way(moves, {i: (None,) * n for i, n in enumerate(start)})
    found = ResponseTimes.of(start)
    what = np.array([kind if arrives else 2 + kind for kind, arrives, _ in moves], dtype=np.int16)
    lasted = np.array([time for *_, time in moves])
    found.follow(what[:4], lasted[:4])
    found.follow(what[4:], lasted[4:])
    assert found.spent.tolist() == pytest.approx([expected[i][0] for i in range(2)], rel=1e-12)
    assert found.left.tolist() == pytest.approx([expected[i][1] for i in range(2)], rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("system", [SYSTEM, MANY], ids=["tables", "without"])
def test_it_is_the_mean_over_who_left(system: cw.System) -> None:
    """Of one path with names drawn anew 300 times: within 5 standard errors, false alarm 6e-7 a class.

    Negative control: Little's law is farther away than that.
    """
    start = [2] * len(system.classes)
    run = cw.simulate(system, "equi", time=3.0, rng=5, start=start, record=True)
    assert run.path is not None
    again = cw.simulate(system, "equi", time=3.0, rng=5, start=start)
    name, row = max(run.classes.items(), key=lambda item: item[1].departures)
    assert again.classes[name] == row
    path, draw = run.path, np.random.default_rng(1)
    of_class = path.job_class == path.names.index(name)
    totals = []
    for _ in range(300):
        present: list[float | None] = []
        spent = left = 0.0
        for event, time in zip(path.event[of_class].tolist(), path.time[of_class].tolist(), strict=True):
            if event != cw.results.EventKind.DEPARTURE:
                present.append(None if event == cw.results.EventKind.PRESENT else time)
                continue
            came = present.pop(int(draw.integers(len(present))))
            spent, left = (spent, left) if came is None else (spent + time - came, left + 1.0)
        totals.append((spent, left))
    times, count = np.array(totals).T
    error = 5.0 / math.sqrt(300)
    assert abs(times.mean() - row.mean_response_time * row.completed) < error * times.std()
    assert abs(count.mean() - row.completed) <= error * count.std() + 1e-9
    assert abs(times.mean() - row.mean_jobs * run.time) > error * times.std()


@pytest.mark.parametrize("window", [{"departures": 1000}, {"time": 300.0}], ids=["departures", "time"])
@pytest.mark.parametrize("start", [None, [40, 40]])
def test_long_runs_are_made_again_if_jobs_are_left_over(
    window: dict[str, Any], start: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if they had been followed at once; with next to none left over, Little's law says the same."""
    full = cw.System(3.0, SYSTEM.classes)  # arrivals for more than its cores
    for system, policy in ((full, "equi"), (SYSTEM, "equi"), (MANY, "whittle")):
        if system is MANY and start:
            continue
        monkeypatch.undo()
        at_once = cw.simulate(system, policy, rng=2, start=start, **window)
        monkeypatch.setattr("corewise.simulation.window._FOLLOWED", 0)
        after = cw.simulate(system, policy, rng=2, start=start, **window)
        assert after.mean_jobs == at_once.mean_jobs
        if start or system is full:
            assert after.classes == at_once.classes
        monkeypatch.setattr("corewise.simulation.run._NEGLIGIBLE", 1.0)
        little = cw.simulate(system, policy, rng=2, start=start, **window)
        assert little.mean_response_time == pytest.approx(little.mean_jobs * little.time / little.departures)
        if system is full:
            assert little.mean_response_time > 1.2 * after.mean_response_time
        elif not start:
            assert little.mean_response_time == pytest.approx(at_once.mean_response_time, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_no_mean_is_longer_than_the_run(seed: int) -> None:
    """While a system fills, jobs over the departure rate were."""
    large = cw.System(64.0, [cw.JobClass("one", 60.0, 1.0, cw.Amdahl(0.9))])
    run = cw.simulate(large, "equi", departures=5, rng=seed)
    assert run.mean_response_time < run.time
    assert not run.settled
    several = cw.replicate(large, "equi", n=3, departures=5, rng=seed)
    assert several.mean_response_time < max(each.time for each in several.runs)
    assert not several.settled


@pytest.mark.statistical
def test_short_runs_come_nearer_to_the_long_run_than_littles_law() -> None:
    """EQUI from the empty state, M/M/1 with a mean of 2: bias over 400 runs of 30 departures.

    The standard error of the difference of both means, run by run, is below its fifth: false alarm 3e-7.
    """
    system = cw.System(1.0, [cw.JobClass("one", 0.5, 1.0, cw.Amdahl(1.0))])
    runs = cw.replicate(system, "equi", n=400, departures=30, rng=8).runs
    found = np.array([run.mean_response_time for run in runs])
    little = np.array([run.mean_jobs * run.time / run.departures for run in runs])
    apart = little - found
    assert apart.mean() > 5.0 * apart.std() / math.sqrt(400)
    assert (found > 0.0).all()
    assert all(run.classes["one"].completed == 30.0 for run in runs)


def test_a_run_that_has_settled_and_one_in_which_a_class_starves() -> None:
    assert cw.simulate(SYSTEM, "equi", departures=2000, rng=1).settled
    starving = cw.System(3.0, SYSTEM.classes)
    run = cw.simulate(starving, "priority:one,two", departures=2000, rng=1)
    assert not run.settled
    assert not cw.simulate(starving, "equi", departures=2000, rng=1).settled


def test_no_one_who_came_has_left() -> None:
    """All who left were there at the start: no response time has been seen."""
    system = cw.System(4.0, [cw.JobClass("one", 1e-9, 1.0, cw.Amdahl(0.5))])
    run = cw.simulate(system, "equi", departures=3, rng=1, start=[5])
    assert run.departures == 3
    assert run.classes["one"].completed == 0.0
    assert math.isnan(run.mean_response_time)
