"""The engine over a Dask cluster: it follows workers that die, and listens to this machine only."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from corewise.errors import InvalidInput
from corewise.live.engines.base import Bag, Gang, Holding, Rounds
from corewise.live.engines.dask import DaskEngine
from tests.helpers.engines import PATIENCE, Log, listening

pytestmark = pytest.mark.slow
pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[DaskEngine, Log]]:
    engine, log = DaskEngine(workers=2, threads=2), Log()
    engine.start(log.tell)
    yield engine, log
    engine.close()
    assert not listening(os.getpid())


def slowly(number: int) -> tuple[int, int]:
    time.sleep(0.1)
    return number, os.getpid()


def rounds(job: Holding, count: int, begun: threading.Event) -> Rounds:
    answers = []
    for _ in range(count):
        answers.append((yield [partial(slowly, k) for k in range(job.cores)]))
        begun.set()
    return answers


def test_it_listens_to_this_machine_only(engine: tuple[DaskEngine, Log]) -> None:
    assert engine[0].pool == 4
    assert listening(os.getpid()) == {"0100007F"}  # 127.0.0.1


def test_equal_calls_are_two_calls(engine: tuple[DaskEngine, Log]) -> None:
    bag = Bag(Holding("bag"), [partial(os.urandom, 8)] * 4)
    engine[0].submit(bag)
    engine[0].set_cores("bag", 2)
    assert len(set(bag.future.result(PATIENCE))) == 4


def test_a_worker_that_is_lost_is_followed_and_no_job_fails(engine: tuple[DaskEngine, Log]) -> None:
    holding = Holding("gang")
    begun = threading.Event()
    gang = Gang(holding, rounds(holding, 8, begun))
    engine[0].submit(gang)
    engine[0].set_cores("gang", 4)
    assert begun.wait(PATIENCE)
    victim = _a_worker(engine[0])
    os.kill(victim, signal.SIGKILL)
    engine[1].wait_for("pool-changed", 2)
    engine[1].wait_for("pool-changed", 4)  # Dask has started another
    answers = gang.future.result(PATIENCE)
    assert [[number for number, _ in answer] for answer in answers] == [[0, 1, 2, 3]] * 8
    assert victim in {process for _, process in answers[0]}
    assert engine[1].of("gang")[-1] == ("job-finished", "gang")


def _a_worker(engine: DaskEngine) -> int:
    bag = Bag(Holding("who"), [os.getpid])
    engine.submit(bag)
    engine.set_cores("who", 1)
    return int(bag.future.result(PATIENCE)[0])


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidInput, match="has its own workers, got workers=2"):
        DaskEngine("tcp://127.0.0.1:1", workers=2)
    with pytest.raises(InvalidInput, match="an address like"):
        DaskEngine("nowhere")
