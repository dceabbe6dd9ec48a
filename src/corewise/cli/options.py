"""Arguments and options that several verbs share, and how numbers are read from them.

Numbers come in as text: what is wrong with one is then said in one line like every other error, and a count
may be written as 1e6.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from corewise.errors import InvalidInput

if TYPE_CHECKING:
    from corewise.simulation.trace import Trace

__all__ = [
    "POLICY_HELP",
    "SEED_HELP",
    "AsJson",
    "Capacity",
    "JobsFile",
    "KnownSizes",
    "SystemName",
    "WholeCores",
    "confidence_level",
    "day_of",
    "from_options",
    "number",
    "numbers",
    "parse_capacity",
    "whole_number",
]

_MOST = 2**63 - 1  # what fits into the counters of a run

SystemName = Annotated[
    str, typer.Argument(metavar="SYSTEM", help="A system file, or paper:1 to paper:4, paper:drift, day:gpu.")
]
Capacity = Annotated[
    str | None,
    typer.Option(
        metavar="N or N,M",
        help="Largest number of jobs of each class; further arrivals are lost. Default: none is lost.",
    ),
]
POLICY_HELP = (
    "equi, greedy, whittle, improved, optimal, job-index, job-index:0 (its long-run load), priced, held, "
    "fixed:0.5,0.5, priority:two,one, whole:P (P in whole cores), or a saved policy file."
)
SEED_HELP = "Seed of the simulation's random numbers: the same one repeats a run."
WholeCores = Annotated[
    bool,
    typer.Option(
        "--whole",
        "--whole-cores",
        help="Every job holds whole cores, and stands still for its resize_pause when they change.",
    ),
]
KnownSizes = Annotated[
    bool,
    typer.Option("--known-sizes", help="A policy that decides per job sees how much work is left of each."),
]
JobsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="Simulate the jobs of this table (columns time, class, size), exactly as recorded, or those of "
        "day:gpu:SEED; by default until all have left.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def parse_capacity(text: str | None) -> int | list[int] | None:
    """Return ``"50"`` as 50 and ``"50,20"`` as [50, 20]; None stays None."""
    if text is None:
        return None
    numbers = []
    for part in text.split(","):
        try:
            numbers.append(int(part))
        except ValueError:
            raise InvalidInput(
                f"--capacity must be a whole number or one for each class, got {text!r}"
            ) from None
    return numbers if len(numbers) > 1 else numbers[0]


def day_of(system: str, jobs: Path | None) -> Trace | None:
    """Return the jobs of the table given, or of a packaged day if SYSTEM is one; None if there are none."""
    from corewise.simulation.trace import Trace

    if jobs is not None:
        return Trace.load(jobs)
    return Trace.load(system) if system.startswith("day:") else None


def number(text: str, option: str) -> float:
    """Return the finite number that an option is given."""
    value = _parsed(text)
    if not math.isfinite(value):
        raise InvalidInput(f"{option} must be a finite number, got {text!r}")
    return value


def numbers(text: str, option: str) -> list[float]:
    """Return the finite numbers that an option is given, separated by commas."""
    values = [_parsed(part) for part in text.split(",")]
    if not all(map(math.isfinite, values)):
        raise InvalidInput(f"{option} must be finite numbers with commas between them, got {text!r}")
    return values


def whole_number(text: str, option: str, *, least: int = 0) -> int:
    """Return the whole number that an option is given, also if it is written as 1e6."""
    try:
        value: float = int(text)
    except ValueError:
        value = _parsed(text)
    if not math.isfinite(value) or value != int(value):
        raise InvalidInput(f"{option} must be a whole number, got {text!r}")
    if not least <= value <= _MOST:
        bound = f"at least {least}" if value < least else f"at most {_MOST}"
        raise InvalidInput(f"{option} must be {bound}, got {text!r}")
    return int(value)


def _parsed(text: str) -> float:
    """Return the number that a text is, or NaN."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def confidence_level(text: str) -> float:
    """Return what ``--level`` says."""
    level = number(text, "--level")
    if not 0.5 <= level < 1.0:
        raise InvalidInput(f"--level must lie between 0.5 and 1, such as 0.95, got {text!r}")
    return level


def from_options(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a verb: its parameter `given` is a dataclass, and every field of that an option of the verb.

    Options that belong together are so declared once, with their help, and travel as one value.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(kind, include_extras=True)
        options = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
            for field in fields(kind)
        ]
        own = inspect.signature(command, eval_str=True)
        named = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in own.parameters.items()
            if name != "given"
        ]

        def run(**values: Any) -> None:
            chosen = {field.name: values.pop(field.name) for field in fields(kind)}
            command(given=kind(**chosen), **values)

        first = [parameter for parameter in named if parameter.default is inspect.Parameter.empty]
        parameters = [*first, *options, *(parameter for parameter in named if parameter not in first)]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate
