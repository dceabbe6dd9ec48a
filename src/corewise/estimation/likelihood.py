r"""The likelihood of a curve, given what was seen of a class.

Jobs that hold z cores leave at rate μ s(z; θ). With D(z) departures and W(z) job-time at each width the
log-likelihood, its score and the Fisher information are

    ℓ(θ, μ) = Σ_z D log(μ s) − μ W s,
    ∂ℓ/∂θ   = Σ_z (D/s − μ W) ∂s/∂θ,
    I(θ)    = Σ_z μ W (∂s/∂θ)(∂s/∂θ)' / s.

Up to one core s(z) = z whatever θ is: such widths are informative about μ, not about the curve. Open
intervals at the end of a window are in W: dropping them would bias θ upwards. If the size rate is not known,
the best μ for given θ is ΣD / ΣW s, and with it ℓ is a function of θ alone (the profile).

Paper: equations (3.2)-(3.5), grouped by width and with the censored tail.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from corewise.kit.arrays import Bools, Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics

__all__ = ["Likelihood", "curve_of", "likely_drop", "parameters_of"]


@cache
def likely_drop(confidence_level: float) -> float:
    """Return by how much ℓ may fall short of its maximum inside a profile-likelihood interval: χ²/2."""
    from scipy.special import chdtri

    return 0.5 * float(chdtri(1, 1.0 - confidence_level))


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-likelihood of the parameters of one class's curve, with its score and Fisher information.

    Attributes
    ----------
    table : ClassStatistics
        Departures and job-time by width.
    family : SpeedUp
        Any curve of the family; its parameters are not used.
    size_rate : float or None
        μ, or None if it is not known: then every value is at the best μ for that θ.
    """

    table: ClassStatistics
    family: SpeedUp
    size_rate: float | None

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """The least and the largest value of each parameter."""
        low, high = np.array(list(self.family.bounds.values())).T
        return low, high

    def curve(self, parameters: Floats) -> SpeedUp:
        """Return the curve with these parameters."""
        return curve_of(self.family, parameters)

    def best_size_rate(self, parameters: Floats) -> float:
        """Return μ if it is known, otherwise the best one for these parameters."""
        if self.size_rate is not None:
            return self.size_rate
        served = float(self.table.job_time @ self.curve(parameters).rate(self.table.widths))
        return float(self.table.departures.sum()) / served

    def value(self, parameters: Floats) -> float:
        """Return the log-likelihood ℓ."""
        held = self.table.widths > 0.0  # a job without cores cannot leave, and says nothing
        departed, spent = self.table.departures[held], self.table.job_time[held]
        speed = self.curve(parameters).rate(self.table.widths[held])
        rate = speed * (self.size_rate or float(departed.sum()) / float(spent @ speed))
        return float(departed @ np.log(rate) - spent @ rate)

    def score(self, parameters: Floats) -> Floats:
        """Return the score dℓ/dθ; with an unknown size rate that of the profile, the same at the best μ."""
        wide, speed, gradient = self._above(parameters)
        departed, spent = self.table.departures[wide], self.table.job_time[wide]
        return np.asarray((departed / speed - self.best_size_rate(parameters) * spent) @ gradient)

    def information(self, parameters: Floats) -> Floats:
        """Return the Fisher information at these parameters; with an unknown size rate what is left of it.

        Not knowing μ costs the part of the information that a change of μ could explain as well: with
        weights m = μ W s, Σ m r r' becomes Σ m (r − r̄)(r − r̄)', where r = ∂log s/∂θ.
        """
        wide, speed, gradient = self._above(parameters)
        rate = self.best_size_rate(parameters)
        weight = rate * self.table.job_time[wide] * speed
        ratio = gradient / speed[:, None]
        if self.size_rate is not None:
            return np.asarray(np.einsum("k,ki,kj->ij", weight, ratio, ratio))
        slow = ~wide
        rest = rate * float(self.table.job_time[slow] @ self.table.widths[slow])  # s(z) = z: there r = 0
        mean = weight @ ratio / (weight.sum() + rest)
        information = np.einsum("k,ki,kj->ij", weight, ratio - mean, ratio - mean)
        return np.asarray(information + rest * np.outer(mean, mean))

    def observed_information(self, parameters: Floats) -> Floats:
        """Return the observed information −d²ℓ/dθ², by differences of the score, one-sided near a bound."""
        columns = []
        for i, (low, high) in enumerate(self.family.bounds.values()):
            step = 1e-5 * max(abs(float(parameters[i])), 1e-3)
            up, down = parameters.copy(), parameters.copy()
            up[i], down[i] = min(up[i] + step, high), max(down[i] - step, low)
            columns.append((self.score(down) - self.score(up)) / (up[i] - down[i]))
        hessian = np.stack(columns)
        return np.asarray(0.5 * (hessian + hessian.T))

    def _above(self, parameters: Floats) -> tuple[Bools, Floats, Floats]:
        """Return which widths are above one core, and the speed and its gradient there."""
        wide = self.table.widths > 1.0
        curve = self.curve(parameters)
        return wide, curve.rate(self.table.widths[wide]), curve.gradient(self.table.widths[wide])


def parameters_of(curve: SpeedUp) -> Floats:
    """Return the parameters of a curve as an array."""
    return np.array([getattr(curve, name) for name in curve.bounds])


def curve_of(family: SpeedUp, parameters: Floats) -> SpeedUp:
    """Return the curve of a family with these parameters."""
    return family.with_parameters(**dict(zip(family.bounds, parameters.tolist(), strict=True)))
