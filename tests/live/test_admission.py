"""Admission: what cannot have happened is refused before it is written, what is known is left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import corewise as cw
from corewise.errors import InvalidInput
from corewise.kit.workers import ExecutorWorkers
from corewise.live.engines.base import JobSpec, ReportEvent
from corewise.live.journal.journal import Journal
from corewise.live.run.runner import Runner
from corewise.live.state.admission import Admission
from corewise.live.state.controller import Controller
from corewise.observation import events as happened

SYSTEM = cw.System(4, [cw.JobClass("one", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5))])


def controller() -> Controller:
    return Controller(cw.algorithm_1b(SYSTEM), lambda _: cw.Equi(), mode="steer")


class Elsewhere:
    pool, pause = 4, None

    def start(self, report: ReportEvent) -> None: ...

    def submit(self, job: JobSpec) -> None: ...

    def set_cores(self, job: str, cores: int) -> None: ...

    def end(self, job: str) -> None: ...

    def close(self) -> None: ...


@contextmanager
def running(path: Path) -> Iterator[Runner]:
    solver = ExecutorWorkers(ThreadPoolExecutor(1))
    with Journal.open(path, {"pool": "test"}) as journal:
        runner = Runner(controller(), Elsewhere(), solver, journal)
        runner.start()
        try:
            yield runner
        finally:
            runner.close()
            solver.close()


def kinds_in(path: Path) -> list[str]:
    with Journal.read(path) as journal:
        return [event.kind for _, event in journal.events()]


def admission_to(pool: Controller) -> Admission:
    """Admission to a pool whose journal is empty."""
    return Admission(pool.system, pool.known_jobs, pool.pool, {})


def test_a_job_may_come_and_go_in_one_batch() -> None:
    admission = admission_to(controller())
    admission.admit([happened.JobArrived(0.0, "1", "a", "one"), happened.JobFinished(1.0, "2", "a")])
    with pytest.raises(InvalidInput, match="job-finished: no job 'a' is there"):
        admission.admit([happened.JobFinished(2.0, "3", "a")])
    admission.admit([happened.JobArrived(2.0, "4", "a", "one")])
    with pytest.raises(InvalidInput, match="event 2 of 2, '6': job-arrived: job 'a' is there already"):
        admission.admit(
            [happened.JobArrived(3.0, "5", "b", "one"), happened.JobArrived(3.0, "6", "a", "one")]
        )
    admission.admit([happened.JobArrived(3.0, "7", "b", "one")])  # what was refused has left nothing behind


def test_a_pool_that_grows_has_room_for_what_comes_behind() -> None:
    admission = admission_to(controller())
    wide = happened.JobArrived(1.0, "2", "a", "one", least=6)
    with pytest.raises(InvalidInput, match="needs 6 cores, and the pool has 4"):
        admission.admit([wide])
    admission.admit([happened.PoolChanged(0.0, "1", 8), wide])


def test_admission_agrees_with_a_controller_that_handles_one_by_one() -> None:
    rng = random.Random(11)
    for _ in range(200):
        truth, admission = controller(), admission_to(controller())
        for k in range(30):
            event = _any_event(rng, str(k))
            assert _refusal(partial(admission.admit, [event])) == _refusal(partial(truth.handle, event))


def _refusal(act: Callable[[], object]) -> str | None:
    """Return why something is refused, but for what else is there."""
    try:
        act()
    except InvalidInput as error:
        return str(error).split(";", maxsplit=1)[0]
    return None


def _any_event(rng: random.Random, name: str) -> happened.Event:
    job, time = rng.choice("abc"), float(name)
    match rng.randrange(5):
        case 0 | 1:
            return happened.JobArrived(
                time, name, job, rng.choice(["one", "one", "two"]), least=rng.randint(1, 6)
            )
        case 2:
            return happened.JobFinished(time, name, job)
        case 3:
            return happened.CoresHeld(time, name, job, rng.randint(0, 4))
        case _:
            return happened.PoolChanged(time, name, rng.randint(1, 8))


def test_what_is_refused_is_not_written_and_may_be_told_again(tmp_path: Path) -> None:
    arrived, held = happened.JobArrived(0.0, "1", "a", "one"), happened.CoresHeld(1.0, "2", "a", 4)
    with running(tmp_path / "pool.db") as runner:
        with pytest.raises(InvalidInput, match="no job 'a' is there"):
            runner.submit([held]).result()
        with pytest.raises(InvalidInput, match="event 1 of 2"):
            runner.submit([held, arrived]).result()
        assert len(runner.submit([arrived]).result()) == 1
        assert len(runner.submit([held]).result()) == 1
        assert runner.ask(lambda seen: seen.jobs.by_name["a"].held) == 4
    assert kinds_in(tmp_path / "pool.db") == ["job-arrived", "cores-held", "tick"]


def test_what_is_told_again_changes_nothing(tmp_path: Path) -> None:
    arrived, held = happened.JobArrived(0.0, "1", "a", "one"), happened.CoresHeld(1.0, "2", "a", 4)
    with running(tmp_path / "pool.db") as runner:
        answers = [runner.submit(batch) for batch in ([arrived], [arrived], [arrived, held, held], [held])]
        assert [len(answer.result()) for answer in answers] == [1, 0, 1, 0]
    with running(
        tmp_path / "pool.db"
    ) as runner:  # an id of before a restart, which this controller never saw
        assert runner.submit([arrived]).result() == []
    assert kinds_in(tmp_path / "pool.db") == ["job-arrived", "cores-held", "tick", "tick"]
