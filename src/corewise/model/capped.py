"""Speed-up curves of jobs that can use only so many cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp

__all__ = ["Capped"]


@dataclass(frozen=True)
class Capped(SpeedUp):
    """Speed-up curve that is flat from a number of cores on: s(min(z, most)), concave as s is.

    Its parameters are those of the curve within.
    """

    curve: SpeedUp
    most: float

    def __post_init__(self) -> None:
        """The curve within was checked when it was made."""

    @property
    def family(self) -> str:  # type: ignore[override]  # that of an object, not of a class
        """The family of the curve within."""
        return self.curve.family

    @property
    def bounds(self) -> Mapping[str, tuple[float, float]]:  # type: ignore[override]
        """The bounds of its parameters."""
        return self.curve.bounds

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the curve within."""
        return self.curve.parameters

    def with_parameters(self, **values: float) -> Self:
        """Return the curve with other parameters, as flat as this one."""
        return replace(self, curve=self.curve.with_parameters(**values))

    @property
    def useful_cores(self) -> float:
        """The cores from which on the curve is flat."""
        return min(self.curve.useful_cores, self.most)

    @property
    def phases(self) -> tuple[tuple[float, SpeedUp], ...]:
        """The parts of the curve within, each as flat as this one."""
        return tuple((start, replace(self, curve=curve)) for start, curve in self.curve.phases)

    def table(self, cores: int) -> Floats:
        """Return the speeds of the curve within on 0, 1, …, `cores` whole cores, of which it uses `most`."""
        used = np.minimum(np.arange(cores + 1), int(self.most))
        return self.curve.table(min(cores, int(self.most)))[used]

    @property
    def kinks(self) -> Floats:
        """The kinks of the curve within, and where it becomes flat."""
        return np.append(self.curve.kinks, self.most)

    def rate_above(self, z: Floats) -> Floats:
        """Return s(min(z, most))."""
        return self.curve.rate_above(np.minimum(z, self.most))

    def slope_above(self, z: Floats) -> Floats:
        """Return the slope of the curve within, and zero from `most` on."""
        return np.where(z < self.most, self.curve.slope_above(np.minimum(z, self.most)), 0.0)

    def gradient_above(self, z: Floats) -> Floats:
        """Return the derivatives in the parameters at min(z, most)."""
        return self.curve.gradient_above(np.minimum(z, self.most))
