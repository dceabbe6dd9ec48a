"""Estimated numbers: rates and shares of what arrived, with exact confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from corewise.kit.report import Summarised
from corewise.kit.values import ByValue

__all__ = ["Quantity", "plug_in_rate", "poisson_rate", "positive_quantity", "share_of"]


@dataclass(frozen=True, eq=False, repr=False)
class Quantity(ByValue, Summarised):
    """Point estimate of a number, with its standard error and confidence interval.

    Attributes
    ----------
    value, stderr : float
        The estimate and its standard error.
    interval : tuple of float
        A confidence interval.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=20_000, rng=7)
    >>> rate = cw.estimate(run.statistics, system)["two"].arrival_rate
    >>> low, high = rate.interval
    >>> low < system["two"].arrival_rate < high, rate.stderr > 0.0
    (True, True)
    """

    _repr_fields = ("value", "stderr", "interval")

    value: float
    stderr: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        """Return the value with its interval."""
        low, high = self.interval
        return f"{self.value:.6g} ({low:.6g} to {high:.6g})"


def positive_quantity(value: float, stderr: float, confidence_level: float) -> Quantity:
    """Return a number that is positive, with the interval of its logarithm."""
    from scipy.special import ndtri

    quantile = float(ndtri(0.5 + 0.5 * confidence_level))
    reach = math.exp(min(quantile * stderr / value, 700.0)) if value > 0.0 else 1.0
    return Quantity(value, stderr, (value / reach, value * reach))


def poisson_rate(count: int, time: float, confidence_level: float) -> Quantity:
    """Return the rate of a Poisson process that showed `count` events in `time`, with Garwood's interval.

    Source: F. Garwood, *Fiducial limits for the Poisson distribution* (Biometrika, 1936).
    """
    from scipy.special import gammaincinv

    if time <= 0.0:
        return Quantity(math.nan, math.nan, (0.0, math.inf))
    tail = 0.5 * (1.0 - confidence_level)
    low = float(gammaincinv(count, tail)) / time if count else 0.0
    high = float(gammaincinv(count + 1, 1.0 - tail)) / time
    return Quantity(count / time, math.sqrt(count) / time, (low, high))


def share_of(count: int, total: int, confidence_level: float) -> Quantity:
    """Return the share of `count` in `total`, with the interval of Clopper and Pearson.

    Source: C. J. Clopper, E. S. Pearson, *The use of confidence or fiducial limits illustrated in the case of
    the binomial* (Biometrika, 1934).
    """
    from scipy.special import betaincinv

    if total <= 0:
        return Quantity(math.nan, math.nan, (0.0, 1.0))
    tail = 0.5 * (1.0 - confidence_level)
    low = float(betaincinv(count, total - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, total - count, 1.0 - tail)) if count < total else 1.0
    share = count / total
    return Quantity(share, math.sqrt(share * (1.0 - share) / total), (low, high))


def plug_in_rate(count: float, exposure: float) -> float:
    """Return the Poisson rate to compute a policy for: the most likely one, or that of half an event if none.

    The most likely rate is zero then, and a policy for it would be wrong at the first event.
    """
    return max(count, 0.5) / exposure
