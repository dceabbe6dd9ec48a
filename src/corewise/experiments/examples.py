"""Examples 1 to 4 of the paper: the loop on a fixed system, and what it is worth.

The paper shows one run each. Here every example is run many times, its errors are set beside the Cramér-Rao
bound and its policies judged exactly; the other algorithm is run with the same windows; Algorithm 2 as
printed is judged beside the optimum; and the loop is repeated where it pays: at higher loads, and with jobs
of unequal sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from corewise.analysis.performance import evaluate
from corewise.control.solution import solve
from corewise.errors import UnstablePolicy
from corewise.experiments.literal import NAME as ALGORITHM_2
from corewise.experiments.literal import literal_limit
from corewise.experiments.paper import Example, algorithm_named
from corewise.experiments.results import Setting
from corewise.experiments.studies.learning import LearningStudy, learning_study
from corewise.kit.arrays import Floats
from corewise.model.system import System
from corewise.policies.base import Policy
from corewise.policies.equi import Equi
from corewise.policies.greedy import Greedy
from corewise.policies.whittle import Whittle

__all__ = ["ALGORITHM_2", "N_MAX", "ExampleRun", "Variant", "run_example"]

N_MAX = 50
"""The box of Algorithm 2; the paper does not say which it used."""

_DEPARTURES, _RUNS, _OTHER_RUNS = 500_000, (20, 30), 10
"""Runs of the example's own algorithm: more where they are short."""

_VARIANTS = ((0.5, 1.0), (0.8, 1.0), (0.5, 4.0), (0.8, 4.0))
"""Loads, and how many times as large the jobs of class one are in the mean."""

_VARIANT_RUNS, _VARIANT_FIRST, _VARIANT_STEPS = 4, 1000, 6
"""Six windows of 1000, 2000, … departures: at high load the exact optimum takes long."""


@dataclass(frozen=True, eq=False)
class Variant:
    """Variant of an example: the learning loop on a system like the example's.

    Attributes
    ----------
    load, ratio : float
        Its load, and the mean size of class one over that of class two.
    mean_jobs : float
        The least possible.
    gaps : mapping
        How much more than the optimum other policies cost: J/J* − 1, infinite if they cannot keep up.
    learned : ndarray
        The same for the last policy of every run.
    departures, windows : int
        How many each run has seen.
    """

    load: float
    ratio: float
    mean_jobs: float
    gaps: Mapping[str, float]
    learned: Floats
    departures: int
    windows: int

    def as_mapping(self) -> dict[str, object]:
        """Return plain values."""
        learned = {
            "learned": float(np.median(self.learned)),
            "learned, worst run": float(self.learned.max()),
        }
        return {
            "load": self.load,
            "size_ratio": self.ratio,
            "mean_jobs": self.mean_jobs,
            "departures": self.departures,
            "runs": self.learned.size,
            "gap": {**self.gaps, **learned},
        }


@dataclass(frozen=True, eq=False)
class ExampleRun:
    """Outcome of an example: the runs of both algorithms, and exact verdicts on it and its variants."""

    example: Example
    studies: Mapping[str, LearningStudy]
    variants: tuple[Variant, ...]

    @property
    def study(self) -> LearningStudy:
        """The runs of the example's own algorithm."""
        return self.studies[self.example.algorithm]

    def numbers(self) -> dict[str, object]:
        """Return the results as plain values."""
        study = self.study
        classes = [
            {
                "name": name,
                "truth": study.truths[0, i, -1],
                "estimate": study.estimates[0, i, -1],
                "cramer_rao": study.bounds[i, -1],
                "error": {other: found.errors[i, -1] for other, found in self.studies.items()},
                "error_over_bound": self.error_over_bound(i),
                "worst_score": float(np.abs(study.scores[:, i]).max()),
            }
            for i, name in enumerate(study.names)
        ]
        return {
            "algorithm": self.example.algorithm,
            **self.variants[0].as_mapping(),
            "classes": classes,
            "variants": [variant.as_mapping() for variant in self.variants[1:]],
        }

    def error_over_bound(self, i: int) -> float:
        """Return the root mean square of error over bound, over all windows and runs: one in theory."""
        return float(np.sqrt(np.mean((self.study.errors[i] / self.study.bounds[i]) ** 2)))


def run_example(example: Example, setting: Setting) -> ExampleRun:
    """Run an example of Table 1: its own algorithm, the other one, and the variants."""
    system = example.system
    judged = np.unique(np.geomspace(1, example.steps, 40).astype(int)).tolist()
    other = {"1a": "1b", "1b": "1a"}[example.algorithm]
    studies = {}
    own_runs = _RUNS[sum(map(example.learning().schedule.window, range(1, example.steps + 1))) < _DEPARTURES]
    for part, (name, runs) in enumerate(((example.algorithm, own_runs), (other, _OTHER_RUNS))):
        studies[name] = learning_study(
            system,
            example.learning(name),
            n=runs,
            rng=setting.stream(part),
            diagnose=judged,
            executor=setting.executor,
            progress=setting.part(0.5 * part, 0.5 + 0.25 * part),
        )
    own = studies[example.algorithm]
    variants = [_variant(system, system.load, 1.0, own)]
    for i, (load, ratio) in enumerate(_VARIANTS):
        one, two = system.classes
        pair = [one, replace(two, size_rate=ratio * two.known_size_rate)]
        busy = system.with_classes(pair, system.changes).at_load(load)
        study = learning_study(
            busy,
            algorithm_named(example.algorithm, busy, _VARIANT_FIRST, 1.0, _VARIANT_STEPS),
            n=_VARIANT_RUNS,
            rng=setting.stream(2 + i),
            executor=setting.executor,
            progress=setting.part(0.75 + 0.0625 * i, 0.8125 + 0.0625 * i),
        )
        variants.append(_variant(busy, load, ratio, study))
    return ExampleRun(example, studies, tuple(variants))


def _variant(system: System, load: float, ratio: float, study: LearningStudy) -> Variant:
    best = solve(system)
    policies: dict[str, Policy] = {
        "EQUI": Equi(),
        "GREEDY*": Greedy(),
        "Whittle": Whittle(),
        ALGORITHM_2: literal_limit(system, capacity=N_MAX).policy,
    }
    gaps = {}
    for name, policy in policies.items():
        try:
            gaps[name] = max(evaluate(system, policy).mean_cost / best.mean_cost - 1.0, 0.0)
        except UnstablePolicy:
            gaps[name] = math.inf
    return Variant(
        load=load,
        ratio=ratio,
        mean_jobs=best.mean_jobs,
        gaps=gaps,
        learned=study.gaps[:, -1],
        departures=int(study.departures[-1]),
        windows=study.departures.size,
    )
