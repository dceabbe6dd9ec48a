"""Rate of convergence of the estimates under a fixed policy.

By the theory of maximum likelihood the error falls as one over the square root of the observation. Here it is
measured over replications at several lengths and compared with the Cramér-Rao bound, below which no unbiased
estimate can be: two classes of Example 1 under their optimal policy, observed for 250 to 64 000 departures.

Paper: Theorem 3.1, which does not say how fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import corewise as cw
from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.plots.style import class_colour, escaped, new_figure, save_figure, shortened
from corewise.simulation.randomness import random_generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = "osD^vP"
FIGURE = Path("build/convergence.png")


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
    system: cw.System,
    policy: cw.Policy,
    *,
    departures: Sequence[int],
    n: int,
    rng: np.random.Generator | int | None = None,
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
    information = cw.fisher_information(system, policy)
    generator = random_generator(rng)
    errors, bounds = np.empty((2, len(system.classes), len(lengths)))
    for k, length in enumerate(lengths):
        runs = cw.replicate(system, policy, n=n, departures=length, rng=generator).runs
        found = [cw.estimate(run.statistics, system) for run in runs]
        mean_time = length / float(system.arrival_rates.sum())
        for i, job_class in enumerate(system.classes):
            (truth,) = job_class.speedup.parameters.values()
            off = np.array([estimates[job_class.name].value for estimates in found]) - truth
            errors[i, k] = math.sqrt(float(np.mean(off**2)))
            bounds[i, k] = 1.0 / math.sqrt(mean_time * float(information[job_class.name].per_time[0, 0]))
    name = policy.name
    return Convergence(name, tuple(system.names), np.array(lengths, dtype=np.float64), n, errors, bounds)


def convergence_figure(study: Convergence) -> Figure:
    """Draw errors on log scales, with two standard errors, and the Cramér-Rao bounds as lines."""
    with new_figure(4.8, 3.6) as figure:
        from matplotlib.ticker import NullFormatter

        axes = figure.add_subplot()
        spread = np.exp(2.0 / np.sqrt(2.0 * study.replications))
        for i, name in enumerate(study.names):
            colour, errors = class_colour(i), study.errors[i]
            slope = f"slope {study.slopes[i]:.3f} ± {study.slope_stderr:.3f}".replace("-", "−")
            axes.errorbar(
                study.departures,
                errors,
                yerr=[errors - errors / spread, errors * spread - errors],
                fmt=_MARKERS[i % len(_MARKERS)],
                markersize=4,
                capsize=2,
                linewidth=0.8,
                color=colour,
                label=f"class {escaped(shortened(name))}: {slope}",
            )
            axes.plot(study.departures, study.bounds[i], color=colour, linewidth=1.0)
        axes.plot([], [], color="0.3", linewidth=1.0, label="Cramér–Rao bound, slope −1/2")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("departures observed, all classes")
        axes.set_ylabel("root mean square error of the estimate")
        axes.legend(frameon=False, loc="lower left")
    return figure


def main() -> None:
    """Measure, print and draw."""
    system = cw.load_system("paper:1")
    policy = cw.solve(system).policy
    lengths = [250 * 2**k for k in range(9)]
    study = convergence(system, policy, departures=lengths, n=1000, rng=20261116)
    print(study)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    save_figure(convergence_figure(study), FIGURE)
    print(f"Wrote {FIGURE}.")


if __name__ == "__main__":
    main()
