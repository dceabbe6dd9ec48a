"""Engine over a Dask cluster, whose workers may come and go.

Dask looks after its own workers: the calls of one that dies run again elsewhere, so they should be
idempotent. Two equal calls are two calls here, unlike Dask's default.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit.workers import ExecutorWorkers, dask_at, local_dask
from corewise.live.engines.dispatcher import ElasticDispatcher
from corewise.live.engines.rounds import ROUND_TIMEOUT

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["DaskEngine"]


class DaskEngine(ElasticDispatcher):
    """Engine over a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, which stays open, or the address of a scheduler. By default a cluster is started on this
        machine, which no other machine can reach, and ended with the engine.
    workers, threads : int, optional
        The processes of such a cluster and the threads in each; by default one thread for each core of the
        machine.
    extra : int, optional
        How many calls of bags to have in flight beyond the cores; see `ExecutorEngine`.
    round_timeout : float, optional
        Seconds that a round may last before there is an alert; see `ExecutorEngine`.
    """

    def __init__(
        self,
        client: Client | str | None = None,
        *,
        workers: int | None = None,
        threads: int = 1,
        extra: int = 0,
        round_timeout: float = ROUND_TIMEOUT,
    ) -> None:
        if client is not None and (workers is not None or threads != 1):
            raise InvalidInput(f"a Dask cluster that is there has its own workers, got workers={workers!r}")
        with ExitStack() as stack:
            own = client is None
            if client is None:
                client = stack.enter_context(local_dask(workers, threads))
            elif isinstance(client, str):
                client = stack.enter_context(dask_at(client))
            if not _cores(client):
                raise CorewiseError("the Dask cluster has no workers, of which an engine needs one at least")
            dask = _DaskWorkers(client, own=own)
            super().__init__(dask, partial(_cores, client), extra, round_timeout)
            dask.started = stack.pop_all()


def _cores(client: Client) -> int:
    return sum(client.ncores().values())


class _DaskWorkers(ExecutorWorkers):
    """Workers of a Dask cluster; one that was started here ends with whatever is in flight."""

    def __init__(self, client: Client, *, own: bool) -> None:
        super().__init__(client.get_executor(pure=False))
        self.interruptible = self.have_corewise = own  # a cluster of others may be without it
        self.started = ExitStack()
        """What was started for them."""

    def close(self) -> None:
        """End what was started here."""
        self._executor.shutdown(wait=not self.interruptible)
        self.started.close()
