"""Typed events of a pool of jobs, as values that journals, event logs and the HTTP wire serialise.

Every event has the time at which it happened and an id that its sender chose: an id that was seen before
changes nothing, so a sender that is not sure that an event arrived sends it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Literal, get_args

from corewise.errors import InvalidInput, nearest
from corewise.kit import checks

__all__ = [
    "KINDS",
    "CoresHeld",
    "Event",
    "JobArrived",
    "JobEnded",
    "JobFinished",
    "JobPresent",
    "LimitsChanged",
    "Mode",
    "ModeChanged",
    "MoveRefused",
    "PoolChanged",
    "PoolConfigured",
    "Progress",
    "RoundOverdue",
    "ShortRounds",
    "SolveFailed",
    "Solved",
    "Tick",
    "event_body",
    "event_from_mapping",
    "event_to_mapping",
]

Mode = Literal["watch", "steer", "hold"]
"""Whether cores are not touched, moved as the policy says, or kept as they are."""

Why = Literal["failed", "cancelled", "lost"]

_LONGEST = 200  # characters of a name or an id


@dataclass(frozen=True, slots=True)
class Event:
    """Event of a live pool.

    Attributes
    ----------
    time : float
        When it happened.
    id : str
        What its sender calls it; no two events have the same.
    """

    kind: ClassVar[str] = ""
    time: float
    id: str

    def __post_init__(self) -> None:
        checks.finite(self.time, f"{self.kind}: time")
        lines, counts, limited = _checked(self.kind)
        for name in lines:
            self._require_line(name)
        for name in counts:
            checks.count(getattr(self, name), f"{self.kind}: {name}", least=0)
        if limited:
            self._require_limits()

    def _require_line(self, name: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, str) or not value or len(value) > _LONGEST or not value.isprintable():
            raise InvalidInput(
                f"{self.kind}: {name} must be a line of 1 to {_LONGEST} characters, got {checks.shown(value)}"
            )

    def _require_limits(self) -> None:
        least, most = getattr(self, "least", None), getattr(self, "most", None)
        if least is not None:
            checks.count(least, f"{self.kind}: least")
        if most is not None:
            checks.count(most, f"{self.kind}: most")
        if least is not None and most is not None and least > most:
            raise InvalidInput(f"{self.kind}: least must be at most most, got {least} and {most}")


@cache
def _checked(kind: str) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Return the lines and the counts of a kind of event, and whether it has limits."""
    names = [field.name for field in fields(KINDS[kind])]
    lines = tuple(name for name in names if name in ("id", "job", "job_class", "request"))
    return lines, tuple(name for name in names if name in ("held", "cores")), "most" in names


@dataclass(frozen=True, slots=True)
class JobArrived(Event):
    """Arrival of a job; without limits of its own those of its class hold."""

    kind: ClassVar[str] = "job-arrived"
    job: str
    job_class: str
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class JobPresent(Event):
    """A job that was there before the observation began: it is no arrival."""

    kind: ClassVar[str] = "job-present"
    job: str
    job_class: str
    held: int
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class JobFinished(Event):
    """Departure of a job that has done its work."""

    kind: ClassVar[str] = "job-finished"
    job: str


@dataclass(frozen=True, slots=True)
class JobEnded(Event):
    """End of a job that has not done its work: censored, its time counts and it is no departure."""

    kind: ClassVar[str] = "job-ended"
    job: str
    why: Why

    def __post_init__(self) -> None:
        super(JobEnded, self).__post_init__()
        _require_one_of(self.why, get_args(Why), f"{self.kind}: why")


@dataclass(frozen=True, slots=True)
class CoresHeld(Event):
    """Cores that a job holds from now on, whatever it was assigned; ignored if a later report was first."""

    kind: ClassVar[str] = "cores-held"
    job: str
    cores: int
    paused: float = 0.0
    """How long of the time since the last such event it stood still for the move; that counts at no width."""
    generation: int | None = None
    """The instruction that it answers, and all before it; if not given, the first that it fits."""

    def __post_init__(self) -> None:
        super(CoresHeld, self).__post_init__()
        checks.within(self.paused, 0.0, float("inf"), f"{self.kind}: paused")
        _require_generation(self.generation, self.kind)


@dataclass(frozen=True, slots=True)
class MoveRefused(Event):
    """A move that will not come about: the job cannot hold so many cores, and keeps those that it holds.

    It is not assigned so many again: of a growth that was refused, what would fit is its most from now on, or
    what it holds. A job that refuses to give up cores keeps them, and is not asked again. One whose start was
    refused is offered cores again after a while, or at once if it is known how many would fit.
    """

    kind: ClassVar[str] = "move-refused"
    job: str
    cores: int
    why: str
    fits: int | None = None
    """How many cores it could hold, if that is known."""
    generation: int | None = None
    """The instruction that it refuses; if not given, the first that it fits."""

    def __post_init__(self) -> None:
        super(MoveRefused, self).__post_init__()
        self._require_line("why")
        if self.fits is not None:
            checks.count(self.fits, f"{self.kind}: fits", least=0)
        _require_generation(self.generation, self.kind)


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """Work done by a job since its last report, in a unit of its class: rounds, tasks, bytes."""

    kind: ClassVar[str] = "progress"
    job: str
    amount: float
    fraction: float | None = None
    """The fraction of all its work that is done, if the job knows."""

    def __post_init__(self) -> None:
        super(Progress, self).__post_init__()
        checks.within(self.amount, 0.0, float("inf"), f"{self.kind}: amount")
        if self.fraction is not None:
            checks.within(self.fraction, 0.0, 1.0, f"{self.kind}: fraction")


@dataclass(frozen=True, slots=True)
class RoundOverdue(Event):
    """A round of a job that lasts longer than expected; it is reported once."""

    kind: ClassVar[str] = "round-overdue"
    job: str
    cores: int
    seconds: float
    """How long it has lasted."""

    def __post_init__(self) -> None:
        super(RoundOverdue, self).__post_init__()
        checks.within(self.seconds, 0.0, float("inf"), f"{self.kind}: seconds")


@dataclass(frozen=True, slots=True)
class ShortRounds(Event):
    """Rounds of a job since it took its width, most of which were short against their dispatch."""

    kind: ClassVar[str] = "short-rounds"
    job: str
    rounds: int
    working: float
    """Seconds that their calls took, all rounds together."""
    dispatching: float
    """Seconds that they took beyond that."""

    def __post_init__(self) -> None:
        super(ShortRounds, self).__post_init__()
        checks.count(self.rounds, f"{self.kind}: rounds")
        for name in ("working", "dispatching"):
            checks.within(getattr(self, name), 0.0, float("inf"), f"{self.kind}: {name}")


@dataclass(frozen=True, slots=True)
class PoolChanged(Event):
    """Another number of cores in the pool."""

    kind: ClassVar[str] = "pool-changed"
    cores: int


@dataclass(frozen=True, slots=True)
class PoolConfigured(Event):
    """Another configuration of the pool: other cores, classes, limits, weights, options, ways to learn."""

    kind: ClassVar[str] = "pool-configured"
    configuration: Mapping[str, Any]
    """As `corewise.live.state.configuration.Configuration` writes it."""


@dataclass(frozen=True, slots=True)
class LimitsChanged(Event):
    """Other limits for the jobs of a class that have none of their own."""

    kind: ClassVar[str] = "limits-changed"
    job_class: str
    least: int
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Solved(Event):
    """Answer to a request to solve: a policy, by its digest, and what it is worth.

    Gains are fractions of the mean cost, three numbers of their distribution given the data: the 10 %
    quantile, the mean and the 90 % quantile.
    """

    kind: ClassVar[str] = "solved"
    request: str
    policy: str
    gain: tuple[float, float, float]
    """What is gained by it over the policy in force."""
    gain_over_equi: tuple[float, float, float]
    """What is gained by it over EQUI."""
    response_times: tuple[tuple[float, float], ...] | None = None
    """The mean response time of each class at the estimates, under EQUI and by it, where both are finite."""
    in_force_over_equi: tuple[float, float, float] | None = None
    """What is gained by the policy in force over EQUI."""
    learned: Mapping[str, Any] | None = None
    """What was learned, as `corewise.learning.learner.Inference` writes it."""
    classes: tuple[str, ...] | None = None
    """The classes that the policy, its gains and its response times are about; None for all."""

    def __post_init__(self) -> None:
        super(Solved, self).__post_init__()
        if self.response_times is not None:
            object.__setattr__(self, "response_times", self._pairs(self.response_times))
        if self.classes is not None:
            object.__setattr__(self, "classes", self._names(self.classes))
        for name in ("gain", "gain_over_equi", "in_force_over_equi"):
            values = getattr(self, name)
            if values is None and name == "in_force_over_equi":
                continue
            if not isinstance(values, tuple | list) or len(values) != 3:  # least, middle, most
                raise InvalidInput(f"{self.kind}: {name} must be three numbers, got {checks.shown(values)}")
            numbers = tuple(checks.finite(value, f"{self.kind}: {name}") for value in values)
            object.__setattr__(self, name, numbers)

    def _pairs(self, values: object) -> tuple[tuple[float, float], ...]:
        what = f"{self.kind}: response_times"
        if not isinstance(values, tuple | list) or not all(
            isinstance(pair, tuple | list) and len(pair) == 2 for pair in values
        ):
            raise InvalidInput(f"{what} must be two numbers a class, got {checks.shown(values)}")
        return tuple((checks.positive(a, what), checks.positive(b, what)) for a, b in values)

    def _names(self, values: object) -> tuple[str, ...]:
        if not isinstance(values, tuple | list) or not all(isinstance(name, str) for name in values):
            raise InvalidInput(f"{self.kind}: classes must be names, got {checks.shown(values)}")
        if self.response_times is not None and len(self.response_times) != len(values):
            raise InvalidInput(
                f"{self.kind}: response_times are of {len(self.response_times)} classes, and classes names "
                f"{len(values)}"
            )
        return tuple(values)


@dataclass(frozen=True, slots=True)
class SolveFailed(Event):
    """A request to solve that came to nothing."""

    kind: ClassVar[str] = "solve-failed"
    request: str
    why: str


@dataclass(frozen=True, slots=True)
class ModeChanged(Event):
    """Another mode of operation."""

    kind: ClassVar[str] = "mode-changed"
    mode: Mode

    def __post_init__(self) -> None:
        super(ModeChanged, self).__post_init__()
        _require_one_of(self.mode, get_args(Mode), f"{self.kind}: mode")


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed, and nothing else."""

    kind: ClassVar[str] = "tick"


KINDS: Mapping[str, type[Event]] = {
    kind.kind: kind
    for kind in (
        JobArrived,
        JobPresent,
        JobFinished,
        JobEnded,
        CoresHeld,
        MoveRefused,
        Progress,
        RoundOverdue,
        ShortRounds,
        PoolChanged,
        PoolConfigured,
        LimitsChanged,
        Solved,
        SolveFailed,
        ModeChanged,
        Tick,
    )
}
"""The events by kind."""


def event_to_mapping(event: Event) -> dict[str, Any]:
    """Return an event as plain values, which JSON can hold."""
    return {"kind": event.kind, "time": event.time, "id": event.id, **event_body(event)}


def event_body(event: Event) -> dict[str, Any]:
    """Return what an event says beyond its kind, time and id, as plain values."""
    rows = ((name, getattr(event, name)) for name in _own_names(event.kind))
    return {name: value for name, value in rows if value is not None}


@cache
def _own_names(kind: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(KINDS[kind]) if field.name not in ("time", "id"))


def event_from_mapping(mapping: object) -> Event:
    """Return the event that plain values describe."""
    if not isinstance(mapping, Mapping):
        raise InvalidInput(f"an event is a mapping, got {checks.shown(mapping)}")
    values = dict(mapping)
    name = values.pop("kind", None)
    if not isinstance(name, str) or name not in KINDS:
        raise InvalidInput(f"unknown kind of event {checks.shown(name)}{nearest(str(name), list(KINDS))}")
    kind = KINDS[name]
    known = ("time", "id", *_own_names(name))
    for key in values:
        if key not in known:
            raise InvalidInput(f"{name}: unknown key {checks.shown(key)}{nearest(str(key), list(known))}")
    try:
        return kind(**values)
    except TypeError:
        missing = [key for key in known if key not in values]
        raise InvalidInput(f"{name}: {' and '.join(missing)} missing") from None


def _require_generation(value: object, kind: str) -> None:
    if value is not None:
        checks.count(value, f"{kind}: generation", least=0)


def _require_one_of(value: object, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise InvalidInput(f"{what} must be one of {', '.join(known)}, got {checks.shown(value)}")
