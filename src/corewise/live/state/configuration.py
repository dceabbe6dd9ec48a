"""Configuration of a live pool: the system, how it is learned, and options of the controller.

A journal holds it as plain values, from which the controller can be made again. It may change while the
journal goes on: the event `pool-configured` has the new one. An algorithm with a schedule, a memory or a
policy of the user's own is named, but cannot be made from its name: only a program that has it can go on with
the pool, and the configuration cannot change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from corewise.errors import CorewiseError, InvalidInput, nearest
from corewise.kit import checks
from corewise.kit.jsonable import plain
from corewise.learning.algorithms import ALGORITHMS, Algorithm
from corewise.learning.memories import SinceChange
from corewise.learning.schedules import Constant, Growing
from corewise.model.files import RATES, system_from_mapping, system_to_mapping
from corewise.model.system import System

__all__ = ["Configuration", "Options"]

_DECIDE = ("classes", "jobs")
_OPTIONS = ("least_seen", "patience", "late_moves", "lateness", "retry")  # those that change what it does


@dataclass(frozen=True)
class Options:
    """Options of a live controller.

    Attributes
    ----------
    least_seen : int
        Departures of a class before it is part of a policy other than EQUI; until then it shares equally.
    patience : float
        How long a job may take to hold the cores it was assigned before there is an alert.
    checked : bool
        Whether all invariants are checked after every event.
    snapshot_every : int
        After how many events the state is written to the journal.
    late_moves : bool
        Whether a job may yet carry out an instruction that a later one has replaced, as where instructions
        travel: then no other job is given those cores until it has answered.
    lateness : float
        How long after the latest event an event may be reported and still be learned from; zero where one
        clock dates all of them in order.
    retry : float
        After how long a job whose start was refused is offered cores again; twice as long each further time.
    decide : str
        ``"classes"``: the policy in force gives cores to classes, which their jobs share. ``"jobs"``: jobs of
        classes that report progress are given cores one by one, by what is learned from the reports, and
        those of other classes an equal share beside them; where none reports, as with ``"classes"``.

    Examples
    --------
    >>> import corewise as cw
    >>> options = cw.live.Options(snapshot_every=1_000)
    >>> options.snapshot_every, options.checked
    (1000, False)
    """

    least_seen: int = 10
    patience: float = math.inf
    checked: bool = False
    snapshot_every: int = 10_000
    late_moves: bool = False
    lateness: float = 0.0
    retry: float = 10.0
    decide: str = _DECIDE[0]

    def __post_init__(self) -> None:
        if self.decide not in _DECIDE:
            raise InvalidInput(
                f"decide must be one of {', '.join(_DECIDE)}, got {checks.shown(self.decide)}"
                f"{nearest(str(self.decide), list(_DECIDE))}"
            )

    def like(self, other: Options) -> Options:
        """Return these options, with those of another that change nothing of what a controller does."""
        return replace(self, checked=other.checked, snapshot_every=other.snapshot_every)


@dataclass(frozen=True, eq=False)
class Configuration:
    """Configuration of a live pool.

    Attributes
    ----------
    algorithm : Algorithm
        What is known of the system, and how to learn the rest.
    options : Options
        Options of the controller.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.live.state.configuration import Configuration
    >>> system = cw.System(8, [cw.JobClass("etl", speedup=cw.Amdahl(0.5))])
    >>> here = Configuration(cw.algorithm_1b(system, departures=50))
    >>> there = Configuration.from_mapping(here.mapping)
    >>> there.mapping == here.mapping, there.algorithm.schedule.window(1)
    (True, 50)
    """

    algorithm: Algorithm
    options: Options = Options()

    @cached_property
    def mapping(self) -> dict[str, Any]:
        """The configuration as plain values, the same for the same configuration."""
        values = {name: getattr(self.options, name) for name in _OPTIONS}
        by_jobs = {} if self.options.decide == _DECIDE[0] else {"decide": self.options.decide}
        made = plain(
            {
                "system": system_to_mapping(self.algorithm.system),
                "algorithm": str(self.algorithm),
                "recipe": _recipe(self.algorithm),
                "options": {
                    **{name: value if math.isfinite(value) else None for name, value in values.items()},
                    **by_jobs,
                },
            }
        )
        assert isinstance(made, dict)
        return made

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Configuration:
        """Return the configuration that plain values describe; `InvalidInput` if they describe none.

        Options that an earlier version did not have are as it had them: at their defaults.
        """
        try:
            algorithm = _made(values["recipe"], system_from_mapping(values["system"], optional=RATES))
            rows = values["options"].items()
            given: dict[str, Any] = {name: math.inf if value is None else value for name, value in rows}
            options = Options(**given)
        except (KeyError, TypeError, AttributeError, CorewiseError) as error:
            raise InvalidInput(
                f"a pool cannot be made of its configuration: {type(error).__name__}: {error}"
            ) from None
        if algorithm is None:
            raise InvalidInput(
                f"only a program that has its algorithm can go on with this pool ({values.get('algorithm')})"
            )
        return cls(algorithm, options)

    def is_described_by(self, values: Mapping[str, Any]) -> bool:
        """Return whether plain values, perhaps of an earlier version, describe this configuration."""
        known = {**Configuration(self.algorithm).mapping["options"], **(values.get("options") or {})}
        own = self.mapping
        return own["options"] == known and all(
            own[name] == values.get(name) for name in ("system", "algorithm", "recipe")
        )


def _recipe(algorithm: Algorithm) -> dict[str, Any] | None:
    """Return the arguments that make an algorithm again, None if it is the user's own."""
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
