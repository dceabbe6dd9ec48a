"""Worker pools, which carry out the trials of a sweep: processes of this machine, or a Dask cluster.

Either is an executor of ``concurrent.futures``. A pool of processes breaks as a whole when one of them dies,
and is then replaced; Dask looks after its own workers.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks
from corewise.kit.processes import abandon, processes, uninterrupted

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Pool", "dask_at", "dask_pool", "given_pool", "local_dask", "process_pool"]

_DASK_IN_FLIGHT = 1000  # enough to keep a large cluster busy between two looks at it
_LOCAL = "local"
_ADDRESS = re.compile(r"([a-z]+://)?([^\s/:\[\]]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}")
_ANSWER = 5.0  # seconds, within which a scheduler answers


@dataclass(frozen=True)
class Pool:
    """Worker pool: somewhere to send trials.

    Attributes
    ----------
    submit : callable
        Sends a call, and returns its future.
    in_flight : int
        How many to send before the first of them have come back.
    renew : callable or None
        Replaces the processes after one of them died; None if nobody here can.
    alone : callable or None
        Gives a pool of a single new process, for a trial that may be what they died of.
    """

    submit: Callable[..., Future[Any]]
    in_flight: int
    renew: Callable[[], None] | None = None
    alone: Callable[[], AbstractContextManager[Pool]] | None = None


@contextmanager
def given_pool(executor: Executor) -> Iterator[Pool]:
    """Use an executor that somebody else looks after."""
    if not isinstance(executor, Executor):
        raise InvalidInput(f"executor must be one of concurrent.futures, got {executor!r}")
    yield Pool(executor.submit, 2 * getattr(executor, "_max_workers", os.cpu_count() or 1))


# --- processes of this machine ----------------------------------------------------------------


@contextmanager
def process_pool(workers: int | None = None) -> Iterator[Pool]:
    """Start processes on this machine, as many as there are cores if not said otherwise."""
    count = os.cpu_count() or 1 if workers is None else checks.whole(workers, "workers")
    with ExitStack() as stack:
        current = stack.enter_context(processes(count))

        def submit(*call: Any) -> Future[Any]:
            return current.submit(*call)

        def renew() -> None:
            nonlocal current
            abandon(current)
            current = stack.enter_context(processes(count))

        @contextmanager
        def alone() -> Iterator[Pool]:
            with processes(1) as single:
                yield Pool(single.submit, 1)

        yield Pool(submit, 2 * count, renew, alone)


# --- Dask -------------------------------------------------------------------------------------


@contextmanager
def dask_pool(address: str, workers: int | None = None) -> Iterator[Pool]:
    """Use the Dask cluster whose scheduler is at `address`, or one on this machine if that is ``local``."""
    if address != _LOCAL and workers is not None:
        raise InvalidInput(f"the Dask cluster at {address} has its own workers, got workers={workers!r}")
    with local_dask(workers) if address == _LOCAL else dask_at(address) as client:
        executor = client.get_executor(pure=False)
        try:
            yield Pool(executor.submit, _DASK_IN_FLIGHT)
        finally:
            executor.shutdown(wait=False)  # whatever is unfinished is not wanted any more


@contextmanager
def local_dask(workers: int | None = None, threads: int = 1) -> Iterator[Client]:
    """Start a Dask cluster on this machine, for us alone, with so many threads in each worker process."""
    dask = _distributed()
    count = os.cpu_count() or 1 if workers is None else checks.whole(workers, "workers")
    with ExitStack() as stack:
        with uninterrupted():
            cluster = stack.enter_context(
                dask.LocalCluster(
                    n_workers=count,
                    threads_per_worker=checks.whole(threads, "threads"),
                    processes=True,
                    host="127.0.0.1",
                    # What goes wrong with a run comes back with it; else workers complain, with a traceback,
                    # of a scheduler that an interrupt has ended before them.
                    silence_logs=logging.CRITICAL,
                    # There is always a small server for health checks: on any free port, for us alone.
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                )
            )
        yield stack.enter_context(dask.Client(cluster, set_as_default=False))


@contextmanager
def dask_at(address: str) -> Iterator[Client]:
    """Connect to the Dask scheduler at an address."""
    dask = _distributed()
    if not _ADDRESS.fullmatch(address):
        raise InvalidInput(f"dask must be {_LOCAL} or an address like tcp://10.0.0.1:8786, got {address!r}")
    try:
        # What goes wrong is said once, below.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        client = dask.Client(address, timeout=_ANSWER, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise CorewiseError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        yield client


def _distributed() -> ModuleType:
    try:
        import distributed
    except ImportError:
        raise CorewiseError("a Dask cluster needs distributed: install corewise[dask]") from None
    return distributed
