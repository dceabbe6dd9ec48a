"""Engine over Ray, which has no executor of its own.

A call is a task of one CPU that Ray does not repeat: one whose worker dies is repeated here. What Ray calls
cancelled goes on and keeps its CPU, so nothing is ever cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from types import ModuleType
from typing import Any

from corewise.errors import CorewiseError
from corewise.kit import checks
from corewise.kit.workers import ExecutorWorkers
from corewise.live.engines.dispatcher import ElasticDispatcher
from corewise.live.engines.rounds import ROUND_TIMEOUT

__all__ = ["RayEngine", "RayExecutor"]

_STARTING = 1.0  # seconds that a call lasts while workers are started, so that no worker has two of them


class RayExecutor(Executor):
    """Executor over Ray, as much of one as an engine needs."""

    def __init__(self) -> None:
        self._call = _ray().remote(num_cpus=1, max_retries=0)(_call)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Have Ray carry out a call."""
        future: Future[Any] = self._call.remote(function, arguments, named).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: Ray is shut down where it was started."""


class RayEngine(ElasticDispatcher):
    """Engine over Ray: over what this process is connected to, or else over one that is started for it.

    Parameters
    ----------
    address : str, optional
        Where Ray runs, as `ray.init` takes it; by default it is started on this machine. It then listens on
        an address of the machine that others can reach, whatever the options are.
    cores : int, optional
        The CPUs of one that is started here.
    extra : int, optional
        How many calls of bags to have in flight beyond the cores; see `ExecutorEngine`.
    round_timeout : float, optional
        Seconds that a round may last before there is an alert; see `ExecutorEngine`.
    """

    def __init__(
        self,
        address: str | None = None,
        cores: int | None = None,
        *,
        extra: int = 0,
        round_timeout: float = ROUND_TIMEOUT,
    ) -> None:
        ray = _ray()
        own = not ray.is_initialized()
        if own:
            count = None if cores is None else checks.count(cores, "cores")
            ray.init(address, num_cpus=count, include_dashboard=False, log_to_driver=False)
        super().__init__(_RayWorkers(own=own), _cores, extra, round_timeout)


class _RayWorkers(ExecutorWorkers):
    """Workers of Ray, which starts others itself."""

    def __init__(self, *, own: bool) -> None:
        super().__init__(RayExecutor())
        self.lost = (_ray().exceptions.WorkerCrashedError,)
        self.interruptible = own

    def open(self) -> None:
        """Have Ray start its workers, which takes it seconds: as many calls at once as there are cores."""
        wait([self._executor.submit(time.sleep, _STARTING) for _ in range(_cores())])

    def close(self) -> None:
        """End Ray, if it was started here."""
        if self.interruptible:
            _ray().shutdown()


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return function(*arguments, **named)


def _cores() -> int:
    return int(_ray().cluster_resources().get("CPU", 0))


def _ray() -> ModuleType:
    try:
        import ray
    except ImportError:
        raise CorewiseError("this engine needs Ray: install corewise[ray]") from None
    module: ModuleType = ray
    return module
