"""What the report says about Examples 1 to 4."""

from __future__ import annotations

import math

import numpy as np

from corewise.control.solution import solve
from corewise.experiments.examples import ALGORITHM_2, N_MAX, ExampleRun
from corewise.experiments.figures.learning import error_figure, gap_figure, trajectory_figure
from corewise.experiments.figures.worth import worth_figure
from corewise.experiments.results import Block, Heading, Picture, Result, Table, epochs_table
from corewise.model.speedup import Amdahl
from corewise.plots.policy import policy_heatmaps
from corewise.plots.style import figure_bytes
from corewise.policies.base import Policy
from corewise.policies.equi import Equi

__all__ = ["tell_example"]


def tell_example(outcome: ExampleRun) -> Result:
    """Return the outcome of an example with its story."""
    example = outcome.example
    story = [
        *_what_was_run(outcome),
        *_what_came_out(outcome),
        *_both_algorithms(outcome),
        *_what_it_is_worth(outcome),
        *_as_printed(outcome),
        epochs_table(outcome.studies),
    ]
    title = f"Example {example.number}: Algorithm {example.algorithm} on {example.cores} cores"
    off, gap = float(np.abs(outcome.study.scores).max()), float(outcome.study.gaps[:, -1].max())
    headline = (
        f"in {outcome.study.times.shape[0]} runs, estimates end within {off:.1f} Cramér–Rao standard "
        f"deviations of the truth, policies within {gap:.4%} of the optimum"
    )
    return Result(f"example-{example.number}", title, headline, outcome.numbers(), story)


def _what_was_run(outcome: ExampleRun) -> list[Block]:
    example, study = outcome.example, outcome.study
    windows = f"⌈{example.first} k^{example.power:g}⌉" if example.power else f"{example.first}"
    memory = "the latest window" if example.algorithm == "1a" else "all windows so far"
    return [
        Heading("What was run"),
        f"""{example.cores} cores, {example.arrival_rate:g} arrivals per unit of time, {example.share:.0%}
        of them of class one; exponential sizes with rate {example.size_rate:g}; Amdahl's law with p =
        {example.p1:g} and {example.p2:g}, which the algorithm is not told. The load is
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


def _what_came_out(outcome: ExampleRun) -> list[Block]:
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
        Table(
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


def _both_algorithms(outcome: ExampleRun) -> list[Block]:
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


def _what_it_is_worth(outcome: ExampleRun) -> list[Block]:
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
            figure_bytes(worth_figure(cases)),
        ),
    ]


def _as_printed(outcome: ExampleRun) -> list[Block]:
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
        Table(
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
