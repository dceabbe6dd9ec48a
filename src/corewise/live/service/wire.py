"""Types of the HTTP wire: the events of `corewise.observation.events`, field by field, and answers.

Types are strict: ``false`` is no number, ``"4"`` is none either, and what is not known is refused.
"""

from __future__ import annotations

import time
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal, Union, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from corewise.errors import InvalidInput
from corewise.live.service.problems import Problem, said_of
from corewise.observation import events as happened

__all__ = [
    "BATCH",
    "TOLD",
    "Acknowledged",
    "Allocation",
    "EstimatesView",
    "Explained",
    "Health",
    "HistoryView",
    "InstructionPage",
    "JobListed",
    "JobsWanted",
    "LimitsWanted",
    "ModeWanted",
    "PolicyView",
    "ProblemView",
    "ReconciledView",
    "ReportView",
    "batch_schema",
    "dated",
    "events_in",
    "parsed",
]

BATCH = 1000
"""Events in one request."""

TOLD: tuple[type[happened.Event], ...] = (
    happened.JobArrived,
    happened.JobPresent,
    happened.JobFinished,
    happened.JobEnded,
    happened.CoresHeld,
    happened.MoveRefused,
    happened.Progress,
    happened.PoolChanged,
)
"""What a scheduler may tell."""

_AHEAD = 60.0  # seconds by which a clock may be ahead of ours
_MOST_CORES = 1_000_000
_MOST = 1e12  # of an amount, and of seconds

Name = Annotated[str, Field(min_length=1, max_length=200)]
Cores = Annotated[int, Field(ge=0, le=_MOST_CORES)]
Whole = Annotated[int, Field(ge=1, le=_MOST_CORES)]
Amount = Annotated[float, Field(ge=0.0, le=_MOST, allow_inf_nan=False)]
Time = Annotated[float, Field(ge=0.0, le=_MOST, allow_inf_nan=False)]


class Strict(BaseModel):
    """Body of a request: of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Told(Strict):
    """Event as it is told."""

    id: Annotated[Name, Field(description="Yours, and unique: told again under it, it changes nothing.")]
    time: Annotated[
        Time | None, Field(description="Seconds since 1970; if not given, when it was received.")
    ] = None


_TYPES: dict[str, Any] = {
    "held": Cores,
    "cores": Cores,
    "fits": Cores | None,
    "least": Whole | None,
    "most": Whole | None,
    "paused": Amount,
    "generation": Annotated[int, Field(ge=0, le=2**53)] | None,
    "amount": Amount,
}


def _model(kind: type[happened.Event]) -> type[Told]:
    """Return the type of an event on the wire."""
    hints = get_type_hints(kind)
    made: dict[str, Any] = {"kind": (Literal[kind.kind], ...)}
    for row in fields(kind):
        if row.name not in Told.model_fields:
            hint = Name if hints[row.name] is str else hints[row.name]
            made[row.name] = (_TYPES.get(row.name, hint), ... if row.default is MISSING else row.default)
    model: type[Told] = create_model(kind.__name__, __base__=Told, __doc__=kind.__doc__, **made)
    return model


_MODELS: tuple[Any, ...] = tuple(_model(kind) for kind in TOLD)
_EVENT: Any = Annotated[Union[_MODELS], Field(discriminator="kind")]  # noqa: UP007
_ONE: TypeAdapter[Any] = TypeAdapter(_EVENT)
_MANY: TypeAdapter[Any] = TypeAdapter(Annotated[list[_EVENT], Field(min_length=1, max_length=BATCH)])
_KINDS = {kind.kind: kind for kind in TOLD}


def batch_schema(reference: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a body of events, one or many, and those that it refers to."""
    one, many = _ONE.json_schema(ref_template=reference), _MANY.json_schema(ref_template=reference)
    named = {**one.pop("$defs"), **many.pop("$defs")}
    return {"anyOf": [one, many]}, named


def events_in(body: bytes, earliest: float) -> tuple[list[happened.Event], list[str]]:
    """Return the events of a request, one or many, and the ids of those that have no time of their own.

    `Problem` if they are not what they should be, or dated before `earliest`.
    """
    many = body.lstrip()[:1] == b"["
    told = parsed(_MANY, body) if many else [parsed(_ONE, body)]
    now = time.time()
    events = []
    for number, row in enumerate(told):
        try:
            events.append(_event(row, now, earliest))
        except InvalidInput as error:
            where = f"[{number}]" if many else ""
            raise Problem(422, str(error), [{"where": where, "detail": str(error)}]) from None
    return events, [row.id for row in told if row.time is None]


def _event(row: Told, now: float, earliest: float) -> happened.Event:
    values = vars(row).copy()
    kind = _KINDS[values.pop("kind")]
    values["time"] = dated(values["time"], now, earliest, f"{kind.kind} {row.id!r}")
    return kind(**values)


def dated(given: float | None, now: float, earliest: float, what: str) -> float:
    """Return a time, now if none is given; `InvalidInput` if no clock can be meant by it."""
    if given is None:
        return now
    if given > now + _AHEAD:
        raise InvalidInput(
            f"{what}: time {given!r} is {given - now:.0f} s ahead of the clock here, {now:.0f}; times are "
            "seconds since 1970"
        )
    if given < earliest:
        raise InvalidInput(
            f"{what}: time {given!r} is {now - given:.0f} s behind the clock here, {now:.0f}, and nothing "
            f"before {earliest:.0f} is taken in; times are seconds since 1970"
        )
    return given


def parsed(adapter: TypeAdapter[Any], body: bytes) -> Any:
    """Return what a body holds; `Problem` if it is no JSON or not of the type."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        if errors[0]["type"] == "json_invalid":
            raise Problem(400, f"not JSON: {errors[0]['ctx']['error']}") from None
        raise said_of(errors) from None


class ModeWanted(Strict):
    """Mode of operation: whether cores are not touched, moved as the policy says, or kept as they are."""

    mode: happened.Mode


class LimitsWanted(Strict):
    """The fewest and the most cores of the jobs of a class that have no limits of their own."""

    job_class: Name
    least: Whole = 1
    most: Whole | None = None


class JobListed(Strict):
    """Job that a scheduler has, with the cores that it holds, 0 if it waits."""

    job: Name
    job_class: Name
    cores: Cores
    least: Whole | None = None
    most: Whole | None = None


class JobsWanted(Strict):
    """All jobs that a scheduler has, running or waiting."""

    time: Annotated[
        Time | None, Field(description="When that was so, in seconds since 1970; if not given, now.")
    ] = None
    jobs: list[JobListed]


# --- answers ----------------------------------------------------------------------------------------


class ProblemView(BaseModel):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None


class ReasonView(BaseModel):
    """The state that cores were decided in, and what decided."""

    counts: list[int]
    cores: list[int]
    policy: str
    rule: str


class SetCoresView(BaseModel):
    """Set the cores of a job; answer with the event `cores-held` when it holds them."""

    number: int
    kind: Literal["set-cores"]
    job: str
    cores: int
    reason: ReasonView
    generation: Annotated[int, Field(description="To be named in the answer.")] = 0


class AlertView(BaseModel):
    """Something that a person should know."""

    number: int
    kind: Literal["alert"]
    about: str
    text: str


InstructionView = Annotated[SetCoresView | AlertView, Field(discriminator="kind")]


class Acknowledged(BaseModel):
    """Events that are safe: how many are new, how many were told before, and what is to be done now."""

    accepted: int
    duplicates: int
    instructions: list[InstructionView]
    last: Annotated[int, Field(description="The number of the last instruction there is.")]
    journal: Annotated[str, Field(description="The journal that the numbers are of.")]


class ReconciledView(BaseModel):
    """Jobs that are gone, jobs that were not known, jobs that hold other cores, and what is to be done."""

    ended: list[str]
    present: list[str]
    resized: list[str]
    instructions: list[InstructionView]
    last: int
    journal: str | None


class InstructionPage(BaseModel):
    """Instructions behind a number, the earliest first."""

    instructions: list[InstructionView]
    last: int
    journal: str


class JobView(BaseModel):
    """Job, with the cores that it holds, was told to hold and should hold."""

    job: str
    job_class: str
    held: int
    told: int
    target: int
    generation: int
    least: int
    most: int
    arrived: float | None


class Allocation(BaseModel):
    """What every job holds."""

    time: float
    mode: happened.Mode
    pool: int
    policy: str
    jobs: list[JobView]
    last: Annotated[int, Field(description="The number of the last instruction by then.")]
    journal: str


class Explained(BaseModel):
    """Why a job holds what it holds."""

    job: str
    job_class: str
    held: int
    told: int
    target: int
    text: str


class PolicyView(BaseModel):
    """The policy in force: of two classes, the cores of the first by the jobs of both."""

    policy: str
    pool: int
    classes: list[str]
    cores: list[list[int]] | None


class SeriesView(BaseModel):
    """Jobs of a class, and the cores they held, over time."""

    name: str
    jobs: list[int]
    held: list[int]


class HistoryView(BaseModel):
    """What was."""

    time: list[float]
    classes: list[SeriesView]


class EstimatesView(BaseModel):
    """What has been learned of each class, and what was known after each window before."""

    classes: dict[str, dict[str, Any] | None]
    history: list[dict[str, Any]]


class ReportView(BaseModel):
    """What the pool does, has learned, and expects to gain."""

    model_config = ConfigDict(extra="allow")

    time: float
    mode: happened.Mode
    pool: int
    policy: str
    gain: dict[str, float | None] | None
    in_force: bool
    adopted: bool
    reason: str
    classes: list[dict[str, Any]]
    alarms: list[dict[str, Any]]
    alerts: list[dict[str, Any]]


class Health(BaseModel):
    """How the service is."""

    status: str
