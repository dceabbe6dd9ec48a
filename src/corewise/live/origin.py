"""What a journal is a journal of, as plain values: the system, how it is learned, options of the controller.

A controller that is made of these values, and handles the events of the journal, is in the state in which it
was. An algorithm that has a schedule, a memory or a policy of somebody's own is named, but cannot be made
again from here; whoever has it can.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from corewise.errors import CorewiseError, InvalidFile
from corewise.learning.algorithms import ALGORITHMS, Algorithm
from corewise.learning.memories import SinceChange
from corewise.learning.schedules import Constant, Growing
from corewise.live.controller import Controller, Options
from corewise.live.journal import JournalReader
from corewise.model.files import RATES, system_from_mapping, system_to_mapping
from corewise.model.system import System
from corewise.policies.saved import policy_from_bytes

__all__ = ["about_pool", "controller_of"]

_OPTIONS = (
    "least_seen",
    "patience",
    "late_moves",
    "lateness",
    "retry",
)  # of the controller: those that change what it does


def about_pool(algorithm: Algorithm, options: Options | None = None) -> dict[str, Any]:
    """Return what a journal says of the pool that writes it."""
    chosen = Options() if options is None else options
    values = {name: getattr(chosen, name) for name in _OPTIONS}
    return {
        "system": system_to_mapping(algorithm.system),
        "algorithm": str(algorithm),
        "recipe": _recipe(algorithm),
        "options": {name: value if math.isfinite(value) else None for name, value in values.items()},
    }


def controller_of(journal: JournalReader, snapshot: bytes | None = None) -> Controller:
    """Return the controller of a journal as it was before the first event, or that of a snapshot."""
    about = journal.about
    try:
        algorithm = _made(about["recipe"], system_from_mapping(about["system"], optional=RATES))
        given: dict[str, Any] = {
            name: math.inf if value is None else value for name, value in about["options"].items()
        }
        options, began = Options(**given), about.get("opened", 0.0)
    except (KeyError, TypeError, AttributeError, CorewiseError) as error:
        raise InvalidFile(
            f"{journal.path}: its pool cannot be made again from what it says of itself: {error}"
        ) from None
    if algorithm is None:
        raise InvalidFile(
            f"{journal.path}: only whoever has its algorithm can replay it ({about.get('algorithm')})"
        )

    def policy(digest: str) -> Any:
        return policy_from_bytes(journal.policy(digest), f"policy {digest}")

    if snapshot is not None:
        return Controller.of(snapshot, algorithm, policy, options)
    return Controller(algorithm, policy, time=began, options=options)


def _recipe(algorithm: Algorithm) -> dict[str, Any] | None:
    """Return how to make an algorithm again, None if it is somebody's own."""
    schedule, memory = algorithm.schedule, algorithm.memory
    if not isinstance(schedule, Constant | Growing) or algorithm.name not in ALGORITHMS:
        return None
    first = schedule.first if isinstance(schedule, Growing) else schedule.departures
    recipe: dict[str, Any] = {
        "name": algorithm.name,
        "departures": first,
        "power": schedule.power if isinstance(schedule, Growing) else 0.0,
        "steps": algorithm.steps,
        "policy": None if algorithm.policy is None else algorithm.policy.name,
    }
    if isinstance(memory, SinceChange):
        recipe |= {"between_alarms": memory.detector.between_alarms, "inertia": algorithm.inertia}
    else:
        recipe["sizes"] = algorithm.sizes
    try:
        made = _made(recipe, algorithm.system)
    except CorewiseError:
        return None
    return recipe if made is not None and _alike(made, algorithm) else None


def _made(recipe: Mapping[str, Any] | None, system: System) -> Algorithm | None:
    if recipe is None:
        return None
    values = dict(recipe)
    return ALGORITHMS[values.pop("name")](system, **values)


def _alike(one: Algorithm, other: Algorithm) -> bool:
    """Return whether two algorithms do the same."""
    same_schedule = one.schedule == other.schedule and type(one.schedule) is type(other.schedule)
    same_memory = type(one.memory) is type(other.memory)
    same_rule = type(one.policy) is type(other.policy) and type(one.first) is type(other.first) is type(None)
    return (
        same_schedule
        and same_memory
        and same_rule
        and (one.inertia, one.sizes, one.steps) == (other.inertia, other.sizes, other.steps)
    )
