"""Estimates of a class as plain values: the part of an `Estimate` that journals and the wire hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from corewise.estimation.estimates import Estimate
from corewise.estimation.progress.family import CONTRADICTED
from corewise.estimation.quantities import Quantity
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Summarised, Table
from corewise.kit.values import ByValue
from corewise.observation.progress import TOO_SHORT

__all__ = ["ClassEstimate"]

_QUANTITIES = ("arrival_rate", "size_rate", "dispersion")


@dataclass(frozen=True, eq=False, repr=False)
class ClassEstimate(ByValue, Summarised):
    """Estimate of a class of a live pool, as plain values.

    Attributes
    ----------
    name, family : str
        The class, and the family of its curve.
    parameters, stderrs, intervals : mapping
        The parameters of the curve by name, their standard errors, and intervals of 95 %; NaN and the whole
        range where nothing can be said.
    departures : int
        The number of jobs that were seen to finish.
    arrival_rate : Quantity
        The rate at which jobs were seen to arrive.
    size_rate : Quantity or None
        One over the mean size; None if it was known.
    dispersion : Quantity or None
        The squared coefficient of variation of sizes, where it can be estimated.
    informative : bool
        Whether the data say anything about the curve; if not, `note` says why.
    note : str
        What else a reader should know, or empty.
    """

    _repr_fields = ("name", "family", "parameters", "departures")

    name: str
    family: str
    parameters: Mapping[str, float]
    stderrs: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    departures: int
    arrival_rate: Quantity
    size_rate: Quantity | None = None
    dispersion: Quantity | None = None
    informative: bool = True
    note: str = ""

    @property
    def contradicted(self) -> bool:
        """Whether the progress of jobs contradicts their departures."""
        return CONTRADICTED in self.note

    @property
    def too_short(self) -> bool:
        """Whether the rounds of its jobs are too short to learn from."""
        return TOO_SHORT in self.note

    @classmethod
    def of(cls, found: Estimate) -> ClassEstimate:
        """Return the plain part of an estimate."""
        return cls(**{field.name: getattr(found, field.name) for field in fields(cls)})

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> ClassEstimate:
        """Return the estimate that `as_mapping` has written."""
        values = dict(mapping)
        for name in ("parameters", "stderrs"):
            values[name] = FrozenMapping({key: _number(value) for key, value in values[name].items()})
        values["intervals"] = FrozenMapping({key: _ends(ends) for key, ends in values["intervals"].items()})
        for name in _QUANTITIES:
            values[name] = _quantity(values[name])
        return cls(**values)

    def as_mapping(self) -> dict[str, Any]:
        """Return the estimate as plain values; NaN and infinities are kept."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("parameters", "stderrs", "intervals"):
            values[name] = dict(values[name])
        for name in _QUANTITIES:
            values[name] = None if values[name] is None else asdict(values[name])
        return values

    def _table(self) -> Table:
        header = ("parameter", "value", "standard error", "interval")
        rows = self.parameters.items()
        return Table(header, [(key, value, self.stderrs[key], self.intervals[key]) for key, value in rows])


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _ends(values: tuple[float | None, float | None]) -> tuple[float, float]:
    low, high = values
    return (-math.inf if low is None else float(low), math.inf if high is None else float(high))


def _quantity(value: Mapping[str, Any] | None) -> Quantity | None:
    if value is None:
        return None
    return Quantity(_number(value["value"]), _number(value["stderr"]), _ends(value["interval"]))
