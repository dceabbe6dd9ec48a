"""Schedules: the number of departures N_k of each window.

Paper: sections 5.1 and 5.2. Algorithm 1a needs windows that grow without bound, Algorithm 1b is content with
equal ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from corewise.errors import InvalidInput
from corewise.kit import checks

__all__ = ["Constant", "Growing", "Schedule"]

_MOST = 10**18  # what 64 bits can count
_ROUNDING = 1e-12
"""Relative: ⌈100 · 81^0.75⌉ is 2700, also where a computer makes 81^0.75 a little more than 27."""


@runtime_checkable
class Schedule(Protocol):
    """Schedule: the lengths of the windows.

    Examples
    --------
    >>> import corewise as cw
    >>> class Doubling:
    ...     def window(self, k):
    ...         return 100 * 2 ** (k - 1)
    >>> isinstance(Doubling(), cw.schedules.Schedule)
    True
    >>> system = cw.load_system("paper:1")
    >>> algorithm = cw.Algorithm("doubling", system, Doubling(), cw.memories.Latest(), steps=3)
    >>> [epoch.window for epoch in cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)]
    [100, 200, 400]
    """

    def window(self, k: int) -> int:
        """Return N_k, the number of departures in window k, counted from 1."""
        ...


@dataclass(frozen=True)
class Constant:
    """Constant schedule: windows of the same number of departures each.

    Examples
    --------
    >>> import corewise as cw
    >>> [cw.schedules.Constant(200).window(k) for k in (1, 2, 3)]
    [200, 200, 200]
    """

    departures: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "departures", _size(self.departures, "departures of a window"))

    def window(self, k: int) -> int:
        """Return the number of departures in window k."""
        checks.whole(k, "k")
        return self.departures

    def __str__(self) -> str:
        """Return the formula."""
        return f"N_k = {self.departures}"


@dataclass(frozen=True)
class Growing:
    """Growing schedule: N_k = ⌈first · k^power⌉, or ⌈first · g(k)⌉ with a function of your own.

    Parameters
    ----------
    first : int
        The departures in the first window, if g(1) = 1.
    power : float, optional
        The exponent, not negative.
    growth : callable, optional
        g, nondecreasing and positive, in place of the power: ``lambda k: math.ceil(math.sqrt(k))`` gives the
        paper's N_1 ⌈√k⌉.

    Examples
    --------
    >>> import corewise as cw
    >>> [cw.schedules.Growing(100, power=0.75).window(k) for k in (1, 16, 81)]
    [100, 800, 2700]
    """

    first: int
    power: float = 0.75
    growth: Callable[[int], float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", _size(self.first, "departures of the first window"))
        power = checks.finite(self.power, "power")
        if power < 0.0:
            raise InvalidInput(f"power must not be negative: windows would shrink to nothing, got {power:g}")
        object.__setattr__(self, "power", power)
        if self.growth is not None and not callable(self.growth):
            raise InvalidInput(f"growth must be a function of k, got {self.growth!r}")

    def window(self, k: int) -> int:
        """Return the number of departures in window k."""
        k = checks.whole(k, "k")
        if self.growth is None:
            factor = self._power_of(k)
        else:
            factor = checks.positive(self.growth(k), f"growth({k})")
            if k > 1 and factor < checks.positive(self.growth(k - 1), f"growth({k - 1})"):
                raise InvalidInput(f"growth must not fall, but growth({k}) = {factor:g} is less than before")
        size = self.first * factor
        if not size <= _MOST:
            raise InvalidInput(f"window {k} would need {size:g} departures, more than {_MOST:g}")
        nearest = round(size)
        return nearest if abs(size - nearest) <= _ROUNDING * size else math.ceil(size)

    def _power_of(self, k: int) -> float:
        try:
            return math.pow(k, self.power)
        except OverflowError:
            return math.inf

    def __str__(self) -> str:
        """Return the formula."""
        return f"N_k = ⌈{self.first} g(k)⌉" if self.growth else f"N_k = ⌈{self.first} k^{self.power:g}⌉"


def _size(value: object, what: str) -> int:
    size = checks.whole(value, what)
    checks.within(size, 1, _MOST, what)
    return size
