"""The live pool: real jobs share real cores, as the curves say that are learned from them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, Future, InvalidStateError, wait
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks
from corewise.learning.algorithms import Algorithm, live_algorithm
from corewise.live.engines.base import (
    Bag,
    Engine,
    Gang,
    Holding,
    JobSpec,
    Pod,
    Rounds,
    RunsPods,
    WorkerGroup,
    require_kind,
)
from corewise.live.engines.executor import ExecutorEngine
from corewise.live.journal.event_store import InMemory
from corewise.live.journal.journal import Journal
from corewise.live.journal.pool_configuration import controller_of
from corewise.live.journal.replay import replayed
from corewise.live.run.job import Callbacks, LiveJob, SelfWaits
from corewise.live.run.runner import Runner
from corewise.live.run.solver import solver_process
from corewise.live.state.configuration import Configuration, Options
from corewise.live.state.controller import Controller
from corewise.live.state.explain import Explanation
from corewise.live.state.instructions import Alert
from corewise.live.state.report import Report
from corewise.model.job_class import JobClass
from corewise.model.system import System
from corewise.model.units import require_seconds
from corewise.observation import events as happened
from corewise.policies.base import Policy
from corewise.policies.rounding import require_whole
from corewise.policies.saved import policy_from_bytes

__all__ = ["LivePool"]

_GIVE_UP = 60.0  # seconds that jobs wait for a journal that cannot be written
_FEW = 64  # jobs, among which to look for those that are gone takes no time


class LivePool:
    """Live pool: runs jobs, learns how they scale, and moves cores to where they finish sooner.

    A job works in rounds, and knows before each how many cores it holds. It is a generator function: what
    it yields is a list of calls, what it is sent are their answers, what it returns is its result. Calls are
    carried out by the engine, by default in processes of this machine; the generator itself runs in a thread
    that all jobs share, so that what it does between two rounds should be quick.

    All rates and curves may be unknown: cores are shared equally at first, and differently once enough has
    been seen to be sure of a gain.

    Parameters
    ----------
    system : System or sequence of JobClass
        What is known: the classes of jobs and the family of each curve; the parameters of curves are not
        used. Of a sequence of classes, the cores are those of the engine.
    engine : Engine, optional
        What runs the jobs; it is closed with the pool. By default an `ExecutorEngine` of processes.
    journal : path, optional
        Where to keep what happens; a journal that is there already is continued. While it cannot be written,
        as on a full disk, new jobs are refused and the ends of others wait; after a minute all jobs fail.
    mode : str, optional
        ``"steer"`` moves cores, ``"watch"`` shares them equally and counts what would be moved, ``"hold"``
        lets jobs keep what they have.
    algorithm : Algorithm, optional
        How to learn; by default `adaptive`, with windows of 50 departures that grow with their number.
    options : Options, optional
        Options of the controller.

    Examples
    --------
    Processes import the script that starts them, so a script keeps this under ``if __name__ == "__main__"``.

    >>> import corewise as cw
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from functools import partial
    >>> def rounds(job):
    ...     total = 0
    ...     for step in range(3):
    ...         width = job.cores
    ...         total += sum((yield [partial(sum, range(k, 100, width)) for k in range(width)]))
    ...     return total
    >>> classes = [
    ...     cw.JobClass("training", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
    ...     cw.JobClass("etl", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
    ... ]
    >>> engine = cw.live.engines.ExecutorEngine(ThreadPoolExecutor(4))
    >>> with cw.LivePool(classes, engine=engine) as pool:
    ...     job = pool.run("training", rounds)
    ...     squares = pool.map("etl", partial(pow, 2), range(4))
    ...     print(job.result(), squares.result())
    14850 [1, 2, 4, 8]
    """

    def __init__(
        self,
        system: System | Sequence[JobClass],
        engine: Engine | None = None,
        journal: str | Path | None = None,
        mode: happened.Mode = "steer",
        *,
        algorithm: Algorithm | None = None,
        options: Options | None = None,
    ) -> None:
        self._engine = ExecutorEngine(cores=_cores_of(system)) if engine is None else _required(engine)
        made = live_algorithm(_known(system, self._engine.pool)) if algorithm is None else algorithm
        wanted = Configuration(made, Options() if options is None else options)
        self._jobs: dict[str, Future[Any]] = {}
        self._callbacks = Callbacks()
        self._self_waits = SelfWaits(self._engine)
        self._lock, self._closed = threading.Lock(), False
        self._look_through_at = _FEW  # jobs, at which those that were cancelled and are gone are forgotten
        with ExitStack() as stack:
            self._store = InMemory() if journal is None else Journal.open(journal, wanted.mapping)
            stack.callback(self._store.close)
            controller = self._controller(wanted)
            self._numbers = count(1 + sum(book.arrived for book in controller.counters))
            solver = stack.enter_context(solver_process(made))
            self._runner = Runner(
                controller, self._engine, solver, self._store, self._break_down, give_up=_GIVE_UP
            )
            stack.callback(self._runner.close)
            self._runner.start()
            self._runner.configure(wanted)
            if controller.mode != mode:
                self.set_mode(mode)
            self._stack = stack.pop_all()

    def _controller(self, wanted: Configuration) -> Controller:
        """Return the controller in the state in which the journal leaves it, or a new one."""
        store = self._store
        if isinstance(store, Journal):
            made = replayed(store, lambda snapshot: controller_of(store, snapshot, wanted))
            made.options = made.options.like(wanted.options)
            return made
        return Controller(wanted.algorithm, self._policy, options=wanted.options)

    def _policy(self, digest: str) -> Policy:
        return policy_from_bytes(self._store.policy(digest), f"policy {digest}")

    # --- jobs ---------------------------------------------------------------------------------------

    def run(
        self,
        job_class: str,
        rounds: Callable[..., Rounds],
        *arguments: Any,
        name: str | None = None,
        least: int | None = None,
        most: int | None = None,
    ) -> LiveJob:
        """Run a job that works in rounds.

        Parameters
        ----------
        job_class : str
            Its class.
        rounds : generator function
            The job: called with what it holds, whose ``cores`` are its width, and with the arguments. It
            yields lists of calls without arguments, is sent their answers, and returns the result of the job.
            An error that a call raises is raised in it.
        *arguments
            Its further arguments.
        name : str, optional
            What to call it; by default its class and a number.
        least, most : int, optional
            The fewest cores it can run on, and the most it can use; by default those of its class.
        """
        holding = self._holding(job_class, name)
        generator = rounds(holding, *arguments) if callable(rounds) else rounds
        if not callable(rounds) or not isinstance(generator, Generator):
            raise InvalidInput(
                "rounds must be a generator function, which yields lists of calls; "
                + (f"{checks.shown(rounds)} returned " if callable(rounds) else "got ")
                + checks.shown(generator)
            )
        return self._submit(job_class, Gang(holding, generator), least, most)

    def map(
        self, job_class: str, function: Callable[..., Any], *items: Iterable[Any], chunksize: int = 1
    ) -> LiveJob:
        """Call a function for each of many items, as one job whose result is the list of answers.

        Calls that do not wait for each other share idle cores with those of other such jobs, and are not
        steered: nothing beats that.

        Parameters
        ----------
        job_class : str
            Its class; not one of jobs that work in rounds, as it does not scale like them.
        function : callable
            What to call, with one item of each of `items`.
        *items : iterable
            The arguments.
        chunksize : int, optional
            How many items to send at once: a worker should be busy with them for fifty times as long as it
            takes to send them, or a fifth of a second.
        """
        size = checks.count(chunksize, "chunksize")
        bag = Bag.of(self._holding(job_class, None), function, list(zip(*items, strict=False)), size)
        if not bag.calls:
            bag.future.set_result([])
            return self._handle(job_class, bag)
        return self._submit(job_class, bag, None, len(bag.calls))

    def command(
        self,
        job_class: str,
        command: Sequence[str],
        name: str | None = None,
        least: int | None = None,
        most: int | None = None,
    ) -> LiveJob:
        """Run a command by as many workers as the job holds cores; its result is how many of them were done.

        For engines of commands, such as `SlurmEngine`. A worker ends with exit code 0 once nothing is left to
        do; one that is taken away gets SIGTERM, and another does again what it was at.

        Parameters
        ----------
        job_class : str
            Its class.
        command : sequence of str
            What a worker runs.
        name, least, most : optional
            As in `run`.
        """
        if isinstance(command, str) or not command or not all(isinstance(word, str) for word in command):
            raise InvalidInput(f"command must be a list of words, got {checks.shown(command)}")
        return self._submit(
            job_class, WorkerGroup(self._holding(job_class, name), tuple(command)), least, most
        )

    def pod(
        self,
        job_class: str,
        pod: str | Path,
        container: str | None = None,
        least: int | None = None,
        most: int | None = None,
    ) -> LiveJob:
        """Share cores with a pod of Kubernetes; the job has its name, and ends when the pod has succeeded.

        For a `KubernetesEngine`.

        Parameters
        ----------
        job_class : str
            Its class.
        pod : str or path
            The name of a pod that is there, or the path of a manifest, from which one is begun as soon as
            there are cores for it.
        container : str, optional
            Which of its containers; it needs none to be named if it has only one.
        least, most : optional
            As in `run`.
        """
        require_kind(self._engine, Pod)
        assert isinstance(self._engine, RunsPods)
        return self._submit(job_class, self._engine.pod(pod, container), least, most)

    def _holding(self, job_class: str, name: str | None) -> Holding:
        return Holding(f"{job_class}-{next(self._numbers)}" if name is None else name)

    def _submit(self, job_class: str, job: JobSpec, least: int | None, most: int | None) -> LiveJob:
        if self._closed:
            raise CorewiseError("the pool is closed, or is being closed")
        require_kind(self._engine, type(job))
        begin = partial(self._begin, job)
        self._reached.request(happened.JobArrived, job.holding.name, job_class, least, most, then=begin)
        return self._handle(job_class, job)

    def _begin(self, job: JobSpec) -> None:
        """Give a job to the engine; its arrival is safe."""
        name = job.holding.name
        with self._lock:
            if len(self._jobs) >= self._look_through_at:
                gone = wait(self._jobs.values(), timeout=0).done
                self._jobs = {other: future for other, future in self._jobs.items() if future not in gone}
                self._look_through_at = 2 * len(self._jobs) + _FEW
            self._jobs[name] = job.future
        job.future.add_done_callback(partial(self._let_go, name))
        try:
            self._engine.submit(job)
        except BaseException:  # the caller is given it; the cores are for others
            with self._lock:
                self._jobs.pop(name, None)
            self._runner.report(happened.JobEnded, name, "failed")
            raise

    def _let_go(self, name: str, future: Future[Any]) -> None:
        """Forget a job that is done; one that is cancelled is there until its engine has let it go."""
        if future.cancelled():
            self._engine.end(name)
            return
        with self._lock:
            if self._jobs.get(name) is future:
                del self._jobs[name]

    def _handle(self, job_class: str, job: JobSpec) -> LiveJob:
        return LiveJob(job_class, job, self.explain, self._callbacks, self._self_waits)

    # --- the pool -----------------------------------------------------------------------------------

    @property
    def cores(self) -> int:
        """The cores there are now."""
        return self._engine.pool

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts to the operator, the latest last."""
        return tuple(self._runner.alerts)

    @property
    def _reached(self) -> Runner:
        """The runner, in whose process it can be asked."""
        self._self_waits.require_own_process()
        return self._runner

    def explain(self, job: str) -> Explanation:
        """Return why a job holds the cores that it holds, which prints as a sentence."""
        return self._reached.ask(lambda controller: controller.explain(job))

    def report(self) -> Report:
        """Return what the pool does, what it has learned and what that is worth, which prints as a table."""
        return self._reached.ask(Controller.report)

    def set_mode(self, mode: happened.Mode) -> None:
        """Steer, watch or hold from now on."""
        self._reached.request(happened.ModeChanged, mode)

    def set_limits(self, job_class: str, least: int = 1, most: int | None = None) -> None:
        """Set the fewest and the most cores of the jobs of a class that have no limits of their own."""
        self._reached.request(happened.LimitsChanged, job_class, least, most)

    def close(self, *, wait_for_jobs: bool = True) -> None:
        """Close the pool, when all jobs are done; or give them up.

        Given up, a job begins nothing any more. What is being carried out comes to its own end, but for that
        in processes of this machine that the pool has started: they end at once. A job cannot close its own
        pool, neither between two rounds nor in a call: it would wait for itself. A callback of the job can.
        """
        if self._closed:
            return
        self._self_waits.require_closable()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            if wait_for_jobs:
                wait(self._futures())
        finally:
            self._tear_down()

    def __enter__(self) -> LivePool:
        """Return the pool."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close the pool when all jobs are done; after an error, give them up."""
        self.close(wait_for_jobs=kind is None)

    def _futures(self) -> list[Future[Any]]:
        with self._lock:
            return list(self._jobs.values())

    def _tear_down(self) -> None:
        """End everything that was begun."""
        self._stack.close()
        for future in self._futures():
            _give_up(future, CorewiseError("the pool is closed"))
        self._callbacks.close()

    def _break_down(self, error: CorewiseError) -> None:
        """Fail all jobs: their ends cannot be reported any more."""
        with self._lock:
            jobs = dict(self._jobs)
        for name, future in jobs.items():
            _give_up(future, error)
            self._engine.end(name)


def _required(engine: Engine) -> Engine:
    """Return an engine, or say what is none."""
    if isinstance(engine, Executor):
        raise InvalidInput(f"engine must be an engine: ExecutorEngine(executor) is one, not {engine!r}")
    if not isinstance(engine, Engine):
        raise InvalidInput(f"engine must be one of live.engines, or like them, got {checks.shown(engine)}")
    return engine


def _cores_of(system: System | Sequence[JobClass]) -> int | None:
    return require_whole(system) if isinstance(system, System) else None


def _known(system: System | Sequence[JobClass], pool: int) -> System:
    """Return what is known, with the cores of the engine."""
    if not isinstance(system, System):
        return System(pool, system)
    if require_whole(system) != pool:
        raise InvalidInput(f"the system has {system.cores:g} cores, and the engine {pool}")
    require_seconds(system.unit)
    return system


def _give_up(future: Future[Any], error: CorewiseError) -> None:
    with suppress(InvalidStateError):  # it has its answer
        future.set_exception(error)
