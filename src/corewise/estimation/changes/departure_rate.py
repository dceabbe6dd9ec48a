"""Departure rates as curves: what a change detector follows where the size rate is not known.

With an unknown μ the data speak of the product r(z) = μ s(z; θ), and a detector that took some μ for granted
would take every new width for a change. So the product is the curve, with one more parameter, log μ, and a
size rate of one is what is taken for granted. A change of the size rate and one of the curve can be told
apart by the shape of r only: where it keeps its shape a change remains one of *speed*. None is said to be one
of the size rate, unless nobody leaves any more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from corewise.estimation.likelihood import Likelihood, parameters_of
from corewise.estimation.search import fit_curve_to
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics

__all__ = ["DepartureRate", "shape_and_rate"]

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
        """Leave the checks to the shape."""

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
        if name == "shape":  # not made yet
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

        Where nobody left, the most likely μ is zero, and nothing is said of the shape: this rate stays.
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
    """Return the shape of a departure rate and its μ; of any other curve itself, and one."""
    return (curve.shape, curve.size_rate) if isinstance(curve, DepartureRate) else (curve, 1.0)
