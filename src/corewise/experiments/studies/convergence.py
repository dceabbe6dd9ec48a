"""The rate of convergence of the estimates under a fixed policy.

The estimates converge, and by the theory of maximum likelihood their error falls as one over the square root
of the observation. Here it is measured over replications at several lengths and set beside the Cramér-Rao
bound, below which no unbiased estimate can be.

Paper: Theorem 3.1, which does not say how fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from corewise.analysis.information import fisher_information
from corewise.errors import InvalidInput
from corewise.estimation.mle import estimate
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.progress import Progress
from corewise.model.system import System
from corewise.policies.base import Policy
from corewise.simulation.randomness import random_generator
from corewise.simulation.replicate import replicate

__all__ = ["Convergence", "convergence"]


@dataclass(frozen=True, eq=False)
class Convergence:
    """Convergence of the estimates of one-parameter curves: their errors at several lengths of observation.

    Attributes
    ----------
    policy : str
        The policy in force.
    names : tuple of str
        The classes.
    departures : ndarray
        The lengths: departures of all classes together.
    replications : int
        How often each was observed.
    errors : ndarray
        The root mean square error of each class's parameter at each length, shape (K, lengths).
    bounds : ndarray
        The Cramér-Rao bound on it, of the same shape.
    """

    policy: str
    names: tuple[str, ...]
    departures: Floats
    replications: int
    errors: Floats
    bounds: Floats

    @property
    def slopes(self) -> Floats:
        """The slope of log error against log length, class by class: −1/2 in theory."""
        return self._weights @ np.log(self.errors).T

    @property
    def slope_stderr(self) -> float:
        """The standard error of each slope: that of a log error is about 1/√(2 · replications)."""
        return float(np.sqrt(np.sum(self._weights**2) / (2.0 * self.replications)))

    @property
    def _weights(self) -> Floats:
        """What least squares makes of log errors: the slope is their weighted sum."""
        centred = np.log(self.departures) - np.log(self.departures).mean()
        return np.asarray(centred / np.sum(centred**2))

    def __str__(self) -> str:
        """Return the errors as a small table."""
        lines = [f"{self.policy}: error of the estimate (Cramér-Rao bound), {self.replications} replications"]
        for i, name in enumerate(self.names):
            cells = ", ".join(
                f"{count:g}: {error:.4g} ({bound:.4g})"
                for count, error, bound in zip(self.departures, self.errors[i], self.bounds[i], strict=True)
            )
            lines.append(f"  {name}: slope {self.slopes[i]:.3f} ± {self.slope_stderr:.3f}; {cells}")
        return "\n".join(lines)


def convergence(
    system: System,
    policy: Policy,
    *,
    departures: Sequence[int],
    n: int,
    rng: np.random.Generator | int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Convergence:
    """Return the error of the estimates after several numbers of departures, over `n` replications each."""
    lengths = [checks.whole(length, "departures") for length in departures]
    if len(lengths) < 2:
        raise InvalidInput(f"convergence needs at least two numbers of departures, got {list(departures)!r}")
    for job_class in system.classes:
        if len(job_class.speedup.bounds) != 1:
            raise InvalidInput(
                f"class {job_class.name!r}: convergence is for curves with one parameter, "
                f"not {job_class.speedup.family}"
            )
    information = fisher_information(system, policy)
    generator = random_generator(rng)
    errors, bounds = np.empty((2, len(system.classes), len(lengths)))
    for k, length in enumerate(lengths):
        runs = replicate(system, policy, n=n, departures=length, rng=generator, executor=executor).runs
        found = [estimate(run.statistics, system) for run in runs]
        mean_time = length / float(system.arrival_rates.sum())
        for i, job_class in enumerate(system.classes):
            (truth,) = job_class.speedup.parameters.values()
            off = np.array([estimates[job_class.name].value for estimates in found]) - truth
            errors[i, k] = math.sqrt(float(np.mean(off**2)))
            bounds[i, k] = 1.0 / math.sqrt(mean_time * float(information[job_class.name].per_time[0, 0]))
        if progress:
            progress((k + 1) / len(lengths))
    name = policy.name
    return Convergence(name, tuple(system.names), np.array(lengths, dtype=np.float64), n, errors, bounds)
