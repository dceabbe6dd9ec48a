"""Times of events: each counts at its time or not at all, however late it is reported, by whatever clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import count

import pytest

import corewise as cw
from corewise.errors import InvalidInput
from corewise.learning.algorithms import live_algorithm
from corewise.learning.learner import Inference, infer
from corewise.live.state.controller import Controller, Options
from corewise.live.state.instructions import Alert
from corewise.observation import events as happened
from corewise.observation.event_tally import EventTally
from corewise.observation.statistics import Statistics

TRUTH = {"training": 0.95, "etl": 0.35}
GAP, SIZE = 3.0, 10.0  # seconds between arrivals of both classes together; mean size on one core
SYSTEM = cw.System(16, [cw.JobClass(name, None, None, cw.Amdahl(0.5)) for name in TRUTH])
LATENESS = 300.0

Timed = tuple[float, happened.Event]


def controller(opened: float = 0.0, lateness: float = LATENESS) -> Controller:
    options = Options(lateness=lateness)
    return Controller(live_algorithm(SYSTEM), lambda _: cw.Equi(), time=opened, options=options)


def history(
    begin: float, end: float, seed: int, prefix: str = "", clock: Callable[[int], float] = lambda _: 0.0
) -> list[Timed]:
    """Jobs that change their width at random, as (when it really happened, event); `clock` is off by job."""
    rng, now = random.Random(seed), begin
    events: list[Timed] = []
    for number in count(1):
        now += rng.expovariate(1.0 / GAP)
        if now >= end:
            break
        name, job_class, off = f"{prefix}{number}", rng.choice(list(TRUTH)), clock(number)
        speed = {width: 1.0 / (1.0 - TRUTH[job_class] + TRUTH[job_class] / width) for width in (1, 2, 4, 8)}
        left, at, ids = rng.expovariate(1.0 / SIZE), now, (f"{prefix}{number}-{k}" for k in count())
        events.append((at, happened.JobArrived(at + off, next(ids), name, job_class)))
        while True:
            width, lasts = rng.choice(list(speed)), rng.expovariate(0.25)
            events.append((at, happened.CoresHeld(at + off, next(ids), name, width)))
            if lasts * speed[width] >= left:
                at += left / speed[width]
                break
            left, at = left - lasts * speed[width], at + lasts
        events.append((at, happened.JobFinished(at + off, next(ids), name)))
    return sorted(events, key=lambda row: row[0])


def told(seen: Controller, events: Iterable[Timed]) -> list[str]:
    """Report events in the order in which they happened; return the texts of the alerts."""
    made = [instruction for _, event in events for instruction in seen.handle(event)]
    return [one.text for one in made if isinstance(one, Alert) and one.about == "time"]


def inference_of(seen: Controller) -> Inference:
    return infer(seen.inference_request())


def deviations(seen: Controller) -> list[float]:
    """How many standard errors the estimates are from the truth: p, arrival rate, size rate by class."""
    found = []
    for row in inference_of(seen).classes:
        p, error = row.parameters["p"], row.stderrs["p"]
        found.append((p - TRUTH[row.name]) / error)
        for quantity, truth in ((row.arrival_rate, 0.5 / GAP), (row.size_rate, 1.0 / SIZE)):
            assert quantity is not None
            found.append((quantity.value - truth) / quantity.stderr)
    return found


def test_history_that_is_told_late_is_in_the_books_and_not_learned_from() -> None:
    """600 jobs of two hours ago (`past2.py`): arrival rates were 59 a second where 0.17 is true."""
    seen = controller(opened=7200.0)
    alerts = told(seen, history(0.0, 1800.0, seed=1))
    jobs = sum(book.finished for book in seen.counters)
    assert jobs > 500
    assert sum(book.responses for book in seen.counters) == jobs
    assert 3.0 < sum(book.mean for book in seen.counters) / 2.0 < 8.0
    assert seen.learner.state.k == 0
    assert seen.tally.departures == 0
    assert seen.tally.late > 3 * jobs
    assert seen.report().late_events == seen.tally.late
    assert f"{seen.tally.late} events came too late to be learned from" in str(seen.report())
    assert [text.split(" came ")[0] for text in alerts] == [
        "one event",
        *(f"{n} events" for n in (10, 100, 1000)),
    ]
    later = seen.tally.late
    assert told(seen, history(7210.0, 7210.0 + 4 * 3600.0, seed=2, prefix="live ")) == []
    assert seen.tally.late == later
    assert max(map(abs, deviations(seen))) < 4.0


@pytest.mark.statistical
@pytest.mark.parametrize("lag", [0.0, 30.0, 120.0])
def test_a_scheduler_whose_clock_is_behind_is_learned_from(lag: float) -> None:
    """The clock of the pool goes right, by a tick a second: the first windows had 133 arrivals a second.

    Six estimates, each beyond four standard errors with a probability of 6e-5: 4e-4 in all.
    """
    seen = controller(opened=0.0)
    ticks = [(float(k), happened.Tick(float(k), f"tick {k}")) for k in range(4 * 3600)]
    events = sorted([*history(0.0, 4 * 3600.0, 1, clock=lambda _: -lag), *ticks], key=lambda row: row[0])
    told(seen, events)
    assert seen.learner.state.k > 10
    assert max(map(abs, deviations(seen))) < 4.0
    assert seen.tally.late < 20  # the first ones of a clock that is found to be behind


@pytest.mark.statistical
def test_ten_schedulers_two_minutes_apart_are_as_good_as_one() -> None:
    """False alarms: 4e-4, as above. The control: with no lateness allowed estimates are far off."""
    rng = random.Random(4)
    off = {k: rng.uniform(-60.0, 60.0) for k in range(10)}
    events = history(0.0, 4 * 3600.0, 2, clock=lambda job: off[job % 10])
    good, bad = controller(), controller(lateness=0.0)
    told(good, events)
    assert max(map(abs, deviations(good))) < 4.0
    assert good.tally.late < 0.01 * len(events)
    assert told(bad, events)  # and it is said
    assert bad.tally.late > 0.05 * len(events)
    assert max(map(abs, deviations(bad))) > 6.0


@pytest.mark.statistical
def test_a_clock_that_is_set_back_an_hour_is_survived() -> None:
    """`step2.py`: 61 minutes later p was 0.02 [0, 0.08], truth 0.95, and arrivals 91 a second.

    False alarms: six estimates at each of four looks beyond four standard errors, 2e-3.
    """
    seen = controller()
    told(seen, history(0.0, 1200.0, 1, "a", clock=lambda _: 3600.0))
    windows = seen.learner.state.k
    alerts = told(seen, history(1200.0, 4700.0, 2, "b"))
    assert alerts
    assert "too late to be learned from" in alerts[-1]
    assert seen.learner.state.k <= windows + 1
    ends = (4860.0, 2 * 3600.0, 4 * 3600.0, 12 * 3600.0)
    for number, (begin, end) in enumerate(zip((4700.0, *ends), ends, strict=False)):
        told(seen, history(begin, end, 3 + number, f"c{number}"))
        assert max(map(abs, deviations(seen))) < 4.0
    assert seen.learner.state.k > windows


@pytest.mark.statistical
def test_another_truth_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the tests above: jobs of another curve, or twice as many, are beyond four errors."""
    events = history(0.0, 4 * 3600.0, 1)
    seen = controller()
    told(seen, events)
    assert max(map(abs, deviations(seen))) < 4.0
    for name, value in (("TRUTH", {"training": 0.85, "etl": 0.35}), ("GAP", 2.0 * GAP), ("SIZE", 1.3 * SIZE)):
        with monkeypatch.context() as other:
            other.setattr(f"{__name__}.{name}", value)
            assert max(map(abs, deviations(seen))) > 4.0


def test_jobs_that_are_there_when_the_clock_is_set_back_leave_and_count_nowhere() -> None:
    seen = controller()
    for event in (
        happened.JobArrived(4000.0, "1", "a", "etl"),
        happened.CoresHeld(4000.0, "2", "a", 8),
        happened.CoresHeld(500.0, "3", "a", 2),  # an hour earlier: it holds 2 all the same
        happened.JobFinished(600.0, "4", "a"),
    ):
        seen.handle(event)
        if event.id == "3":
            assert seen.jobs.by_name["a"].held == 2
    book = seen.counters[1]
    assert (book.arrived, book.finished, book.responses) == (1, 1, 0)
    seen.handle(happened.Tick(9000.0, "5"))
    assert (seen.tally.departures, seen.tally.late) == (0, 2)


def test_a_report_that_was_overtaken_says_nothing() -> None:
    seen = controller()
    for event in (
        happened.JobArrived(100.0, "1", "a", "etl"),
        happened.CoresHeld(120.0, "2", "a", 8),
        happened.CoresHeld(110.0, "3", "a", 2),
    ):
        seen.handle(event)
    assert seen.jobs.by_name["a"].held == 8


def test_what_is_said_of_an_earlier_job_does_not_touch_a_later_one_of_its_name() -> None:
    """`reuse.py`: a late message of the old q made the new one hold 7, another ended it."""
    seen = controller()
    seen.handle(happened.JobArrived(0.0, "1", "q", "etl"))
    seen.handle(happened.JobFinished(1.0, "2", "q"))
    seen.handle(happened.JobArrived(2.0, "3", "q", "training"))
    for event in (
        happened.CoresHeld(0.5, "4", "q", 7),
        happened.JobFinished(1.0, "5", "q"),
        happened.Progress(1.5, "6", "q", 1.0),
        happened.MoveRefused(1.5, "7", "q", 3, "no room"),
    ):
        with pytest.raises(InvalidInput, match=rf"{event.kind}: job 'q' came .* s after this, at 2\.0"):
            seen.handle(event)
    assert seen.jobs.by_name["q"].held == 0
    seen.handle(happened.CoresHeld(2.5, "8", "q", 7))
    assert seen.jobs.by_name["q"].held == 7


def test_an_end_that_overtakes_its_arrival_leaves_no_ghost() -> None:
    seen = controller()
    (alert,) = [one for one in seen.handle(happened.JobFinished(5.0, "1", "q")) if isinstance(one, Alert)]
    assert "no job 'q' is there yet (it counts once its arrival is reported)" in alert.text
    with pytest.raises(InvalidInput, match="no job 'q' is there"):
        seen.handle(happened.JobFinished(5.5, "2", "q"))  # it was reported already
    seen.handle(happened.JobArrived(3.0, "3", "q", "etl"))
    assert not seen.jobs.by_name
    book = seen.counters[1]
    assert (book.arrived, book.finished, book.responses, book.mean) == (1, 1, 1, 2.0)
    seen.handle(happened.JobArrived(6.0, "4", "q", "etl"))  # another job
    assert list(seen.jobs.by_name) == ["q"]
    seen.handle(happened.JobFinished(7.0, "5", "r"))
    seen.handle(happened.JobArrived(8.0, "6", "r", "etl"))  # neither was dated by its sender
    assert list(seen.jobs.by_name) == ["q"]
    assert (book.arrived, book.finished, book.responses) == (3, 2, 1)
    seen.handle(happened.JobFinished(9.0, "7", "s"))
    seen.handle(happened.JobArrived(100.0, "8", "s", "etl"))  # a name used again, after a stray end
    assert list(seen.jobs.by_name) == ["q", "s"]


LATE = [(10.0, "a+", 2.0), (11.0, "b+", 11.0), (12.0, "a4", 4.0), (13.0, "a-", 12.0), (14.0, "b-", 13.0)]

# --- the tally alone --------------------------------------------------------------------------------


def tallied(changes: Iterable[tuple[float, str, float]], lateness: float) -> EventTally:
    """A tally of one class; rows are (reported, what, at) of jobs named by a letter."""
    tally = EventTally(["one"], 0.0, lateness)
    for reported, what, at in changes:
        job, kind = what[0], what[1:]
        tally.move_to(reported)
        if kind == "+":
            tally.arrive(job, 0, 1, at, counted=True)
        elif kind == "-":
            tally.leave(job, at, finished=True)
        else:
            tally.hold(job, int(kind), at)
    return tally


def test_a_window_ends_at_the_watermark_and_what_lies_behind_is_for_the_next() -> None:
    tally = tallied(LATE, 100.0)  # the first is 8 late: from then on the watermark is 10 behind
    first = tally.close()
    assert (first.time, first.departures, first["one"].arrivals) == (10.0, 0, 1)
    assert table(first) == {1.0: (0.0, 2.0), 4.0: (0.0, 6.0)}
    tally.move_to(40.0)
    second = tally.close()
    assert (second.time, second.departures, second["one"].arrivals) == (20.0, 2, 1)  # up to 40 - 10
    assert table(second) == {1.0: (1.0, 2.0), 4.0: (1.0, 2.0)}
    assert tally.late == 0


def test_nothing_waits_where_events_come_in_order() -> None:
    tally = tallied([(1.0, "a+", 1.0), (2.0, "a4", 2.0), (5.0, "a-", 5.0)], 100.0)
    assert tally.departures == 1
    assert table(tally.close()) == {1.0: (0.0, 1.0), 4.0: (1.0, 3.0)}


def test_a_tally_goes_on_from_its_snapshot_while_events_wait() -> None:
    whole = tallied(LATE, 100.0)
    again = EventTally.of(["one"], whole.snapshot(), 100.0)
    for tally in (whole, again):
        tally.move_to(17.0)
        tally.arrive("c", 0, 2, 16.0, counted=True)
        tally.move_to(60.0)
    assert again.snapshot() == whole.snapshot()
    assert table(again.close()) == table(whole.close())


def table(seen: Statistics) -> dict[float, tuple[float, float]]:
    one = seen["one"]
    rows = zip(one.widths.tolist(), one.departures.tolist(), one.job_time.tolist(), strict=True)
    return {width: (left, spent) for width, left, spent in rows if left or spent}
