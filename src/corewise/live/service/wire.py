"""The HTTP wire: requests as typed values, answers as plain ones, errors as problem details (RFC 9457).

Events are read by the parser of `corewise.observation.events`, which is strict: ``false`` and ``"4"`` are no
numbers, and an unknown key is refused. What only a wire has is added here: which events a scheduler may
report, largest values, and times by the clock of the sender.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import MISSING, fields
from http import HTTPStatus
from typing import Any

from corewise.errors import CorewiseError, InvalidInput, nearest
from corewise.kit import checks
from corewise.kit.jsonable import plain, to_json
from corewise.live.state.controller import Controller
from corewise.live.state.job_table import PoolJob
from corewise.live.state.reconcile import ListedJob
from corewise.observation import events as happened

__all__ = [
    "BATCH",
    "REPORTED",
    "Problem",
    "allocation",
    "explanation",
    "jobs_in",
    "limits_in",
    "mode_in",
    "number_in",
    "policy",
    "reported_events",
    "state",
    "whole_in",
]

BATCH = 1000
"""Events in one request."""

REPORTED: Mapping[str, type[happened.Event]] = {
    kind.kind: kind
    for kind in (
        happened.JobArrived,
        happened.JobPresent,
        happened.JobFinished,
        happened.JobEnded,
        happened.CoresHeld,
        happened.MoveRefused,
        happened.Progress,
        happened.PoolChanged,
    )
}
"""The events that a scheduler may report, by kind."""

_AHEAD = 60.0  # seconds by which the clock of a sender may be ahead of ours
_LINE = 200  # characters of a name
_CORES = 1_000_000
_AMOUNT = 1e12  # of work, and of seconds
_LARGEST: Mapping[str, float] = {
    **dict.fromkeys(("cores", "held", "fits", "least", "most"), _CORES),
    **dict.fromkeys(("amount", "paused"), _AMOUNT),
    "generation": 2**53,
}
_NUMBERS = ("time", "amount", "paused", "fraction")
_EXPLAINED = 200  # jobs that a state explains
_STATES = 24  # jobs of a class in the table of a policy


class Problem(Exception):
    """Problem with a request.

    Parameters
    ----------
    status : int
        The status code.
    detail : str
        What is wrong, with the offending value.
    where : str, optional
        The path to the value in the body, such as ``[3]``.
    headers : mapping, optional
        Further headers of the answer.
    """

    def __init__(
        self, status: int, detail: str, where: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.headers, self._where = status, dict(headers or {}), where
        self._said = str(CorewiseError(detail))  # one line, without control characters
        self.detail = f"{where}: {self._said}" if where else self._said

    def content(self) -> bytes:
        """Return the body of the answer."""
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self._where is not None:
            body["errors"] = [{"where": self._where, "detail": self._said}]
        return to_json(body, indent=None).encode()


# --- requests ---------------------------------------------------------------------------------------


def reported_events(body: bytes, earliest: float) -> tuple[list[happened.Event], list[str]]:
    """Return the events of a request, one or many, and the ids of those that have no time of their own.

    `Problem` if they are malformed, or dated before `earliest`.
    """
    given = _json_of(body)
    if not isinstance(given, list):
        events = [_reported(given, time.time(), earliest, "")]
        return events, [event.id for event in events if given.get("time") is None]
    if not given:
        raise Problem(422, "a list of events has at least 1 item, got none", "")
    if len(given) > BATCH:
        raise Problem(422, f"a list of events has at most {BATCH} items, got {len(given)}", "")
    now = time.time()
    events = [_reported(row, now, earliest, f"[{number}]") for number, row in enumerate(given)]
    return events, [event.id for event, row in zip(events, given, strict=True) if row.get("time") is None]


def _reported(row: object, now: float, earliest: float, where: str) -> happened.Event:
    """Return the event of one row, dated now if its sender has not dated it."""
    if not isinstance(row, dict):
        raise Problem(422, f"an event must be an object, got {checks.shown(row)}", where)
    kind = row.get("kind")
    if not isinstance(kind, str) or kind not in REPORTED:
        if kind is None:
            raise Problem(422, f"kind is missing: it must be one of {', '.join(REPORTED)}", where)
        hint = nearest(str(kind), list(REPORTED))
        raise Problem(422, f"unknown kind of event {checks.shown(kind)}{hint}", where)
    values = {**row, "time": now} if row.get("time") is None else dict(row)
    for name in _NUMBERS:
        if type(values.get(name)) is int:  # JSON does not distinguish 3 from 3.0
            values[name] = _float(values[name])
    try:
        event = happened.event_from_mapping(values)
        for name in _LARGEST.keys() & values.keys():
            value = values[name]
            if value is not None and value > _LARGEST[name]:
                _require_at_most(value, _LARGEST[name], f"{kind}: {name}")
        if not earliest <= event.time <= now + _AHEAD:
            _require_plausible(event.time, now, earliest, f"{kind} {event.id!r}")
    except InvalidInput as error:
        raise Problem(422, str(error), where) from None
    return event


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def mode_in(body: bytes) -> happened.Mode:
    """Return the mode of operation that a request asks for."""
    values = _object_of(body, happened.ModeChanged)
    try:
        mode: happened.Mode = happened.ModeChanged(0.0, "mode", **values).mode
    except InvalidInput as error:
        raise Problem(422, str(error), "mode") from None
    return mode


def limits_in(body: bytes) -> dict[str, Any]:
    """Return the class and the limits, the fewest and the most cores of its jobs, that a request asks for."""
    given = _object_of(body, happened.LimitsChanged, optional=("least",))
    values = {"job_class": given["job_class"], "least": given.get("least", 1), "most": given.get("most")}
    try:
        checks.count(values["least"], "least")
        happened.LimitsChanged(0.0, "limits", **values)
        for name in ("least", "most"):
            _require_at_most(values[name], _CORES, name)
    except InvalidInput as error:
        raise Problem(422, str(error), "") from None
    return values


def jobs_in(body: bytes, earliest: float) -> tuple[list[ListedJob], float]:
    """Return the jobs that a scheduler has, and when it had them, by default now."""
    given = _json_of(body)
    _require_keys(given, {"jobs"}, {"time", "jobs"}, "")
    if not isinstance(given["jobs"], list):
        raise Problem(422, f"must be a list, got {checks.shown(given['jobs'])}", "jobs")
    listed = [_listed(row, f"jobs[{number}]") for number, row in enumerate(given["jobs"])]
    now = time.time()
    if given.get("time") is None:
        return listed, now
    try:
        at = checks.within(given["time"], 0.0, _AMOUNT, "time")
        _require_plausible(at, now, earliest, "jobs")
    except InvalidInput as error:
        raise Problem(422, str(error), "time") from None
    return listed, at


def _listed(row: object, where: str) -> ListedJob:
    _require_keys(row, {"job", "job_class", "cores"}, {field.name for field in fields(ListedJob)}, where)
    assert isinstance(row, dict)
    for name in ("job", "job_class"):
        if not isinstance(row[name], str) or not 0 < len(row[name]) <= _LINE:
            detail = f"{name} must be a line of 1 to {_LINE} characters, got {checks.shown(row[name])}"
            raise Problem(422, detail, where)
    try:
        for name, low in (("cores", 0), ("least", 1), ("most", 1)):
            if row.get(name) is not None or name == "cores":
                _require_at_most(checks.count(row[name], name, least=low), _CORES, name)
    except InvalidInput as error:
        raise Problem(422, str(error), where) from None
    return ListedJob(**row)


def whole_in(text: str | None, default: int, least: int, most: int, name: str) -> int:
    """Return a whole number in the query of a request."""
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    raise Problem(422, f"must be a whole number from {least} to {most}, got {checks.shown(text)}", name)


def number_in(text: str | None, default: float, most: float, name: str) -> float:
    """Return a number in the query of a request, from 0 on."""
    try:
        number = default if text is None else float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= most:
        raise Problem(422, f"must be a number from 0 to {most:g}, got {checks.shown(text)}", name)
    return number


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body.decode())
    except RecursionError:
        raise Problem(400, "not JSON: too many levels") from None
    except ValueError as error:
        raise Problem(400, f"not JSON: {error}") from None


def _object_of(body: bytes, kind: type[happened.Event], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a body that has the fields of an event but for its time and id."""
    given = _json_of(body)
    known = [field for field in fields(kind) if field.name not in ("time", "id")]
    required = {field.name for field in known if field.default is MISSING} - {*optional}
    _require_keys(given, required, {field.name for field in known}, "")
    values: dict[str, Any] = given
    return values


def _require_keys(given: object, required: set[str], known: set[str], where: str) -> None:
    if not isinstance(given, dict):
        raise Problem(422, f"must be an object, got {checks.shown(given)}", where)
    for key in given:
        if key not in known:
            raise Problem(422, f"unknown key {checks.shown(key)}{nearest(key, sorted(known))}", where)
    if missing := sorted(required - given.keys()):
        raise Problem(422, f"{' and '.join(missing)} missing", where)


def _require_at_most(value: float | None, most: float, what: str) -> None:
    if value is not None and value > most:
        raise InvalidInput(f"{what} must be at most {most:g}, got {checks.shown(value)}")


def _require_plausible(given: float, now: float, earliest: float, what: str) -> None:
    """Raise `InvalidInput` if a time cannot be one of the clock of a sender."""
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


# --- answers ----------------------------------------------------------------------------------------


def allocation(controller: Controller) -> dict[str, Any]:
    """Return the cores that every job holds, is instructed to hold, and should hold."""
    return {
        "time": controller.time,
        "mode": controller.mode,
        "pool": controller.pool,
        "policy": controller.policy_name,
        "jobs": [_job(controller, job) for job in controller.jobs],
    }


def _job(controller: Controller, job: PoolJob) -> dict[str, Any]:
    least, most = controller.jobs.bounds(job, controller.pool)
    return {
        "job": job.name,
        "job_class": controller.system.names[job.job_class],
        "held": job.held,
        "told": job.assigned,
        "target": job.target,
        "generation": job.generation,
        "least": least,
        "most": most,
        "arrived": plain(job.arrived),
    }


def explanation(controller: Controller, name: str) -> dict[str, Any]:
    """Return why a job holds the cores that it holds."""
    found = controller.explain(name)
    return {
        "job": found.job,
        "job_class": found.job_class,
        "held": found.held,
        "told": found.told,
        "target": found.target,
        "text": found.text,
    }


def policy(controller: Controller) -> dict[str, Any]:
    """Return the cores of the first of two classes by the jobs of both, as the policy in force gives them.

    The table has one row per number of jobs of the first class and one column per number of the second; there
    is none for other numbers of classes.
    """
    names = controller.system.names
    table = None
    if len(names) == 2:  # what a flat table can show
        counts = range(_STATES + 1)
        table = [[controller.given((row, column))[0] for column in counts] for row in counts]
    return {"policy": controller.policy_name, "pool": controller.pool, "classes": list(names), "cores": table}


def state(controller: Controller) -> dict[str, Any]:
    """Return the allocation, with explanations for the first jobs, and the report of a pool."""
    rows = allocation(controller)
    for row in rows["jobs"][:_EXPLAINED]:
        row["why"] = controller.explain(row["job"]).text
    return {"allocation": rows, "report": controller.report().as_mapping()}
