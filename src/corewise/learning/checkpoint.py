"""Checkpoints: the state of a loop in a file, from which it can be resumed as if it had never stopped.

A file has the algorithm's description and the plant's, by which they are known again; what was learned; where
the plant is, its random generator included; the record of all epochs so far; and a note, if one was left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidFile, InvalidInput
from corewise.estimation.mle import ANY
from corewise.kit import checks
from corewise.kit.archive import read_archive, usable, write_archive
from corewise.kit.arrays import Floats
from corewise.learning.algorithms import Algorithm
from corewise.learning.learner import LearnerState
from corewise.learning.memories import Part, SinceChange
from corewise.learning.plant import Plant, Resumable
from corewise.model.files import RATES, system_from_mapping, system_to_mapping
from corewise.model.system import System
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.observation.strata.tables import Strata

__all__ = [
    "Checkpoint",
    "EpochRow",
    "packed_parts",
    "plant_snapshot",
    "saved_note",
    "unpacked_parts",
]

_FORMAT = "corewise learning 1"
_WHAT = "saved run"
_WARM_START = "near"  # as files have had it from the first
_COLUMNS = ("widths", "departures", "job_time")

_RENAMED = {"DriftingPlant": "SimulatedPlant"}
"""Plants that had another name when a run was saved."""

EpochRow = dict[str, Any]
"""The record of an epoch, as plain values."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Checkpoint of a learning loop between two epochs, from which it can be resumed."""

    algorithm: Algorithm
    state: LearnerState
    plant: Plant
    snapshot: Mapping[str, Any] | None
    past: list[EpochRow]

    def write(self, file: str | Path, note: Mapping[str, Any]) -> None:
        """Write the checkpoint to a file; `note` is whatever else to keep, see `saved_note`."""
        if self.snapshot is None:
            raise InvalidInput(
                f"{type(self.plant).__name__} cannot be saved: it needs snapshot() and restore(snapshot)"
            )
        state = self.state
        parts, arrays = packed_parts(state.memory.parts)
        # The next window tells schedules apart that have begun alike; after the last there is none.
        windows = state.k + (state.k != self.algorithm.steps)
        about = {
            "identity": _identity(self.algorithm, self.plant, windows),
            "k": state.k,
            "departures": state.departures,
            "time": state.time,
            "estimated": system_to_mapping(state.estimated),
            "believed": system_to_mapping(state.plug_in),
            "memory": parts,
            "plant": self.snapshot,
            "past": self.past[: state.k],
            "note": dict(note),
        }
        if state.warm_start is not None:
            arrays[_WARM_START] = state.warm_start
        write_archive(file, _FORMAT, about, arrays)

    @staticmethod
    def resumed(file: str | Path, algorithm: Algorithm, plant: Plant) -> tuple[LearnerState, list[EpochRow]]:
        """Resume a loop from its checkpoint: return its state and epochs so far, and restore the plant."""
        if not isinstance(algorithm, Algorithm):
            raise InvalidInput(f"expected an algorithm such as algorithm_1a(…), got {algorithm!r}")
        if not isinstance(plant, Resumable):
            raise InvalidInput(f"{type(plant).__name__} cannot go on from a saved run: it has no restore(…)")
        about, arrays = read_archive(file, _FORMAT, _WHAT)
        with usable(file, _WHAT):
            state = LearnerState(
                int(about["k"]),
                int(about["departures"]),
                float(about["time"]),
                system_from_mapping(about["estimated"], optional=RATES),
                system_from_mapping(about["believed"], optional=RATES),
                _floats(arrays[_WARM_START]) if _WARM_START in arrays else None,
                algorithm.memory.of_parts(unpacked_parts(about["memory"], arrays)),
            )
            identity, past, snapshot = about["identity"], about["past"], about["plant"]
            for row in past:  # runs of old did not have all
                row.setdefault("alarms", [])
                for rate in RATES:
                    known = {given.name: getattr(given, rate) for given in algorithm.system.classes}
                    row.setdefault(f"{rate}s", known)
            _require_record(state, past)
            windows = len(identity["windows"])
            identity["plant"] = _RENAMED.get(identity["plant"], identity["plant"])
        here = json.loads(json.dumps(_identity(algorithm, plant, windows)))
        other = _difference(identity, here)
        if other:
            raise InvalidFile(f"{file}: the saved run is another one: {other}")
        with usable(file, _WHAT):
            plant.restore(snapshot)
        return state, past


def _require_record(state: LearnerState, past: list[EpochRow]) -> None:
    """Raise `InvalidInput` unless the record of epochs is that of as many windows as are closed."""
    checks.count(state.k, "k")
    checks.positive(state.time, "time")
    if [row["k"] for row in past] != list(range(1, state.k + 1)):
        raise InvalidInput(f"its record has {len(past)} epochs, and {state.k} windows were closed")
    if not past[-1]["departures"] == state.departures >= 1:
        raise InvalidInput(f"its record and its state have different departures: {state.departures}")
    for row in past:
        if set(row) != set(past[0]) or set(row["estimates"]) != set(state.plug_in.names):
            raise InvalidInput(f"the record of epoch {row['k']} is incomplete")


def saved_note(file: str | Path) -> dict[str, Any]:
    """Return the note that was left in a saved run, empty if there is none."""
    about, _ = read_archive(file, _FORMAT, _WHAT)
    with usable(file, _WHAT):
        return dict(about.get("note", {}))


def plant_snapshot(plant: Plant) -> Mapping[str, Any] | None:
    """Return the snapshot of a plant, None if it has none."""
    snapshot = getattr(plant, "snapshot", None)  # what isinstance(plant, Resumable) would find, but quicker
    return snapshot() if callable(snapshot) else None


def _identity(algorithm: Algorithm, plant: Plant, windows: int) -> dict[str, Any]:
    """Return what must be the same for a run to be resumed; the number of windows may differ."""
    system = getattr(plant, "system", None)
    return {
        "algorithm": algorithm.name,
        "known system": system_to_mapping(algorithm.system),
        "policy": None if algorithm.policy is None else algorithm.policy.name,
        "memory": type(algorithm.memory).__name__,
        **_of_adaptive(algorithm),
        **_of_sizes(algorithm),
        "windows": [algorithm.schedule.window(j) for j in range(1, windows + 1)],
        "plant": type(plant).__name__,
        "system": system_to_mapping(system) if isinstance(system, System) else None,
    }


def _of_adaptive(algorithm: Algorithm) -> dict[str, float]:
    """Return what else must be the same where an algorithm detects changes, or reuses policies."""
    memory = algorithm.memory
    found = {"between_alarms": memory.detector.between_alarms} if isinstance(memory, SinceChange) else {}
    return found | ({"inertia": algorithm.inertia} if algorithm.inertia else {})


def _of_sizes(algorithm: Algorithm) -> dict[str, str]:
    """Return what is assumed of sizes, if that is not the default, which runs of old did not say."""
    return {} if algorithm.sizes == ANY else {"sizes": algorithm.sizes}


def _difference(there: Any, here: Any, what: str = "") -> str:
    """Return the first difference between two descriptions in words, or an empty text."""
    if isinstance(there, dict) and isinstance(here, dict):
        pairs = [(key, there.get(key), here.get(key)) for key in {**there, **here}]
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = [(str(i + 1), *pair) for i, pair in enumerate(zip(there, here, strict=True))]
    else:
        return "" if there == here else f"{what} is {there!r} there, and {here!r} here"
    found = (_difference(one, other, f"{what} {key}".strip()) for key, one, other in pairs)
    return next(filter(None, found), "")


def packed_parts(parts: tuple[Part, ...]) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    """Return statistics and named arrays as a description and named arrays."""
    about: list[dict[str, Any]] = []
    arrays: dict[str, NDArray[Any]] = {}
    for j, part in enumerate(parts):
        if isinstance(part, Mapping):
            about.append({"arrays": list(part)})
            arrays |= {f"{j}.{name}": array for name, array in part.items()}
            continue
        rows: list[dict[str, Any]] = [
            {"arrivals": row.arrivals, "per_octave": row.per_octave} for row in part.classes
        ]
        about.append({"names": list(part.names), "time": part.time, "classes": rows})
        for i, row in enumerate(part.classes):
            arrays |= {f"{j}.{i}.{column}": getattr(row, column) for column in _COLUMNS}
        for i, strata in enumerate(part.strata or ()):
            if strata is not None:
                rows[i]["strata"] = strata.family
                arrays |= {f"{j}.{i}.strata.{name}": array for name, array in strata.arrays.items()}
    return about, arrays


def unpacked_parts(about: list[dict[str, Any]], arrays: Mapping[str, NDArray[Any]]) -> tuple[Part, ...]:
    """Return the parts that were packed."""
    parts: list[Part] = []
    for j, part in enumerate(about):
        if "arrays" in part:
            parts.append({name: arrays[f"{j}.{name}"] for name in part["arrays"]})
            continue
        classes = []
        for i, row in enumerate(part["classes"]):
            widths, departures, job_time = (_floats(arrays[f"{j}.{i}.{column}"]) for column in _COLUMNS)
            arrivals, per_octave = int(row["arrivals"]), int(row["per_octave"])
            table = np.array([widths, departures, job_time])
            if not np.all((table >= 0.0) & np.isfinite(table)):
                raise InvalidInput(f"its table {j}.{i} has negative or infinite entries")
            classes.append(ClassStatistics(arrivals, widths, departures, job_time, per_octave))
        strata = _unpacked_strata(part["classes"], arrays, j)
        parts.append(Statistics(tuple(part["names"]), float(part["time"]), tuple(classes), strata))
    return tuple(parts)


def _unpacked_strata(
    rows: list[dict[str, Any]], arrays: Mapping[str, NDArray[Any]], j: int
) -> tuple[Strata | None, ...] | None:
    """Return the strata of a part, None where it has none."""
    found = [
        Strata.of_arrays(row.get("strata", ""), arrays, f"{j}.{i}.strata.") for i, row in enumerate(rows)
    ]
    return tuple(found) if any(strata is not None for strata in found) else None


def _floats(column: NDArray[Any]) -> Floats:
    return column.astype(np.float64, casting="safe")
