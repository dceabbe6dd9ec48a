"""What `corewise learn` is asked to do: its options, as they are given or as a saved run has them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corewise.cli.options import SEED_HELP, number, whole_number
from corewise.errors import InvalidFile, InvalidInput, InvalidPolicy

if TYPE_CHECKING:
    from corewise.learning.algorithms import Algorithm
    from corewise.learning.plant import ReplayPlant, SimulatedPlant
    from corewise.model.system import System
    from corewise.policies.base import Policy

__all__ = ["LearnChoices", "LearnOptions"]

Given = Mapping[str, Any]
"""Values of the options that are given, by their names."""

ALGORITHM, STEPS = "1b", 100
"""What is done if nothing is said; other defaults are those of the library."""

_ADAPTIVE = "adaptive"  # the algorithm that looks out for changes
_MOST_STEPS = 1_000_000  # the record of every window stays in memory


@dataclass(frozen=True)
class LearnChoices:
    """Options of `corewise learn` as they are given; what is not given is None."""

    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="1a|1b|adaptive",
            help="What the estimates are made from. 1a: the latest window. 1b: all windows. adaptive: for "
            f"each class, all windows since its last change, which is detected. [default: {ALGORITHM}]",
        ),
    ] = None
    departures: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Number of departures in the first window of observation. [default: 200]",
        ),
    ] = None
    power: Annotated[
        str | None,
        typer.Option(
            metavar="G",
            help="Growth of the windows: window k has N k^G departures. [default: 0.75 for 1a, 0 (equal "
            "windows) for 1b and adaptive]",
        ),
    ] = None
    between_alarms: Annotated[
        str | None,
        typer.Option(
            metavar="G",
            help="For adaptive: mean number of departures between false alarms of the change detector. The "
            "more, the surer a change, and the later it is detected. At least 100 windows. [default: 1e7]",
        ),
    ] = None
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="K",
            help=f"Number of windows. [default: {STEPS}; with --events all that the log has]",
        ),
    ] = None
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help=f"{SEED_HELP} Default: a new one, which is reported.",
        ),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help="Policy to compute from the estimates after each window: optimal, job-index, improved or "
            "whittle (for many classes), greedy, equi, fixed:0.5,0.5, priority:two,one. [default: optimal]",
        ),
    ] = None
    events: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Learn from this event log rather than from a simulation."),
    ] = None
    unknown_rates: Annotated[
        bool,
        typer.Option(
            "--unknown-rates",
            help="Do not tell the learner the arrival and size rates of SYSTEM: it estimates them too. So it "
            "does in any case where SYSTEM lacks them, as it may with --events.",
        ),
    ] = False
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="LAW",
            help="any: no law of sizes is assumed where jobs can be told apart, in a log that names them or "
            "a simulation of other than exponential sizes; or exponential. [default: any]",
        ),
    ] = None

    @property
    def values(self) -> Given:
        """The values of the options that are given."""
        events = None if self.events is None else self.events.resolve()
        return _parsed({**vars(self), "events": events, "unknown_rates": self.unknown_rates or None})


@dataclass(frozen=True)
class LearnOptions:
    """The options of a run: what to learn from and how."""

    algorithm: str
    departures: int
    power: float
    policy: str
    steps: int | None
    seed: int | None
    events: str | None
    between_alarms: float | None
    unknown_rates: bool = False
    sizes: str = "any"

    @classmethod
    def new(cls, given: Given) -> LearnOptions:
        """Return the options of a new run, with a new seed if none is given."""
        options = cls._of(given)
        random = options.seed is None and options.events is None
        return replace(options, seed=secrets.randbits(32)) if random else options

    @classmethod
    def resumed(cls, given: Given, file: Path, system: System) -> LearnOptions:
        """Return those of a saved run; what is given must agree with them, but for the number of windows."""
        from corewise.learning.checkpoint import saved_note

        note = saved_note(file)
        if not note:  # it was saved from Python
            if "seed" in given:
                raise InvalidInput(f"{file}: goes on with its own random numbers, got --seed {given['seed']}")
            return cls._of(given)
        try:
            saved = cls._of(_parsed(note))
        except InvalidInput as error:
            raise InvalidFile(f"{file} is not a usable run: {error}") from None
        return saved._with(given, file, system)

    def _with(self, given: Given, file: Path, system: System) -> LearnOptions:
        """Return these options, but what may differ as it is given; anything else that differs is refused."""
        if "events" in given and self.events is None:
            raise InvalidInput(f"{file}: is a run of a simulation, not of a log, got --events")
        if given.get("algorithm", self.algorithm) == self.algorithm:  # otherwise its options are others, too
            _require_sense(given, self.algorithm, self.events)
        for key in ("algorithm", "departures", "power", "seed", "between_alarms", "unknown_rates", "sizes"):
            there, here = getattr(self, key), given.get(key)
            if here is not None and there != here:
                raise InvalidInput(f"{file}: is a run with --{key.replace('_', '-')} {there}, got {here}")
        policy = given.get("policy", self.policy)
        if _rule(policy, system) != _rule(self.policy, system):
            raise InvalidInput(f"{file}: is a run with --policy {self.policy}, got {policy}")
        return replace(self, **{key: given[key] for key in ("steps", "events") if key in given})

    @classmethod
    def _of(cls, given: Given) -> LearnOptions:
        """Return options with those that are not given as the library has them."""
        from corewise.learning.algorithms import ALGORITHMS

        algorithm, events = given.get("algorithm", ALGORITHM), given.get("events")
        _require_sense(given, algorithm, events)
        library = signature(ALGORITHMS[algorithm]).parameters
        defaults = {
            "algorithm": algorithm,
            "departures": library["departures"].default,
            "power": library["power"].default,
            "policy": "optimal",
            "steps": STEPS if events is None else None,  # all that the log has
            "seed": None,
            "events": None,
            "between_alarms": library["between_alarms"].default if algorithm == _ADAPTIVE else None,
        }
        return cls(**{**defaults, **given})

    @property
    def note(self) -> dict[str, Any]:
        """The options that are set, to be kept with a saved run."""
        return {key: value for key, value in vars(self).items() if value is not None and value is not False}

    def method(self, system: System) -> Algorithm:
        """Return the algorithm for what is known of a system."""
        from corewise.learning.algorithms import ALGORITHMS

        watch = {} if self.between_alarms is None else {"between_alarms": self.between_alarms}
        return ALGORITHMS[self.algorithm](
            system.without_rates() if self.unknown_rates else system,
            departures=self.departures,
            power=self.power,
            steps=self.steps,
            policy=_rule(self.policy, system),
            sizes=self.sizes,
            **watch,
        )

    def plant(self, system: System) -> SimulatedPlant | ReplayPlant:
        """Return what to learn from."""
        from corewise.learning.plant import ReplayPlant, SimulatedPlant

        if self.events is not None:
            from corewise.observation.event_logs import load_events

            return ReplayPlant(load_events(self.events, system).path)
        return SimulatedPlant(system, rng=self.seed)


def _parsed(texts: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of a command line or of a saved run, each as what it is; None is not given."""
    return {
        key: parse(str(value)) for key, parse in _PARSERS.items() if (value := texts.get(key)) is not None
    }


def _algorithm(text: str) -> str:
    from corewise.learning.algorithms import ALGORITHMS

    if text not in ALGORITHMS:
        *names, last = ALGORITHMS
        raise InvalidInput(f"--algorithm must be {', '.join(names)} or {last}, got {text!r}")
    return text


def _sizes(text: str) -> str:
    from corewise.estimation.mle import ANY, EXPONENTIAL

    if text not in (ANY, EXPONENTIAL):
        raise InvalidInput(f"--sizes must be {ANY} or {EXPONENTIAL}, got {text!r}")
    return text


def _steps(text: str) -> int:
    steps = whole_number(text, "--steps", least=1)
    if steps > _MOST_STEPS:
        raise InvalidInput(f"--steps must be at most {_MOST_STEPS}, got {text!r}")
    return steps


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "algorithm": _algorithm,
    "departures": lambda text: whole_number(text, "--departures", least=1),
    "power": lambda text: number(text, "--power") + 0.0,  # no -0
    "policy": str,
    "steps": _steps,
    "seed": lambda text: whole_number(text, "--seed"),
    "events": str,
    "between_alarms": lambda text: number(text, "--between-alarms"),
    "unknown_rates": lambda text: text == "True",
    "sizes": _sizes,
}


def _require_sense(given: Given, algorithm: str, events: str | None) -> None:
    """Raise `InvalidInput` if an option is given that has no meaning in a run of this kind."""
    between, seed = given.get("between_alarms"), given.get("seed")
    if between is not None and algorithm != _ADAPTIVE:
        raise InvalidInput(
            f"--between-alarms is for --algorithm {_ADAPTIVE}: {algorithm} looks out for no changes, "
            f"got {between:g}"
        )
    if seed is not None and events is not None:
        raise InvalidInput(f"--seed is for a simulation, nothing in --events is random, got {seed}")


def _rule(text: str, system: System) -> Policy | None:
    """Return the rule to bind to the estimates; None for the exact optimum."""
    from corewise.policies.base import policy_named
    from corewise.policies.tabular import Tabular

    if text == "optimal":
        return None
    rule = policy_named(text, system)
    if isinstance(rule, Tabular):
        raise InvalidPolicy(f"policy {text!r} is a saved one, made once and for all: name a rule instead")
    return rule
