"""Worker pools: threads, processes or a Dask cluster that carry out calls, and what to do when a worker dies.

`Workers` take a call and give back its future. `ReliableCalls` carries out again what was lost with a worker.
A pool of processes breaks as a whole when one of them dies: all calls in flight are lost, and nothing says
which of them killed it. So all of them are carried out again by new processes; one that was lost three times
is suspected and carried out with nothing beside it, and if its worker dies then, it was this call.

Calls travel to processes as bytes. An executor that pickles by itself breaks as a whole where an answer
cannot be unpickled; here that is the error of this one call.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "ExecutorWorkers",
    "LocalProcesses",
    "Outcome",
    "PickledWorkers",
    "ReliableCalls",
    "WorkerCall",
    "Workers",
    "abandon",
    "carry_out",
    "dask_at",
    "local_dask",
    "pack_call",
    "processes",
    "unpack_answer",
    "workers_of",
]

Call = Callable[[], Any]

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_SUSPECTED = 3  # losses, after which a call is carried out alone
_OF_MAIN = re.compile(r"Can't get attribute '(?P<name>[^']+)' on <module '(?P<module>__main__|__mp_main__)'")
_ADDRESS = re.compile(r"([a-z]+://)?([^\s/:\[\]]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}")
_ANSWER = 5.0  # seconds, within which a Dask scheduler answers


# --- workers ----------------------------------------------------------------------------------------


class Workers(Protocol):
    """Workers: they take calls, and give back futures."""

    lost: tuple[type[BaseException], ...]
    """The errors by which the future of a call says that its worker has died."""
    interruptible: bool
    """Whether calls in flight end when the workers are closed."""
    have_corewise: bool
    """Whether corewise can be imported by the workers, so that calls can be sent with a clock."""

    def open(self) -> None:
        """Start the workers."""
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
    """Workers of an executor, which is shut down with them; one that has broken cannot be replaced."""

    lost: tuple[type[BaseException], ...] = ()
    interruptible = False
    have_corewise = True

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def open(self) -> None:
        """Do nothing: the executor has been started."""

    def submit(self, call: Call) -> Future[Any]:
        """Carry out a call."""
        return self._executor.submit(call)

    def answer(self, future: Future[Any]) -> Any:
        """Return what a call has returned, or raise what it has raised."""
        return future.result()

    def renew(self) -> None:
        """Do nothing: the executor looks after its own workers."""

    def close(self) -> None:
        """End the workers once they are idle."""
        self._executor.shutdown(wait=True)


class PickledWorkers(ExecutorWorkers):
    """Workers of a process pool; if one of them dies the pool breaks, and all calls in flight are lost."""

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
        """Start another pool like the one that broke."""
        broken: Any = self._executor
        broken.shutdown(wait=True)
        self._executor = ProcessPoolExecutor(
            broken._max_workers,
            mp_context=broken._mp_context,
            initializer=broken._initializer,
            initargs=broken._initargs,
            max_tasks_per_child=broken._max_tasks_per_child,
        )


class LocalProcesses(PickledWorkers):
    """Processes of this machine, which are terminated when the workers are closed."""

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
        """Terminate the processes, busy or not."""
        self._abandon()
        self._stack.close()

    def _abandon(self) -> None:
        executor = getattr(self, "_executor", None)
        if isinstance(executor, ProcessPoolExecutor):
            abandon(executor)


def workers_of(executor: Executor) -> Workers:
    """Return the workers of an executor."""
    if isinstance(executor, ProcessPoolExecutor):
        return PickledWorkers(executor)
    if not isinstance(executor, Executor):
        raise InvalidInput(f"executor must be one of concurrent.futures, got {executor!r}")
    return ExecutorWorkers(executor)


# --- calls that survive their worker ----------------------------------------------------------------


@dataclass(eq=False, slots=True)
class WorkerCall:
    """Call that is in flight, or is to be carried out again."""

    call: Call
    generation: int = 0
    """The generation of workers that it was sent to."""
    losses: int = 0
    """How often its worker has died."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a call: an answer or an error; `lost` if its worker died once too often."""

    answer: Any = None
    error: BaseException | None = None
    lost: bool = False


_C = TypeVar("_C", bound=WorkerCall)


class ReliableCalls(Generic[_C]):
    """Calls to workers, each carried out again if its worker dies.

    One thread owns this object, and calls `send` and `settle`.

    Parameters
    ----------
    workers : Workers
        What carries out the calls.
    done : callable
        Called with a call and its future when that is done, in whatever thread the workers like; it has the
        owner call `settle`.
    packed : callable, optional
        From a call to what the workers are to carry out.
    """

    def __init__(
        self,
        workers: Workers,
        done: Callable[[_C, Future[Any]], None],
        packed: Callable[[_C], Call] = lambda task: task.call,
    ) -> None:
        self._workers, self._done, self._packed = workers, done, packed
        self._generation = 0
        self.in_flight = 0
        """How many calls are in flight."""
        self._held_back: deque[_C] = deque()
        self._suspects: deque[_C] = deque()
        self._alone: _C | None = None

    def send(self, task: _C) -> None:
        """Carry out a call, once nothing is suspected to kill its worker."""
        if self._alone is not None or self._suspects:
            self._held_back.append(task)
            return
        self._submit(task)

    def settle(self, task: _C, future: Future[Any], *, retry: bool = True) -> Outcome | None:
        """Return the outcome of a call; None if its worker has died and it is carried out again."""
        self.in_flight -= 1
        try:
            outcome = Outcome(self._workers.answer(future))
        except self._workers.lost as loss:
            if retry and self._again(task):
                return None
            outcome = Outcome(error=loss, lost=True)
        except BaseException as error:
            outcome = Outcome(error=error)
        self._alone = None if task is self._alone else self._alone
        self._go_on()
        return outcome

    def _submit(self, task: _C) -> None:
        """Send a call to the workers; an error in doing so is its outcome."""
        self.in_flight += 1
        task.generation = self._generation
        try:
            future = self._workers.submit(self._packed(task))
        except Exception as error:
            future = Future()
            future.set_exception(self._named(error))
        future.add_done_callback(lambda future: self._done(task, future))

    def _named(self, error: Exception) -> Exception:
        if not isinstance(error, RuntimeError) or isinstance(error, self._workers.lost):
            return error
        shut = CorewiseError(f"the executor takes no calls, it may have been shut down: {error}")
        shut.__cause__ = error
        return shut

    def _again(self, task: _C) -> bool:
        """Carry out a call again whose worker has died; return whether that was done."""
        task.losses += 1
        if task.generation == self._generation:
            self._generation += 1
            self._workers.renew()
        if task is self._alone:
            return False
        if task.losses >= _SUSPECTED:
            self._suspects.append(task)
        else:
            self.send(task)
        self._go_on()
        return True

    def _go_on(self) -> None:
        """Carry out suspects one by one, and then what was held back for them."""
        if self._alone is None and self._suspects and not self.in_flight:
            self._alone = self._suspects.popleft()
            self._submit(self._alone)
        while self._held_back and self._alone is None and not self._suspects:
            self._submit(self._held_back.popleft())


# --- processes of this machine ----------------------------------------------------------------------


@contextmanager
def processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give worker processes; an interrupt reaches this process only, which then terminates them.

    They do linear algebra in one thread each: there is a process for every core, and sums that are shared out
    to threads round in another way, so that results would depend on how many cores a worker has.
    """
    executor = _Processes(workers, multiprocessing.get_context("spawn"), initializer=_prepare)
    try:
        _require_alive(executor, workers)
        yield executor
    except BaseException:
        abandon(executor)
        raise
    executor.shutdown()


def abandon(executor: ProcessPoolExecutor) -> None:
    """Terminate the processes of a pool, and drop their calls. A further Ctrl-C must not intervene."""
    with _uninterrupted():
        running, manager = list((executor._processes or {}).values()), executor._executor_manager_thread
        # First: its thread would else find a process dead and complain of calls that were cancelled.
        executor.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.terminate()
        if manager is not None:
            manager.join()  # type: ignore[attr-defined]  # a thread, whatever typeshed says


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C in the body, and have processes that are started in it ignore it for good."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Defer Ctrl-C to the end of the body; processes that are started in it do not receive it.

    A process that has received only half of its instructions complains. Blocking the signal is for the new
    ones, which inherit that: other threads of this process still get it, and have Python notify the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda *about: heard.append(about))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, before)
        if heard and callable(before):
            before(*heard[0])


class _Processes(ProcessPoolExecutor):
    """Process pool whose processes are started with Ctrl-C deferred."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Send a call, which may start a process."""
        with _interrupted_later():
            return super().submit(call, *arguments, **named)


def _require_alive(executor: ProcessPoolExecutor, workers: int) -> None:
    try:
        for future in [executor.submit(os.getpid) for _ in range(workers)]:
            future.result()
    except BrokenExecutor:
        raise CorewiseError(f"the worker processes end as soon as they begin; {_why_dead()}") from None


def _why_dead() -> str:
    """Return what keeps worker processes from living: each of them imports the script that starts it."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is not None and not Path(script).exists():
        return f"each of them imports the script that starts it, and {script} cannot be: run it from a file"
    return 'a script that starts them must do so under if __name__ == "__main__", as each of them imports it'


def _prepare() -> None:
    """Prepare a worker process: no Ctrl-C, one thread for linear algebra, an end with its parent."""
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # for libraries that are loaded from now on
    threadpool_limits(1)  # for those that the script has loaded
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is gone: a parent that was killed cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# --- calls and answers as bytes ---------------------------------------------------------------------


def pack_call(call: Call) -> bytes:
    """Return a call as bytes, or refuse it."""
    try:
        return pickle.dumps(call)
    except Exception as error:
        raise InvalidInput(
            f"{checks.shown(call)} cannot be sent to another process, which takes functions that a module "
            f"defines and plain values: {error}"
        ) from error


def carry_out(packed: bytes) -> bytes:
    """Carry out a call in a worker, and return the answer or the error as bytes."""
    try:
        call = _unpack_call(packed)
        answer = call()
    except BaseException as error:
        return _pack_error(error)
    try:
        return pickle.dumps((answer, None))
    except Exception as error:
        return _pack_error(
            InvalidInput(
                f"what {checks.shown(call)} returns cannot be sent back from another process: "
                f"{checks.shown(answer)}: {error}"
            )
        )


def _unpack_call(packed: bytes) -> Call:
    """Return a call, or say how to have it found in the worker."""
    try:
        call: Call = pickle.loads(packed)
    except Exception as error:
        raise InvalidInput(
            f"a call cannot be read by the process that is to carry it out: {error}{_way_out(error)}"
        ) from error
    return call


def _way_out(error: Exception) -> str:
    """Return what to do about a name that a worker process does not find, or nothing."""
    missing = _OF_MAIN.search(str(error)) if isinstance(error, AttributeError) else None
    if missing is None:
        return ""
    name = missing["name"]
    if missing["module"] == "__mp_main__":  # a script, which worker processes import under this name
        return (
            f"; define {name!r} where it is defined also when the script is imported, not only when it is run"
        )
    return (
        f"; worker processes do not know what a notebook, a prompt or python -c defines: put {name!r} in a "
        "module and import it, or have threads carry out the calls: ExecutorEngine(ThreadPoolExecutor(4))"
    )


def unpack_answer(packed: bytes) -> Any:
    """Return an answer, or raise the error that was raised in its place."""
    try:
        answer, error = pickle.loads(packed)
    except Exception as reason:
        raise InvalidInput(f"an answer from another process cannot be read here: {reason}") from reason
    if error is not None:
        raise error
    return answer


def _pack_error(error: BaseException) -> bytes:
    """Return an error as bytes, with where it was raised; one that cannot be pickled by its name."""
    error.add_note("In the worker:\n" + "".join(traceback.format_exception(error)).rstrip())
    try:
        packed = pickle.dumps((None, error))
        pickle.loads(packed)
    except Exception:  # an error class may do anything when it is pickled or made again
        named = CorewiseError(f"{type(error).__name__}: {error}")
        named.add_note(error.__notes__[-1])
        return pickle.dumps((None, named))
    return packed


# --- Dask -------------------------------------------------------------------------------------------


@contextmanager
def local_dask(workers: int | None = None, threads: int = 1) -> Iterator[Client]:
    """Start a Dask cluster on this machine that no other machine can reach.

    Parameters
    ----------
    workers : int, optional
        Worker processes; by default as many as the machine has cores.
    threads : int, optional
        Threads in each of them.
    """
    dask = _distributed()
    count = os.cpu_count() or 1 if workers is None else checks.whole(workers, "workers")
    with ExitStack() as stack:
        with _uninterrupted():
            cluster = stack.enter_context(
                dask.LocalCluster(
                    n_workers=count,
                    threads_per_worker=checks.whole(threads, "threads"),
                    processes=True,
                    host="127.0.0.1",
                    # Errors of a run come back with it; else workers complain, with a traceback, of a
                    # scheduler that an interrupt has ended before them. The level is reset at the end.
                    silence_logs=logging.CRITICAL,
                    # There is always a small server for health checks: on any free port of the loopback.
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
        raise InvalidInput(f"dask must be local or an address like tcp://10.0.0.1:8786, got {address!r}")
    with _quiet("distributed"):  # an error is reported once, by what is raised
        try:
            client = dask.Client(address, timeout=_ANSWER, set_as_default=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise CorewiseError(f"no Dask scheduler answers at {address}: {error}") from None
        with client:
            yield client


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Log only critical errors in the body."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _distributed() -> ModuleType:
    try:
        import distributed
    except ImportError:
        raise CorewiseError("a Dask cluster needs distributed: install corewise[dask]") from None
    return distributed
