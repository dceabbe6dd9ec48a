"""Workers: what carries out the calls of an engine, and what to do when some of them die."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any, Protocol

from corewise.errors import InvalidInput
from corewise.kit.processes import abandon, processes
from corewise.kit.transport import carry_out, pack_call, unpack_answer
from corewise.live.engines.base import Call

__all__ = ["ExecutorWorkers", "OwnProcesses", "PackedWorkers", "Workers", "workers_of"]


class Workers(Protocol):
    """Workers: they take a call, and say when it is done."""

    lost: tuple[type[BaseException], ...]
    """What the future of a call raises whose worker has died: it is to be carried out again."""
    interruptible: bool
    """Whether calls in flight end when the workers are closed."""
    have_corewise: bool
    """Whether corewise can be imported where calls are carried out, and calls so be sent with a clock."""

    def open(self) -> None:
        """Begin."""
        ...

    def submit(self, call: Call) -> Future[Any]:
        """Carry out a call."""
        ...

    def answer(self, future: Future[Any]) -> Any:
        """Return what the call of a future that is done has returned, or raise what it has raised."""
        ...

    def renew(self) -> None:
        """Replace workers that have died."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


class ExecutorWorkers:
    """Workers of an executor, which is closed with them; one that has broken cannot be replaced."""

    lost: tuple[type[BaseException], ...] = ()
    interruptible = False
    have_corewise = True

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def open(self) -> None:
        """Begin: the executor is there."""

    def submit(self, call: Call) -> Future[Any]:
        """Carry out a call."""
        return self._executor.submit(call)

    def answer(self, future: Future[Any]) -> Any:
        """Return what a call has returned, or raise what it has raised."""
        return future.result()

    def renew(self) -> None:
        """Leave the workers to whoever looks after them."""

    def close(self) -> None:
        """End the workers once they are idle."""
        self._executor.shutdown(wait=True)


class PackedWorkers(ExecutorWorkers):
    """Workers of a pool of processes; if one of them dies all calls in flight are lost, and the pool is."""

    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        super().__init__(executor)

    def submit(self, call: Call) -> Future[Any]:
        """Carry out a call."""
        return self._executor.submit(carry_out, pack_call(call))

    def answer(self, future: Future[Any]) -> Any:
        """Return what a call has returned, or raise what it has raised."""
        return unpack_answer(future.result())

    def renew(self) -> None:
        """Make another pool like the one that broke."""
        broken: Any = self._executor
        broken.shutdown(wait=True)
        self._executor = ProcessPoolExecutor(
            broken._max_workers,
            mp_context=broken._mp_context,
            initializer=broken._initializer,
            initargs=broken._initargs,
            max_tasks_per_child=broken._max_tasks_per_child,
        )


class OwnProcesses(PackedWorkers):
    """Processes of this machine, which are ended at once when they are not needed any more."""

    interruptible = True

    def __init__(self, count: int) -> None:
        self._count = count
        self._stack = ExitStack()

    def open(self) -> None:
        """Start the processes."""
        self._executor = self._stack.enter_context(processes(self._count))

    def renew(self) -> None:
        """Start other processes."""
        self._abandon()
        self.open()

    def close(self) -> None:
        """End the processes, whatever they are at."""
        self._abandon()
        self._stack.close()

    def _abandon(self) -> None:
        executor = getattr(self, "_executor", None)
        if isinstance(executor, ProcessPoolExecutor):
            abandon(executor)


def workers_of(executor: Executor) -> Workers:
    """Return the workers of an executor."""
    if isinstance(executor, ProcessPoolExecutor):
        return PackedWorkers(executor)
    if not isinstance(executor, Executor):
        raise InvalidInput(f"executor must be one of concurrent.futures, got {executor!r}")
    return ExecutorWorkers(executor)
