"""What `corewise learn` is asked to do: its options, as they are given or as a saved run has them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

from corewise.cli import policies
from corewise.cli.options import number, whole_number
from corewise.errors import InvalidFile, InvalidInput, InvalidPolicy

if TYPE_CHECKING:
    from corewise.learning.algorithms import Algorithm
    from corewise.learning.plant import ReplayPlant, SimulatedPlant
    from corewise.model.system import System
    from corewise.policies.base import Policy

__all__ = ["LearnOptions"]

Options = Mapping[str, str | None]
"""Options as text, by their names; None where they are not given."""

_ADAPTIVE = "adaptive"  # the algorithm that looks out for changes

_POWERS = {"1a": 0.75, "1b": 0.0, _ADAPTIVE: 0.0}
"""The algorithms, and how their windows grow if nothing is said."""

_CHOICE = "{}, {} or {}".format(*_POWERS)

_NEEDED = {
    "algorithm": _CHOICE,
    "departures": "how many in the first window",
    "steps": "how many windows",
}
"""The options that a new run cannot do without, and what they say."""

_MOST_STEPS = 1_000_000  # the record of every window stays in memory


@dataclass(frozen=True)
class LearnOptions:
    """What to learn from and how, as the options say."""

    algorithm: str
    departures: int
    power: float
    policy: str
    steps: int | None
    seed: int | None
    events: str | None
    between_alarms: float | None

    @classmethod
    def new(cls, given: Options) -> LearnOptions:
        """Return the options of a new run, with a new seed if none is given."""
        options = cls._of(given)
        random = options.seed is None and options.events is None
        return replace(options, seed=secrets.randbits(32)) if random else options

    @classmethod
    def resumed(cls, given: Options, file: Path, system: System) -> LearnOptions:
        """Return those of a saved run; what is given must agree with them, but for the number of windows."""
        from corewise.learning.checkpoint import saved_note

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
        if given["algorithm"] not in (None, before.algorithm):  # then its options are others as well
            raise InvalidInput(
                f"{file}: is a run with --algorithm {before.algorithm}, got {given['algorithm']}"
            )
        options = cls._of({**note, **{key: text for key, text in given.items() if text is not None}})
        for key in ("departures", "power", "seed", "between_alarms"):
            there, here = getattr(before, key), getattr(options, key)
            if there != here:
                raise InvalidInput(f"{file}: is a run with --{key.replace('_', '-')} {there}, got {here}")
        if _rule(options.policy, system) != _rule(before.policy, system):
            raise InvalidInput(f"{file}: is a run with --policy {before.policy}, got {options.policy}")
        return replace(options, policy=before.policy)  # as it was first spelled

    @classmethod
    def _of(cls, given: Options) -> LearnOptions:
        algorithm, departures, steps = (given.get(key) for key in ("algorithm", "departures", "steps"))
        power, policy, seed, events = (given.get(key) for key in ("power", "policy", "seed", "events"))
        between = given.get("between_alarms")
        if algorithm is not None and algorithm not in _POWERS:
            raise InvalidInput(f"--algorithm must be {_CHOICE}, got {algorithm!r}")
        if algorithm is None or departures is None or (steps is None and events is None):
            raise InvalidInput(_missing(given))
        if between is not None and algorithm != _ADAPTIVE:
            raise InvalidInput(
                f"--between-alarms is for --algorithm {_ADAPTIVE}: {algorithm} looks out for no changes, "
                f"got {between!r}"
            )
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
            between_alarms=_between_alarms(between) if algorithm == _ADAPTIVE else None,
        )

    @property
    def note(self) -> dict[str, str]:
        """The options as text, to be kept with a saved run."""
        return {option: str(value) for option, value in vars(self).items() if value is not None}

    def method(self, system: System) -> Algorithm:
        """Return the algorithm for what is known of a system."""
        from corewise.learning.algorithms import ALGORITHMS

        watch = {} if self.between_alarms is None else {"between_alarms": self.between_alarms}
        return ALGORITHMS[self.algorithm](
            system,
            departures=self.departures,
            power=self.power,
            steps=self.steps,
            policy=_rule(self.policy, system),
            **watch,
        )

    def plant(self, system: System) -> SimulatedPlant | ReplayPlant:
        """Return what to learn from."""
        from corewise.learning.plant import ReplayPlant, simulated

        if self.events is not None:
            from corewise.observation.event_logs import load_events

            return ReplayPlant(load_events(self.events, system).path)
        return simulated(system, self.seed)


def _between_alarms(text: str | None) -> float:
    """Return how many departures there are to be between false alarms; the library's choice if not given."""
    from corewise.learning.algorithms import adaptive

    if text is None:
        return float(signature(adaptive).parameters["between_alarms"].default)
    return number(text, "--between-alarms")


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
