"""Examples 1 to 4 of the paper: the loop on a fixed system, and the gain from learning.

The paper shows one run each. Here every example is run many times, its errors are compared with the
Cramér-Rao bound and its policies evaluated exactly; the other algorithm is run with the same windows;
Algorithm 2 as printed is compared with the optimum; and the loop is repeated where it pays: at higher loads,
and with jobs of unequal sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from corewise.analysis.performance import evaluate
from corewise.control.solution import solve
from corewise.errors import UnstablePolicy
from corewise.experiments.figures.learning import (
    comparison_figure,
    error_figure,
    gap_figure,
    trajectory_figure,
)
from corewise.experiments.literal import NAME as ALGORITHM_2
from corewise.experiments.literal import literal_limit
from corewise.experiments.paper import Example, algorithm_named
from corewise.experiments.report import (
    Block,
    Heading,
    Picture,
    Result,
    ResultTable,
    Setting,
    epochs_table,
)
from corewise.experiments.studies.learning import LearningStudy, learning_study
from corewise.kit.arrays import Floats
from corewise.model.speedup import Amdahl
from corewise.model.system import System
from corewise.plots.policy import policy_heatmaps
from corewise.plots.style import figure_bytes
from corewise.policies.base import Policy
from corewise.policies.equi import Equi
from corewise.policies.greedy import Greedy
from corewise.policies.whittle import Whittle

__all__ = ["ALGORITHM_2", "N_MAX", "ExampleRun", "Variant", "example_result", "run_example"]

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
        The optimum.
    gaps : mapping
        Gap of other policies to the optimum: J/J* − 1, infinite if unstable.
    learned : ndarray
        The same for the last policy of every run.
    departures, windows : int
        Number of each in a run.
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
    """Outcome of an example: the runs of both algorithms, and exact gaps of it and its variants."""

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


# --- report ---------------------------------------------------------------------------------------


def example_result(outcome: ExampleRun) -> Result:
    """Return the result of an example, with its report."""
    example = outcome.example
    blocks = [
        *_setup(outcome),
        *_estimates(outcome),
        *_algorithms(outcome),
        *_gain(outcome),
        *_printed(outcome),
        epochs_table(outcome.studies),
    ]
    title = f"Example {example.number}: Algorithm {example.algorithm} on {example.cores} cores"
    off, gap = float(np.abs(outcome.study.scores).max()), float(outcome.study.gaps[:, -1].max())
    headline = (
        f"in {outcome.study.times.shape[0]} runs, estimates end within {off:.1f} Cramér–Rao standard "
        f"deviations of the truth, policies within {gap:.4%} of the optimum"
    )
    return Result(f"example-{example.number}", title, headline, outcome.numbers(), blocks)


def _setup(outcome: ExampleRun) -> list[Block]:
    example, study = outcome.example, outcome.study
    windows = f"⌈{example.first} k^{example.power:g}⌉" if example.power else f"{example.first}"
    memory = "the latest window" if example.algorithm == "1a" else "all windows so far"
    return [
        Heading("What was run"),
        f"""{example.cores} cores, {example.arrival_rate:g} arrivals per unit of time, {example.share:.0%}
        of them of class one; exponential sizes with rate {example.size_rate:g}; Amdahl's law with p =
        {example.p1:g} and {example.p2:g}, unknown to the algorithm. The load is
        {example.system.load:.3f}. Algorithm {example.algorithm}: window k has {windows} departures, k = 1 …
        {example.steps}; estimates are made from {memory}, and the policy of the next window is the exact
        optimum for them. The first policy is EQUI. {study.times.shape[0]} independent runs of
        {study.departures[-1]:,.0f} departures each; the figure shows the first of them.""",
        Picture(
            "estimates",
            """Estimates after every window of one run. Dotted: the truth. Bands: two Cramér–Rao standard
            deviations to either side, the best that an unbiased estimate from the same data can do.""",
            figure_bytes(trajectory_figure(study)),
        ),
    ]


def _estimates(outcome: ExampleRun) -> list[Block]:
    example, study = outcome.example, outcome.study
    system = example.system
    found = {name: Amdahl(study.estimates[0, i, -1]) for i, name in enumerate(study.names)}
    shown = math.ceil(1.2 * example.cores)
    policies: dict[str, Policy] = {
        "at the start: EQUI": Equi().on(system),
        f"after window {example.steps}": solve(system.with_curves(found), capacity=2 * shown).policy,
    }
    runs = study.times.shape[0]
    ends, chance = study.errors[:, -1] / study.bounds[:, -1], 2.0 / math.sqrt(2.0 * runs)
    rows = [
        [
            name,
            study.truths[0, i, -1],
            study.estimates[0, i, -1],
            study.bounds[i, -1],
            study.errors[i, -1],
            outcome.error_over_bound(i),
            float(np.abs(study.scores[:, i]).max()),
        ]
        for i, name in enumerate(study.names)
    ]
    return [
        Heading("What the paper says, and what came out"),
        f"""In the paper both estimators settle at the truth, that of class two faster, and class one is
        said to be hard to identify. Fisher information puts a number to it: the Cramér–Rao standard
        deviation, below which no unbiased estimate can be. Over the {runs} runs the root mean square
        error after the last window is {ends[0]:.2f} times that bound for class one and {ends[1]:.2f} times
        for class two; chance alone gives {1.0 - chance:.2f} to {1.0 + chance:.2f} with so many runs.""",
        ResultTable(
            "classes",
            (
                "class",
                "truth",
                "estimate, one run",
                "Cramér–Rao sd",
                "rms error",
                "error / bound, all windows",
                "worst run, in sd",
            ),
            rows,
            f"The parameter p after {study.departures[-1]:,.0f} departures, over {runs} runs.",
        ),
        Picture(
            "policies",
            """Share of the cores for class one at the start and at the end of one run, also in states
            that it hardly ever comes to.""",
            figure_bytes(policy_heatmaps(policies, system, capacity=shown)),
        ),
    ]


def _algorithms(outcome: ExampleRun) -> list[Block]:
    studies = dict(sorted(outcome.studies.items()))
    counts = " and ".join(f"{study.times.shape[0]} runs of {name}" for name, study in studies.items())
    one, two = studies["1a"].errors[:, -1] / studies["1b"].errors[:, -1]
    expected = studies["1a"].bounds[:, -1] / studies["1b"].bounds[:, -1]
    few = min(study.times.shape[0] for study in studies.values())
    constant = (
        """ Algorithm 1a is not meant for windows that do not grow: its error does not fall at all."""
        if outcome.example.power == 0.0
        else ""
    )
    return [
        Heading("Algorithm 1a or 1b"),
        f"""Both with the same windows, {counts}: 1a estimates from the latest window, 1b from all. As
        nothing changes, 1b should end closer to the truth, as the paper says: by the bounds
        {expected[0]:.1f} and {expected[1]:.1f} times in classes one and two. The runs have {one:.1f} and
        {two:.1f}, which with {few} runs of the shorter series scatter by about
        {math.sqrt(1.0 / few):.0%}.{constant}""",
        Picture(
            "errors",
            "Root mean square error of the estimates; thin lines are the Cramér–Rao bounds.",
            figure_bytes(error_figure({f"Algorithm {name}": study for name, study in studies.items()})),
        ),
    ]


def _gain(outcome: ExampleRun) -> list[Block]:
    example, study = outcome.example, outcome.study
    here, *others = outcome.variants
    fixed = {
        "EQUI": here.gaps["EQUI"],
        "Whittle, true curves": here.gaps["Whittle"],
        f"{ALGORITHM_2}, true curves": here.gaps[ALGORITHM_2],
    }
    lost = [variant.gaps["EQUI"] for variant in others]
    worst = max(float(variant.learned.max()) for variant in others)
    judged = int(np.isfinite(study.gaps[0]).sum())
    used = "the last window" if example.algorithm == "1a" else "all windows"
    cases = {
        f"load {variant.load:.2g}\nsizes {variant.ratio:g} : 1": {
            **{name: variant.gaps[name] for name in ("EQUI", "GREEDY*", "Whittle", ALGORITHM_2)},
            "learned, worst run": float(variant.learned.max()),
        }
        for variant in outcome.variants
    }
    return [
        Heading("What learning is worth"),
        f"""The policies adopted after {judged} of the {example.steps} windows are judged exactly, under
        the truth. At the paper's load of {here.load:.3f} most jobs have the cores to themselves, and
        EQUI, which needs to know nothing, is within {here.gaps["EQUI"]:.2%} of the optimum. So the loop
        is run again at loads of 0.5 and 0.8, with jobs of equal sizes and with those of class one four
        times as large in the mean: {others[0].windows} windows of 1000 k departures,
        {others[0].departures:,} in all, estimates from {used}. There EQUI loses {min(lost):.1%} to
        {max(lost):.1%}, and the last policy that was learned at most {worst:.3%} in any run.""",
        Picture(
            "gap",
            f"""How much more than the optimum the adopted policies cost, exactly. For comparison: EQUI,
            which knows nothing, and two policies made for the true curves, Whittle and {ALGORITHM_2}.""",
            figure_bytes(gap_figure({f"Algorithm {example.algorithm}": study}, baseline=fixed)),
        ),
        Picture(
            "worth",
            """What policies cost above the optimum at several loads and sizes. EQUI knows nothing;
            GREEDY*, Whittle and Algorithm 2 are given the true curves; the loop learns them.""",
            figure_bytes(comparison_figure(cases)),
        ),
    ]


def _printed(outcome: ExampleRun) -> list[Block]:
    here, *others = outcome.variants
    highest = max(variant.gaps[ALGORITHM_2] for variant in others)
    rows = [
        [
            variant.load,
            f"{variant.ratio:g} : 1",
            variant.mean_jobs,
            *(100.0 * gap for gap in variant.gaps.values()),
            100.0 * float(np.median(variant.learned)),
            100.0 * float(variant.learned.max()),
        ]
        for variant in outcome.variants
    ]
    return [
        Heading("What Algorithm 2 as printed would have done"),
        f"""As printed it diverges; with the uniformisation constant put in, it converges, but to
        something else. It keeps V(0, 0) = 0 and never subtracts the mean cost, and so minimises the cost
        until the system empties, not the long-run mean. At the paper's load that hardly shows:
        {here.gaps[ALGORITHM_2]:.4%} above the optimum, with room for {N_MAX} jobs a class. At higher loads
        it costs up to {highest:.2%}, which no amount of data mends.""",
        ResultTable(
            "worth",
            (
                "load",
                "sizes",
                "optimal mean jobs",
                *(f"{name}, %" for name in here.gaps),
                "learned, median, %",
                "learned, worst, %",
            ),
            rows,
            f"""Exact cost above the optimum, in per cent; all but EQUI and the loop are given the true
            curves. Sizes: the mean of class one to that of class two. First row: the example itself,
            {here.learned.size} runs of {here.departures:,} departures. Others: {others[0].learned.size}
            runs of {others[0].departures:,} departures in {others[0].windows} windows.""",
        ),
    ]
