"""Engine over a Dask cluster, whose workers may come and go.

Dask looks after its own workers: the calls of one that dies run again elsewhere, so they should be such that
this does no harm. How many cores there are is looked at ten times a second. Two equal calls are two calls
here, unlike what Dask does if it is not told otherwise.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks
from corewise.live.engines.base import Tell
from corewise.live.engines.dispatcher import Dispatcher
from corewise.live.engines.workers import ExecutorWorkers
from corewise.studies.sweeps.pools import dask_at, local_dask

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["DaskEngine"]

_LOOK = 0.1  # seconds between two looks at the number of cores


class DaskEngine(Dispatcher):
    """Engine over a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, which stays open, or the address of a scheduler. By default a cluster is started on this
        machine, which nobody else can reach, and ended with the engine.
    workers, threads : int, optional
        The processes of such a cluster and the threads in each; by default one thread for each core of the
        machine.
    extra : int, optional
        How many calls of bags to have in flight beyond the cores; see `ExecutorEngine`.
    """

    def __init__(
        self,
        client: Client | str | None = None,
        *,
        workers: int | None = None,
        threads: int = 1,
        extra: int = 0,
    ) -> None:
        checks.count(extra, "extra", least=0)
        if client is not None and (workers is not None or threads != 1):
            raise InvalidInput(f"a Dask cluster that is there has its own workers, got workers={workers!r}")
        with ExitStack() as stack:
            own = client is None
            if client is None:
                client = stack.enter_context(local_dask(workers, threads))
            elif isinstance(client, str):
                client = stack.enter_context(dask_at(client))
            self._client = client
            cores = self._cores()
            if not cores:
                raise CorewiseError("the Dask cluster has no workers, of which an engine needs one at least")
            super().__init__(_DaskWorkers(client, stack.pop_all(), own=own), cores, extra)
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="corewise-dask-watcher", daemon=True)

    def start(self, tell: Tell) -> None:
        """Begin; what happens from now on is told."""
        super().start(tell)
        self._watcher.start()

    def close(self) -> None:
        """End all jobs, and the cluster if it was started here."""
        self._closed.set()
        if self._watcher.is_alive():
            self._watcher.join()
        super().close()

    def _cores(self) -> int:
        return sum(self._client.ncores().values())

    def _watch(self) -> None:
        """Tell when workers have come or gone; of none at all nobody can make use, so that is not told."""
        while not self._closed.wait(_LOOK):
            try:
                cores = self._cores()
            except (OSError, ValueError):  # the scheduler is gone: the calls in flight say so
                continue
            if cores:
                self.change_pool(cores)


class _DaskWorkers(ExecutorWorkers):
    """Workers of a Dask cluster; one that was started here ends with whatever is in flight."""

    def __init__(self, client: Client, stack: ExitStack, *, own: bool) -> None:
        super().__init__(client.get_executor(pure=False))
        self._stack, self.interruptible = stack, own

    def close(self) -> None:
        """End what was started here."""
        self._executor.shutdown(wait=not self.interruptible)
        self._stack.close()
