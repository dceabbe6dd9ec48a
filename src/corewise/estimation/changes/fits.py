"""Fits of rows of statistics: the most likely curve, its log-likelihood, and expected departures.

*Unknown size rates.* With an unknown μ the data determine the product r(z) = μ s(z; θ) only, and a detector
that assumed some μ would take every new width for a change. So the product is the curve (`DepartureRate`),
with one more parameter, log μ, and an assumed size rate of one. A change of the size rate and one of the
curve differ in the shape of r only: where r keeps its shape the change remains one of *speed*. It is
attributed to the size rate only where no job departs any more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from corewise.estimation.changes.buckets import columns_of, table_of
from corewise.estimation.likelihood import Likelihood, parameters_of
from corewise.estimation.search import fit_curve_to
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics

__all__ = ["DepartureRate", "expected_departures", "fitted", "ratio_of_rates", "shape_and_rate"]

_LOG_RATE = "log_size_rate"
_WHOLE = (-500.0, 500.0)


@dataclass(frozen=True)
class DepartureRate(SpeedUp):
    """Departure rate of a job as a function of its cores, r(z) = μ s(z; θ), with μ as a parameter.

    Attributes
    ----------
    shape : SpeedUp
        s.
    log_size_rate : float
        log μ.
    """

    shape: SpeedUp
    log_size_rate: float = 0.0

    def __post_init__(self) -> None:
        """Skip the checks, which the shape has made."""

    @property
    def bounds(self) -> Mapping[str, tuple[float, float]]:  # type: ignore[override]
        """The ranges of the parameters."""
        return {**self.shape.bounds, _LOG_RATE: _WHOLE}

    @property
    def size_rate(self) -> float:
        """μ."""
        return math.exp(self.log_size_rate)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of s, and μ."""
        return {**self.shape.parameters, "size_rate": self.size_rate}

    def __getattr__(self, name: str) -> Any:
        if name == "shape":  # not set yet, as in a copy
            raise AttributeError(name)
        return getattr(self.shape, name)

    def with_parameters(self, **values: float) -> Self:
        """Return the rate with other parameters."""
        height = values.pop(_LOG_RATE, self.log_size_rate)
        return type(self)(self.shape.with_parameters(**values), height)

    def rate_above(self, z: Floats) -> Floats:
        """Return r(z) for z ≥ 1."""
        return np.asarray(self.size_rate * self.shape.rate_above(z))

    def gradient_above(self, z: Floats) -> Floats:
        """Return the derivatives of r for z ≥ 1."""
        own = self.size_rate * self.shape.rate_above(z)
        return np.concatenate([self.size_rate * self.shape.gradient_above(z), own[..., None]], axis=-1)

    def rate(self, z: Any) -> Floats:
        """Return r(z)."""
        return np.asarray(self.size_rate * self.shape.rate(z))

    def fitted(self, table: ClassStatistics) -> tuple[DepartureRate, float]:
        """Return the most likely rate of this family and its log-likelihood.

        Without departures the most likely μ is zero and the shape is undetermined: this rate is returned.
        """
        if table.left == 0:
            return self, 0.0
        likelihood = Likelihood(table, self.shape, None)
        if not self.shape.bounds or not np.any(table.widths > 1.0):
            found, value = parameters_of(self.shape), likelihood.value(parameters_of(self.shape))
        else:
            fit = fit_curve_to(likelihood)
            found, value = fit.parameters, fit.value
        return DepartureRate(likelihood.curve(found), math.log(likelihood.best_size_rate(found))), value


def shape_and_rate(curve: SpeedUp) -> tuple[SpeedUp, float]:
    """Return the shape and the μ of a departure rate; any other curve and one."""
    return (curve.shape, curve.size_rate) if isinstance(curve, DepartureRate) else (curve, 1.0)


def fitted(curve: SpeedUp, size_rate: float, row: Floats, nodes: Floats) -> tuple[SpeedUp, float]:
    """Return the most likely curve of a row, of the family of this one, and its log-likelihood.

    It is the curve itself if the row does not depend on its parameters.
    """
    if isinstance(curve, DepartureRate):
        return curve.fitted(table_of(row, nodes))
    likelihood = Likelihood(table_of(row, nodes), curve, size_rate)
    if not curve.bounds or not np.any(likelihood.table.widths > 1.0):
        return curve, likelihood.value(parameters_of(curve))
    fit = fit_curve_to(likelihood)
    return likelihood.curve(fit.parameters), fit.value


def expected_departures(row: Floats, rate: Floats, nodes: Floats) -> tuple[float, float]:
    """Return the departures in a row, and the number expected at the departure rates of the nodes."""
    departed, spent = columns_of(row, nodes)
    return float(departed.sum()), float(spent @ rate)


def ratio_of_rates(before: Floats, after: Floats, rate: Floats, nodes: Floats) -> float:
    """Return the log-likelihood ratio of two rows: one size rate each against one for both, same curve."""
    sides = [expected_departures(row, rate, nodes) for row in (before, after, before + after)]
    terms = [count * math.log(count / due) if count > 0.0 and due > 0.0 else 0.0 for count, due in sides]
    return terms[0] + terms[1] - terms[2]
