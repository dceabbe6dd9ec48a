"""Snapshots of a live controller: all of its state as bytes, from which another goes on.

An archive of plain values and arrays, as saved policies are: no code is run to read one, and the same state
has the same bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import InvalidFile
from corewise.estimation.changes.alarms import Alarm
from corewise.estimation.class_estimate import ClassEstimate
from corewise.kit.archive import packed, unpacked, usable
from corewise.kit.frozen import FrozenMapping
from corewise.kit.jsonable import plain
from corewise.learning.checkpoint import packed_parts, unpacked_parts
from corewise.learning.learner import Learner, LearnerState
from corewise.learning.memories import Part
from corewise.live.state.counters import Book
from corewise.live.state.instructions import Alert
from corewise.live.state.job_table import Roster
from corewise.live.state.moving import Moving
from corewise.model.files import RATES, system_from_mapping, system_to_mapping
from corewise.observation import events as happened
from corewise.observation.admission import JobEnd
from corewise.observation.event_tally import EventTally
from corewise.observation.statistics import Statistics

if TYPE_CHECKING:
    from corewise.live.state.controller import Controller

__all__ = ["configuration_in", "restore", "snapshot_of"]

_FORMAT = "corewise live 2"
_WHAT = "snapshot of a live pool"
_PLAIN = (
    "time",
    "mode",
    "pool",
    "since",
    "request",
    "late",
    "asked_for",
    "would_have_moved",
    "reconfigured",
    "overheld",
)


def snapshot_of(controller: Controller) -> bytes:
    """Return all of the state of a controller."""
    learner = controller.learner
    state = learner.state
    parts, arrays = packed_parts((*state.memory.parts, *learner.covered, *learner.pending))
    found = controller.estimates
    about = {
        "configuration": controller.configuration.mapping,
        **{name: getattr(controller, name) for name in _PLAIN},
        "adopted": _of_event(controller.adopted),
        "answer": _of_event(controller.answer),
        "estimates": None if found is None else plain([row.as_mapping() for row in found.values()]),
        "alarms": [alarm.as_mapping() for alarm in controller.alarms],
        "alerts": [asdict(alert) for alert in controller.alerts],
        "alerted": sorted(controller.alerted),
        "left": list(controller.left.items()),
        "early": [happened.event_to_mapping(event) for event in controller.early.values()],
        "books": [asdict(book) for book in controller.books],
        "roster": controller.roster.snapshot(),
        "moving": controller.moving.snapshot(),
        "tally": controller.tally.snapshot(),
        "k": state.k,
        "departures": state.departures,
        "observed": state.time,
        "estimated": system_to_mapping(state.estimated),
        "believed": system_to_mapping(state.plug_in),
        "memory": parts,
        "taken": len(learner.covered),
        "new": len(learner.pending),
    }
    ids = np.frombuffer("\n".join(controller.ids).encode(), dtype=np.uint8)
    return packed("snapshot", _FORMAT, about, {**arrays, "ids": ids})


def configuration_in(content: bytes) -> Mapping[str, Any]:
    """Return the configuration that was in force when a snapshot was made, as plain values."""
    about, _ = unpacked("snapshot", content, _FORMAT, _WHAT)
    with usable("snapshot", _WHAT):
        found = about["configuration"]
        if not isinstance(found, dict):
            raise InvalidFile(f"its configuration is {found!r}")
    return found


def restore(controller: Controller, content: bytes) -> None:
    """Bring a new controller into the state of a snapshot."""
    about, arrays = unpacked("snapshot", content, _FORMAT, _WHAT)
    with usable("snapshot", _WHAT):
        for name in _PLAIN:
            setattr(controller, name, about[name])
        controller.adopted, controller.answer = _to_solved(about["adopted"]), _to_solved(about["answer"])
        rows = about["estimates"]
        if rows is not None:
            found = [ClassEstimate.from_mapping(row) for row in rows]
            controller.estimates = FrozenMapping({row.name: row for row in found})
        controller.alarms = tuple(map(Alarm.from_mapping, about["alarms"]))
        controller.alerts = deque((Alert(**values) for values in about["alerts"]), controller.alerts.maxlen)
        controller.alerted = set(about["alerted"])
        controller.left = dict(about["left"])
        controller.early = {values["job"]: _to_end(values) for values in about["early"]}
        controller.books = [Book(**values) for values in about["books"]]
        controller.roster = Roster.of(about["roster"], late_moves=controller.options.late_moves)
        if "moving" in about:
            controller.moving = Moving.of(controller.system, about["moving"])
        controller.tally = EventTally.of(controller.system.names, about["tally"], controller.options.lateness)
        memory, parts = controller.learner.algorithm.memory, unpacked_parts(about["memory"], arrays)
        ids = arrays.pop("ids").tobytes().decode()
        remembered = len(parts) - about["taken"] - about["new"]
        state = LearnerState(
            about["k"],
            about["departures"],
            about["observed"],
            system_from_mapping(about["estimated"], optional=RATES),
            system_from_mapping(about["believed"], optional=RATES),
            None,
            memory.of_parts(parts[:remembered]),
        )
        windows = _windows(parts[remembered:])
        taken = about["taken"]
        controller.learner = Learner(controller.learner.algorithm, state, windows[:taken], windows[taken:])
        controller.remember_ids(ids.split("\n") if ids else [])


def _of_event(event: happened.Solved | None) -> dict[str, Any] | None:
    return None if event is None else happened.event_to_mapping(event)


def _to_solved(values: Mapping[str, Any] | None) -> happened.Solved | None:
    if values is None:
        return None
    event = happened.event_from_mapping(values)
    assert isinstance(event, happened.Solved)
    return event


def _to_end(values: Mapping[str, Any]) -> JobEnd:
    event = happened.event_from_mapping(values)
    assert isinstance(event, JobEnd)
    return event


def _windows(parts: tuple[Part, ...]) -> tuple[Statistics, ...]:
    return tuple(part for part in parts if isinstance(part, Statistics))
