"""What `corewise learn` has to do, and the loop on its way: saved now and then, and when it ends."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from corewise.cli import policies
from corewise.cli.options import number, whole_number
from corewise.errors import BoxTooLarge, InvalidFile, InvalidInput, InvalidPolicy

if TYPE_CHECKING:
    from corewise.analysis.performance import Performance
    from corewise.control.solution import Solution
    from corewise.learning.algorithms import Algorithm
    from corewise.learning.learner import Learning
    from corewise.learning.plant import ReplayPlant, SimulatedPlant
    from corewise.learning.saved import Row
    from corewise.model.system import System
    from corewise.policies.base import Policy

__all__ = ["Course", "Plan", "Yardstick"]

Options = Mapping[str, str | None]
"""Options as text, by their names; None where they are not given."""

_POWERS = {"1a": 0.75, "1b": 0.0}
"""The algorithms, and how their windows grow if nothing is said."""

_NEEDED = {
    "algorithm": " or ".join(_POWERS),
    "departures": "how many in the first window",
    "steps": "how many windows",
}
"""The options that a new run cannot do without, and what they say."""

_MOST_STEPS = 1_000_000  # the record of every window stays in memory
_BETWEEN = 1.0  # seconds, from one time of saving to the next
_SHARE = 0.1  # of the time, for saving


@dataclass(frozen=True)
class Plan:
    """What to learn from and how, as the options say."""

    algorithm: str
    departures: int
    power: float
    policy: str
    steps: int | None
    seed: int | None
    events: str | None

    @classmethod
    def new(cls, given: Options) -> Plan:
        """Return the plan of a new run, with a new seed if none is given."""
        plan = cls._of(given)
        random = plan.seed is None and plan.events is None
        return replace(plan, seed=secrets.randbits(32)) if random else plan

    @classmethod
    def resumed(cls, given: Options, file: Path, system: System) -> Plan:
        """Return the plan of a saved run; what is given must agree with it, but for the number of windows."""
        from corewise.learning.saved import saved_note

        note: Options = {key: str(value) for key, value in saved_note(file).items()}
        if not note:
            if given["seed"] is not None:
                raise InvalidInput(f"{file}: goes on with its own random numbers, got --seed {given['seed']}")
            return cls._of(given)
        try:
            before = cls._of(note)
        except InvalidInput as error:
            raise InvalidFile(f"{file} is not a usable run: {error}") from None
        if given["events"] is not None and before.events is None:
            raise InvalidInput(f"{file}: is a run of a simulation, not of a log, got --events")
        plan = cls._of({**note, **{key: text for key, text in given.items() if text is not None}})
        for option in ("algorithm", "departures", "power", "seed"):
            there, here = getattr(before, option), getattr(plan, option)
            if there != here:
                raise InvalidInput(f"{file}: is a run with --{option} {there}, got {here}")
        if _rule(plan.policy, system) != _rule(before.policy, system):
            raise InvalidInput(f"{file}: is a run with --policy {before.policy}, got {plan.policy}")
        return replace(plan, policy=before.policy)  # as it was first spelled

    @classmethod
    def _of(cls, given: Options) -> Plan:
        algorithm, departures, steps = (given.get(key) for key in ("algorithm", "departures", "steps"))
        power, policy, seed, events = (given.get(key) for key in ("power", "policy", "seed", "events"))
        if algorithm is not None and algorithm not in _POWERS:
            raise InvalidInput(f"--algorithm must be {' or '.join(_POWERS)}, got {algorithm!r}")
        if algorithm is None or departures is None or (steps is None and events is None):
            raise InvalidInput(_missing(given))
        if seed is not None and events is not None:
            raise InvalidInput(f"--seed is for a simulation, nothing in --events is random, got {seed!r}")
        count = None if steps is None else whole_number(steps, "--steps", least=1)
        if count is not None and count > _MOST_STEPS:
            raise InvalidInput(f"--steps must be at most {_MOST_STEPS}, got {steps!r}")
        return cls(
            algorithm=algorithm,
            departures=whole_number(departures, "--departures", least=1),
            power=_POWERS[algorithm] if power is None else number(power, "--power") + 0.0,  # no -0
            policy="optimal" if policy is None else policy,
            steps=count,
            seed=None if seed is None else whole_number(seed, "--seed"),
            events=events,
        )

    @property
    def note(self) -> dict[str, str]:
        """The options of this plan, to be kept with a saved run."""
        return {option: str(value) for option, value in vars(self).items() if value is not None}

    def method(self, system: System) -> Algorithm:
        """Return the algorithm for what is known of a system."""
        from corewise.learning.algorithms import ALGORITHMS

        return ALGORITHMS[self.algorithm](
            system,
            departures=self.departures,
            power=self.power,
            steps=self.steps,
            policy=_rule(self.policy, system),
        )

    def plant(self, system: System) -> SimulatedPlant | ReplayPlant:
        """Return what to learn from."""
        from corewise.learning.plant import ReplayPlant, simulated

        if self.events is not None:
            from corewise.model.events import load_events

            return ReplayPlant(load_events(self.events, system).path)
        return simulated(system, self.seed)


def _missing(given: Options) -> str:
    """Return which options are needed and not there."""
    needed = dict(_NEEDED)
    if given.get("events") is not None:
        del needed["steps"]  # all that the log has
    missing = [f"--{option} ({what})" for option, what in needed.items() if given.get(option) is None]
    *others, last = missing
    return f"{', '.join(others)} and {last} are needed" if others else f"{last} is needed"


def _rule(text: str, system: System) -> Policy | None:
    """Return the rule to bind to the estimates; None for the exact optimum."""
    from corewise.policies.tabular import Tabular

    if text == "optimal":
        return None
    rule = policies.parse_policy(text, system)
    if isinstance(rule, Tabular):
        raise InvalidPolicy(f"policy {text!r} is a saved one, made once and for all: name a rule instead")
    return rule


@dataclass(frozen=True)
class Yardstick:
    """What EQUI and the best policy do under the truth, exactly."""

    truth: System
    equi: Performance
    best: Solution

    @classmethod
    def of(cls, truth: System) -> Yardstick:
        """Return the exact numbers for a truth."""
        from corewise.analysis.performance import evaluate
        from corewise.control.solution import solve
        from corewise.policies.equi import Equi

        try:
            return cls(truth, evaluate(truth, Equi()), solve(truth))
        except BoxTooLarge as error:
            raise BoxTooLarge(f"{error}; try --policy whittle --no-gap") from None

    @property
    def equi_gap(self) -> float:
        """How much more EQUI costs than the best policy."""
        return max(self.equi.mean_cost / self.best.mean_cost - 1.0, 0.0)

    def moved(self, truth: System) -> Yardstick:
        """Return the exact numbers for what may be another truth."""
        return self if truth == self.truth else Yardstick.of(truth)


class Course:
    """The loop on its way.

    Parameters
    ----------
    loop : Learning
        The loop.
    target : Path or None
        Where to save it.
    note : mapping
        What to save with it.

    Attributes
    ----------
    before : int
        How many windows were closed in an earlier run that is resumed.
    logged : int or None
        How many departures the log has, if one is replayed.
    parts : dict
        Seconds spent in each part of the loop since then; zero for what was not done.
    seconds : float
        And in all.
    interrupted : bool
        Whether it was stopped before its end.
    unsaved : InvalidFile or None
        Why the last attempt to save it failed, if it did.
    """

    def __init__(self, loop: Learning, target: Path | None, note: Mapping[str, Any]) -> None:
        from corewise.learning.plant import ReplayPlant

        standing, plant = loop.learner.standing, loop.plant
        self.algorithm = loop.learner.algorithm
        self.target = target
        self.before = standing.k
        self.logged = standing.departures + plant.left if isinstance(plant, ReplayPlant) else None
        self.parts = dict.fromkeys(("run", "estimate", "solve", "evaluate"), 0.0)
        self.seconds = 0.0
        self.interrupted = False
        self.unsaved: InvalidFile | None = None
        self._loop = loop
        self._note = note

    @property
    def rows(self) -> list[Row]:
        """The epochs that are over, those before a resumption included."""
        return self._loop.past

    @property
    def time(self) -> float:
        """When the last of them was over."""
        return float(self.rows[-1]["time"]) if self.rows else 0.0

    @cached_property
    def total(self) -> float:
        """How many departures there will be in all, at most."""
        schedule, steps = self.algorithm.schedule, self.algorithm.steps
        total = math.inf if steps is None else float(sum(map(schedule.window, range(1, steps + 1))))
        return total if self.logged is None else min(total, self.logged)

    @property
    def log_ended(self) -> bool:
        """Whether there are no more windows because there is no more of the log."""
        steps = self.algorithm.steps
        return self.logged is not None and not self.interrupted and (steps is None or len(self.rows) < steps)

    def require_a_window(self) -> None:
        """Raise `InvalidInput` if the log is over before the first window is."""
        first = self.algorithm.schedule.window(1)
        if self.logged is not None and self.logged < first:
            departures = "1 departure" if self.logged == 1 else f"{self.logged} departures"
            raise InvalidInput(f"the log has {departures}, and the first window has {first}")

    def run(self, progress: Callable[[float], None] | None) -> None:
        """Go on to the end or until Ctrl-C, and save the run if it is to be saved.

        A run is worth more than its file: if it cannot be saved it goes on all the same, see `unsaved`.
        """
        total, began = self.total, perf_counter()
        saved = began
        pause = _BETWEEN
        try:
            if progress and self.rows:
                progress(self.rows[-1]["departures"] / total)
            for epoch in self._loop:
                for part in self.parts:
                    if part != "evaluate" or epoch.mean_jobs is not None:
                        self.parts[part] += getattr(epoch.seconds, part)
                if progress:
                    progress(epoch.departures / total)
                now = perf_counter()
                if now - saved > pause:
                    self._save()
                    saved = perf_counter()
                    pause = max(_BETWEEN, (saved - now) / _SHARE)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.seconds = perf_counter() - began
            self._save()

    def _save(self) -> None:
        if not (self.target and self.rows):
            return
        try:
            self._loop.save(self.target, note=self._note)
        except InvalidFile as error:
            self.unsaved = error
        except MemoryError:
            self.unsaved = InvalidFile(f"{self.target}: cannot be written: not enough memory")
        else:
            self.unsaved = None
