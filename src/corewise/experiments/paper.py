"""What is printed in section 5 of the paper: the settings of Table 1, and the change points of Table 2."""

from __future__ import annotations

from dataclasses import dataclass

from corewise.experiments.studies.tracking import oracle, windows_until
from corewise.learning.algorithms import ALGORITHMS, Algorithm, adaptive
from corewise.learning.schedules import Constant, Growing
from corewise.model.files import packaged
from corewise.model.job_class import JobClass
from corewise.model.speedup import Amdahl
from corewise.model.system import System

__all__ = ["DRIFT", "EXAMPLES", "Drift", "Example", "Switch", "algorithm_named", "tracking_algorithms"]


def algorithm_named(name: str, system: System, first: int, power: float, steps: int) -> Algorithm:
    """Return Algorithm 1a or 1b with N_k = ⌈first · k^power⌉."""
    return ALGORITHMS[name](system, departures=first, power=power, steps=steps)


@dataclass(frozen=True)
class Example:
    """Example of the paper: the settings in one column of Table 1.

    Attributes
    ----------
    number : int
        Which example.
    algorithm : str
        ``1a`` or ``1b``.
    cores, arrival_rate, size_rate, share, p1, p2
        c, λ, μ, α and the true parameters of both classes.
    first, power : int, float
        N_k = ⌈first · k^power⌉.
    steps : int
        n_steps.
    """

    number: int
    algorithm: str
    cores: int
    arrival_rate: float
    size_rate: float
    share: float
    p1: float
    p2: float
    first: int
    power: float
    steps: int

    @property
    def system(self) -> System:
        """The system of the example."""
        rates = (self.share * self.arrival_rate, (1.0 - self.share) * self.arrival_rate)
        return System(
            self.cores,
            [
                JobClass(name, round(rate, 12), self.size_rate, Amdahl(p))
                for name, rate, p in zip(("one", "two"), rates, (self.p1, self.p2), strict=True)
            ],
        )

    def learning(self, algorithm: str | None = None) -> Algorithm:
        """Return the example's algorithm, or the other one with the same windows."""
        name = algorithm or self.algorithm
        return algorithm_named(name, self.system, self.first, self.power, self.steps)


EXAMPLES = (
    Example(1, "1a", 30, 4.0, 2.5, 0.35, 0.3, 0.8, first=100, power=0.75, steps=400),
    Example(2, "1a", 10, 2.0, 1.5, 0.6, 0.4, 0.85, first=200, power=0.75, steps=400),
    Example(3, "1b", 20, 2.0, 1.0, 0.65, 0.4, 0.7, first=100, power=0.0, steps=100),
    Example(4, "1b", 30, 4.0, 2.5, 0.35, 0.3, 0.8, first=100, power=0.0, steps=100),
)
"""Table 1."""


@dataclass(frozen=True)
class Switch:
    """Change point, a row of Table 2: when parameters change, and where in the loop of the paper's run."""

    time: float
    p1: float
    p2: float
    iteration: int
    fraction: float

    @property
    def position(self) -> float:
        """The windows that were over, and the part of the current one: 197.872 is 87.2 % of the 198th."""
        return self.iteration - 1 + self.fraction


@dataclass(frozen=True)
class Drift:
    """The experiment with changing parameters: N_k = ⌈first · k^power⌉ up to time `end`."""

    switches: tuple[Switch, ...]
    first: int
    power: float
    end: float

    @property
    def system(self) -> System:
        """The system, with its changes."""
        return packaged("paper:drift")


DRIFT = Drift(
    switches=(
        Switch(6e5, 0.50, 0.85, 198, 0.872),
        Switch(12e5, 0.50, 0.75, 295, 0.442),
        Switch(18e5, 0.55, 0.75, 372, 0.460),
        Switch(24e5, 0.55, 0.90, 439, 0.021),
    ),
    first=200,
    power=0.75,
    end=3e6,
)
"""Table 2, and the settings named below it; the paper does not say when its run ended."""


def tracking_algorithms() -> dict[str, Algorithm]:
    """Return what runs on the changing system to its end: the paper's algorithms, one that adapts, an oracle.

    Those of the paper have its windows, the other two as many departures in every window as in its first.
    """
    system, first = DRIFT.system, DRIFT.first
    departures = DRIFT.end * float(system.arrival_rates.sum())
    steps = windows_until(Growing(first, DRIFT.power), departures)
    checks = windows_until(Constant(first), departures)
    return {
        **{name: algorithm_named(name, system, first, DRIFT.power, steps) for name in ("1a", "1b")},
        "adaptive": adaptive(system, departures=first, steps=checks),
        "oracle": oracle(system, departures=first, steps=checks),
    }
