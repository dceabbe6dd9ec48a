"""The engine over Ray: with a stand-in that loses workers, and with Ray itself where it is installed."""

from __future__ import annotations

import os
import signal
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corewise.errors import CorewiseError
from corewise.live.engines.base import Bag, Gang, Holding, Rounds
from corewise.live.engines.ray import RayEngine
from tests.helpers.engines import PATIENCE, Log


class WorkerCrashedError(Exception):
    """What Ray raises for a call whose worker has died."""


class StandIn(types.ModuleType):
    """As much of Ray as the engine asks for: threads, of which every third call is lost."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(WorkerCrashedError=WorkerCrashedError)
        self.threads = ThreadPoolExecutor(4)
        self.cores, self.calls, self.told = 4.0, 0, dict[str, Any]()

    def is_initialized(self) -> bool:
        return False

    def init(self, address: str | None, **options: Any) -> None:
        self.told = {"address": address, **options}

    def shutdown(self) -> None:
        self.threads.shutdown()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.cores}

    def remote(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        assert options == {"num_cpus": 1, "max_retries": 0}

        def decorated(function: Callable[..., Any]) -> Any:
            def send(*arguments: Any) -> Any:
                self.calls += 1
                lost = self.calls % 3 == 0
                future = self.threads.submit(_crash if lost else function, *arguments)
                return types.SimpleNamespace(future=lambda: future)

            return types.SimpleNamespace(remote=send)

        return decorated


def _crash(*_: Any) -> None:
    raise WorkerCrashedError("the worker died")


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr("corewise.live.engines.ray._STARTING", 0.0)
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    return stand_in


def rounds(job: Holding) -> Rounds:
    answers = []
    for k in range(5):
        answers.append((yield [partial(pow, k, 2)] * job.cores))
    return answers


def test_calls_that_are_lost_run_again_and_cores_are_watched(ray: StandIn) -> None:
    engine, log = RayEngine(cores=4), Log()
    assert ray.told["num_cpus"] == 4
    engine.start(log.tell)
    holding = Holding("a")
    gang = Gang(holding, rounds(holding))
    engine.submit(gang)
    engine.set_cores("a", 3)
    assert gang.future.result(PATIENCE) == [[k * k] * 3 for k in range(5)]
    assert ray.calls > 4 + 15
    ray.cores = 2.0
    log.wait_for("pool-changed", 2)
    engine.close()
    assert log.of("a")[-1] == ("job-finished", "a")


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(CorewiseError, match=r"install corewise\[ray\]"):
        RayEngine()


# --- Ray itself -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[RayEngine, Log]]:
    pytest.importorskip("ray")
    engine, log = RayEngine(cores=4), Log()
    engine.start(log.tell)
    yield engine, log
    engine.close()


def die_once(flag: str) -> int:
    path = Path(flag)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # it warns of much that is its own business
def test_ray_loses_a_worker_and_no_job(real: tuple[RayEngine, Log], tmp_path: Path) -> None:
    engine, log = real
    futures: list[Future[Any]] = []
    for name, calls in (("a", [partial(die_once, str(tmp_path / "flag"))]), ("b", [partial(pow, 2, 2)] * 8)):
        bag = Bag(Holding(name), calls)
        engine.submit(bag)
        engine.set_cores(name, 2)
        futures.append(bag.future)
    assert [future.result(PATIENCE) for future in futures] == [[7], [4] * 8]
    assert {told[0] for told in log.told} == {"cores-held", "job-finished"}
