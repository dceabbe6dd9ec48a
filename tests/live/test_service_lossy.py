"""A scheduler of somebody else's, whose clients repeat, reorder and lose requests: all the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")

import corewise as cw
from benchmarks.instruments.lossy_scheduler import Emulated, LossyScheduler
from corewise.live.journal.journal import Journal
from corewise.live.journal.pool_configuration import controller_of
from corewise.observation import events as happened
from corewise.observation.event_tally import EventTally
from tests.helpers.serving import POOL, service

NEVER, LONG = 10**6, 10**5
CLASSES = {"one": Emulated(6.0, 4.0, cw.Amdahl(0.3)), "two": Emulated(6.0, 3.0, cw.Amdahl(0.9))}


@pytest.mark.slow
def test_a_lossy_scheduler_reaches_what_the_same_events_reach_in_order(tmp_path: Path) -> None:
    with service(tmp_path, f"{POOL}\n[control]\nleast_seen = {NEVER}\nwindow = {LONG}\n") as running:
        scheduler = LossyScheduler(running.address, running.token, CLASSES, loss=0.2)
        scheduler.run(8.0, drain=True)
        last = scheduler.happened[-1].time
        more = [
            happened.JobArrived(last, f"last {k}", f"job-{k}", "one" if k % 2 else "two") for k in range(3)
        ]
        running.client().tell(more)
        found, jobs = running.client().report(), running.client().allocation()["jobs"]
        tallied = running.runtime.runner.ask(lambda controller: controller.tally.snapshot())
    assert scheduler.mishaps > 30
    with Journal.read(tmp_path / "pool.db") as journal:
        ordered = controller_of(journal)
    ordered.mode = "steer"
    for event in scheduler.happened:
        ordered.handle(event)
    for event in more:  # a batch
        ordered.handle(event, share=event is more[-1])
    wanted = ordered.report().as_mapping()
    assert [(row["job"], row["told"]) for row in jobs] == [(job.name, job.assigned) for job in ordered.jobs]
    for one, other in zip(found["classes"], wanted["classes"], strict=True):
        for key in ("arrived", "finished", "ended", "jobs", "told", "target"):
            assert one[key] == other[key]
        assert one["responses"]["mean"] == pytest.approx(other["responses"]["mean"], rel=1e-9)
    there = EventTally.of(ordered.system.names, tallied, ordered.options.lateness)
    for tally in (there, ordered.tally):
        tally.move_to(last + 1000.0)  # what was under way is counted
    assert there.late == 0
    for one, other in zip(there.close().classes, ordered.tally.close().classes, strict=True):
        assert one.arrivals == other.arrivals
        assert one.left == other.left > 10
        assert np.array_equal(one.widths, other.widths)
        assert one.departures == pytest.approx(other.departures)
        held = one.widths > 0.0  # those that wait do so up to the watermarks
        assert one.job_time[held] == pytest.approx(other.job_time[held], rel=1e-6, abs=1e-6)
