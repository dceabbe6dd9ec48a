"""Engines: what runs jobs, moves their cores, and reports events.

A job is a *gang*, which works in rounds and changes its width between them, a *bag* of independent tasks, a
*group* of workers that run a command, or a *pod*. An engine over workers needs two things of them: that they
take a call, and that they report when it is done. It never cancels a call: what some systems call cancelled
still runs. To end a job it begins none of its calls any more, and what is in flight comes to its own end.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.observation.events import Event

__all__ = [
    "Bag",
    "Call",
    "Engine",
    "EngineThread",
    "Gang",
    "Holding",
    "JobSpec",
    "KnowsCalls",
    "Pod",
    "RemoteEngine",
    "ReportEvent",
    "Round",
    "Rounds",
    "RunsCommands",
    "RunsPods",
    "WorkerGroup",
    "as_round",
    "require_kind",
]

Call = Callable[[], Any]
"""Something to carry out, without arguments."""


@dataclass(frozen=True, slots=True)
class Round:
    """Round of a gang: calls that are carried out on all its cores, and the work that they do together.

    Calls beyond the cores of the gang wait for the first of them to be done.

    Attributes
    ----------
    calls : sequence of callable
        What to carry out; the answers come back in this order.
    work : float, optional
        How much of the job it is, in any unit that is the same for all jobs of a class. A round that does the
        same whatever the width counts one; one that does more on more cores must say so.
    """

    calls: Sequence[Call]
    work: float = 1.0


Rounds = Generator[Round | Iterable[Call], list[Any], Any]
"""A gang at work: it yields its next round, is sent the answers, and returns its result."""


def as_round(given: object, job: str, number: int) -> Round:
    """Return what a gang has yielded as a round, or refuse it."""
    what = f"round {number} of job {job!r}"
    given = given if isinstance(given, Round) else _round_of(given, what)
    calls = tuple(given.calls)
    if not calls:
        raise InvalidInput(f"{what} has no calls: a round needs one at least")
    for call in calls:
        if not callable(call):
            raise InvalidInput(
                f"{what} must be a list of calls such as partial(f, x), got {checks.shown(call)}"
            )
    return Round(calls, checks.within(given.work, 0.0, float("inf"), f"{what}: work"))


def _round_of(given: object, what: str) -> Round:
    if not isinstance(given, Iterable):
        raise InvalidInput(f"{what} must be a list of calls such as partial(f, x), got {checks.shown(given)}")
    return Round(tuple(given))


@dataclass(slots=True)
class Holding:
    """Cores of a job, as the job itself and others see them; only its engine changes them."""

    name: str
    cores: int = 0


@dataclass(frozen=True, eq=False)
class Gang:
    """Gang: a job that works in rounds, on as many cores as it is assigned.

    Attributes
    ----------
    holding : Holding
        Its name, and the cores it holds.
    rounds : generator
        Its rounds.
    future : Future
        Where its result is put.
    """

    holding: Holding
    rounds: Rounds
    future: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, eq=False)
class Bag:
    """Bag of tasks: independent calls in any order, whose result is by default the list of their answers.

    A bag may count on the cores that it is assigned. Beyond that it borrows idle cores, and gives them back
    call by call.
    """

    holding: Holding
    calls: Sequence[Call]
    future: Future[Any] = field(default_factory=Future)
    collect: Callable[[list[Any]], Any] = list
    """Makes the result of the answers."""

    @classmethod
    def of(
        cls, holding: Holding, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], size: int
    ) -> Bag:
        """Return the bag that calls a function with each of many arguments, so many of them at once."""
        chunks = [arguments[begin : begin + size] for begin in range(0, len(arguments), size)]
        return cls(holding, [partial(_call_each, function, chunk) for chunk in chunks], collect=_joined)


def _call_each(function: Callable[..., Any], chunk: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [function(*arguments) for arguments in chunk]


def _joined(answers: list[list[Any]]) -> list[Any]:
    return list(chain.from_iterable(answers))


@dataclass(frozen=True, eq=False)
class WorkerGroup:
    """Worker group: a command that each worker of a job runs, as many of them as the job holds cores.

    Attributes
    ----------
    holding : Holding
        Its name, and the cores it holds.
    command : sequence of str
        What a worker runs; it ends with exit code 0 once nothing is left to do.
    future : Future
        Where its result is put: how many workers ended so.
    """

    holding: Holding
    command: Sequence[str]
    future: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, eq=False)
class Pod:
    """Pod: a container of a cluster, whose cores are changed while it runs.

    Attributes
    ----------
    holding : Holding
        Its name, which is that of the job, and the cores it holds.
    pod, container : str
        What the cluster calls them.
    manifest : mapping, optional
        What to begin it with; without one it is there.
    future : Future
        Where its result is put: None, when it has succeeded.
    """

    holding: Holding
    pod: str
    container: str
    manifest: Mapping[str, Any] | None = None
    future: Future[Any] = field(default_factory=Future)


JobSpec = Gang | Bag | WorkerGroup | Pod
"""A job as an engine is given it."""


class RunsCommands:
    """Marker of an engine whose jobs are worker groups; those of others are gangs and bags, or pods."""


class RunsPods(ABC):
    """Engine whose jobs are pods."""

    @abstractmethod
    def pod(self, pod: str | Path, container: str | None) -> Pod:
        """Return the job of a pod, by its name or the path of a manifest; refuse one that cannot be moved."""


def require_kind(engine: object, kind: type[JobSpec]) -> None:
    """Refuse a job of a kind that an engine does not run."""
    calls, commands, pods = "pool.run or pool.map", "pool.command", "pool.pod"
    runs, use = (
        ("commands", commands)
        if isinstance(engine, RunsCommands)
        else ("pods", pods)
        if isinstance(engine, RunsPods)
        else ("calls", calls)
    )
    wanted = {WorkerGroup: "commands", Pod: "pods"}.get(kind, "calls")
    if wanted != runs:
        raise InvalidInput(f"{type(engine).__name__} runs {runs}, not {wanted}: use {use}")


class RemoteEngine:
    """Engine of jobs that a scheduler elsewhere runs: it fetches its instructions, and reports events itself.

    The jobs outlive the runner, and share cores as their scheduler likes where they are only watched.

    Parameters
    ----------
    pool : int
        The cores of the pool.
    """

    pause: float | None = None

    def __init__(self, pool: int) -> None:
        self.pool = pool

    def start(self, report: ReportEvent) -> None:
        """Do nothing: events come from the scheduler."""

    def submit(self, job: JobSpec) -> None:
        """Do nothing: the scheduler has the job."""

    def set_cores(self, job: str, cores: int) -> None:
        """Do nothing: the scheduler fetches the instruction."""

    def end(self, job: str) -> None:
        """Do nothing: the scheduler has the job."""

    def close(self) -> None:
        """Do nothing: the jobs go on."""


class EngineThread(threading.Thread):
    """Thread of an engine, shared by all its jobs: code of a job in it must not wait for another."""


@runtime_checkable
class KnowsCalls(Protocol):
    """Engine that knows which threads of this process carry out its calls."""

    @property
    def job_here(self) -> str | None:
        """The job whose call this thread carries out; None if there is none."""
        ...


class ReportEvent(Protocol):
    """Function by which an engine reports events, from any thread.

    ``report(CoresHeld, job, 4)``: the kind of event and its values but for time and id, which are added.
    `then` is called once the event is safe.
    """

    def __call__(self, kind: type[Event], *values: Any, then: Callable[[], None] | None = None) -> None:
        """Report an event."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Engine: runs jobs and moves their cores.

    Attributes
    ----------
    pool : int
        The cores there are; a change is reported by `PoolChanged`.
    pause : float or None
        How long a job stands still when its cores change; None if that is not known.
    """

    @property
    def pool(self) -> int:
        """The cores there are."""
        ...

    @property
    def pause(self) -> float | None:
        """How long a job stands still when its cores change."""
        ...

    def start(self, report: ReportEvent) -> None:
        """Start; events are reported from now on."""
        ...

    def submit(self, job: JobSpec) -> None:
        """Take in a job; it begins when it is given cores."""
        ...

    def set_cores(self, job: str, cores: int) -> None:
        """Have a job hold so many cores as soon as it can, which is reported by `CoresHeld`; idempotent."""
        ...

    def end(self, job: str) -> None:
        """Begin no more calls of a job; when nothing of it is in flight, `JobEnded` is reported."""
        ...

    def close(self) -> None:
        """End all jobs and release what the engine has started; no event is reported afterwards."""
        ...
