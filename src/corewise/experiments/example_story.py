"""What the report says about Examples 1 to 4."""

from __future__ import annotations

import math

import numpy as np

from corewise.control.solution import solve
from corewise.experiments.examples import AS_PRINTED, N_MAX, Outcome
from corewise.experiments.results import Block, Heading, Picture, Result, Table, epochs_table
from corewise.model.speedup import Amdahl
from corewise.plots.learning import error_figure, gap_figure, trajectory_figure
from corewise.plots.policy import policy_heatmaps
from corewise.plots.style import figure_bytes
from corewise.policies.base import Policy
from corewise.policies.equi import Equi

__all__ = ["tell_example"]


def tell_example(outcome: Outcome) -> Result:
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


def _what_was_run(outcome: Outcome) -> list[Block]:
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
            """Estimates after every window of one run. Lines: the truth. Bands: two Cramér–Rao standard
            deviations to either side, the best that an unbiased estimate from the same data can do.""",
            figure_bytes(trajectory_figure(study)),
        ),
    ]


def _what_came_out(outcome: Outcome) -> list[Block]:
    example, study = outcome.example, outcome.study
    system = example.system
    found = {name: Amdahl(study.estimates[0, i, -1]) for i, name in enumerate(study.names)}
    shown = math.ceil(1.2 * example.cores)
    policies: dict[str, Policy] = {
        "at the start: EQUI": Equi().on(system),
        f"after window {example.steps}": solve(system.with_curves(found), capacity=2 * shown).policy,
    }
    runs = study.times.shape[0]
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
        """In the paper's figure both estimators settle at the truth, that of class two much sooner, and
        the policy moves away from equal shares; class one is said to be hard to identify. Fisher
        information puts a number to it: the standard deviation below which no unbiased estimate can be.
        The runs attain it.""",
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


def _both_algorithms(outcome: Outcome) -> list[Block]:
    studies = dict(sorted(outcome.studies.items()))
    counts = " and ".join(f"{study.times.shape[0]} runs of {name}" for name, study in studies.items())
    one, two = studies["1a"].errors[:, -1] / studies["1b"].errors[:, -1]
    return [
        Heading("Algorithm 1a or 1b"),
        f"""Both with the same windows, {counts}: 1a estimates from the latest window, 1b from all. As
        nothing changes, 1b ends {one:.1f} times as close to the truth in class one and {two:.1f} times in
        class two, as the paper expects.""",
        Picture(
            "errors",
            "Root mean square error of the estimates; thin lines are the Cramér–Rao bounds.",
            figure_bytes(error_figure({f"Algorithm {name}": study for name, study in studies.items()})),
        ),
    ]


def _what_it_is_worth(outcome: Outcome) -> list[Block]:
    example, study = outcome.example, outcome.study
    here, *others = outcome.variants
    fixed = {name: here.gaps[name] for name in ("EQUI", "Whittle", AS_PRINTED)}
    lost = [variant.gaps["EQUI"] for variant in others]
    worst = max(float(variant.learned.max()) for variant in others)
    return [
        Heading("What learning is worth"),
        f"""Every policy that was adopted is judged exactly, under the truth. At the paper's load of
        {here.load:.3f} most jobs have the cores to themselves, and EQUI, which needs to know nothing, is
        within {here.gaps["EQUI"]:.2%} of the optimum. At loads of 0.5 and 0.8, with jobs of equal or
        unequal sizes, EQUI loses {min(lost):.1%} to {max(lost):.1%}; what is learned from
        {others[0].departures:,} departures loses {worst:.3%} in the worst run.""",
        Picture(
            "gap",
            """How much more than the optimum the adopted policies cost, exactly, over the runs; and, for
            comparison, policies that learn nothing.""",
            figure_bytes(gap_figure({f"Algorithm {example.algorithm}": study}, baseline=fixed)),
        ),
    ]


def _as_printed(outcome: Outcome) -> list[Block]:
    here, *others = outcome.variants
    highest = max(variant.gaps[AS_PRINTED] for variant in others)
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
        {here.gaps[AS_PRINTED]:.4%} above the optimum, with room for {N_MAX} jobs a class. At higher loads
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
            f"""Exact cost above the optimum, in per cent. First row: the example itself,
            {here.learned.size} runs of {here.departures:,} departures. Others: {others[0].learned.size}
            runs of {others[0].departures:,} departures in {others[0].windows} windows.""",
        ),
    ]
