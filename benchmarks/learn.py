"""How fast is the learning loop, next to the same loop in NumPy and SciPy, and where its time goes.

    python benchmarks/learn.py [--rounds N] [--json FILE]

All of Example 1 by Algorithm 1a: 400 epochs, two million departures, a certified optimum at each. The
reference (``reference.py``) would take minutes, so it runs a few epochs, spread over all k, and its total is
extrapolated. Algorithm 1a keeps nothing of the windows before the latest, so an epoch k is as it would be in
the whole run once epoch k − 1 has run; that one is not timed.

The exact verdict on every policy (``diagnose``), which the reference does not have, is left out of the
comparison and shown beside it. Every round times corewise right before and after the reference; a ratio is
taken within its round, and the median over rounds is reported. Exits with 1 if a target was missed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks import reference
from benchmarks.chain import Model
from benchmarks.measure import Findings, Target, options, progress, table_of, timed
from benchmarks.peers import Problem, solve_with_numpy
from corewise.observation.sample_path import EventKind

EPOCHS, FIRST, POWER = 400, 100, 0.75
SAMPLED = (1, 10, 50, 100, 200, 300, 400)
"""The epochs that the reference runs."""
FASTER = 150.0
OURS = {False: "corewise", True: "corewise, with exact verdicts"}
"""Without and with ``diagnose``."""
HEADLINE = "reference"
PROBLEMS = {
    HEADLINE: Problem(),
    "reference, stops at 1e-6": replace(Problem(), tolerance=1e-6),
    "reference, 21 × 21 states": replace(Problem(), capacity=20),
}
TUNED = "reference, sweep of peers.py"
CHECKED = 100_000
"""Departures of the logs on which corewise and the reference are compared."""

Run = tuple[float, list[cw.results.Epoch]]
"""Seconds and epochs of one run of corewise."""


@dataclass(frozen=True)
class Row:
    """All epochs by one program: seconds, median, least and most over rounds, and how much slower it is."""

    name: str
    seconds: float
    least: float
    most: float
    ratio: float | None


@dataclass(frozen=True)
class Sample:
    """One epoch of the reference: milliseconds, medians over rounds."""

    k: int
    window: int
    run: float
    estimate: float
    solve: float
    sweeps: float


class Finals(NamedTuple):
    """The last estimates of every round."""

    ours: list[list[float]]
    theirs: list[list[float]]


@dataclass
class Report(Findings):
    """Everything that was measured; parts are seconds of all epochs, medians over rounds."""

    departures: int = 0
    rows: list[Row] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)


def main() -> int:
    chosen = options(__doc__.partition("\n")[0], rounds=5)
    report = Report()
    progress("warming up")
    learn(0, diagnose=True)
    for problem in PROBLEMS.values():
        sampled_epochs(problem, 0, SAMPLED[:1])
    finals = measure(report, chosen.rounds)
    check_agreement(report, finals)
    return report.finish(chosen.json, lambda console: show(report, console))


# --- the two loops ------------------------------------------------------------------------------------------


def learn(seed: int, *, diagnose: bool) -> list[cw.results.Epoch]:
    """All of Example 1 by corewise."""
    system = cw.load_system("paper:1")
    algorithm = cw.algorithm_1a(system, departures=FIRST, power=POWER, steps=EPOCHS)
    return list(cw.learn(cw.SimulatedPlant(system, rng=seed), algorithm, diagnose=diagnose))


def sampled_epochs(problem: Problem, seed: int, sampled: Sequence[int]) -> list[reference.Epoch]:
    """Some epochs of Example 1 by the reference, each after the one before it."""
    learner = reference.Learner.of(problem, seed)
    epochs = []
    for k in sampled:
        if k > 1:
            learner.epoch(reference.window(k - 1, FIRST, POWER))
        epochs.append(timed(partial(learner.epoch, reference.window(k, FIRST, POWER)))[0][1])
    return epochs


def extrapolated(epochs: Sequence[reference.Epoch], solve: float | None = None) -> float:
    """Seconds of all epochs, from a sample of them.

    Running and estimating take a time that grows linearly with the window: a line through the sampled epochs.
    Solving does not see the window, but starts closer to its end as estimates settle: it is interpolated
    between the sampled epochs, or `solve` seconds each if given.
    """
    every = np.arange(1, EPOCHS + 1)
    windows = np.array([reference.window(int(k), FIRST, POWER) for k in every])
    data = np.array([epoch.run + epoch.estimate for epoch in epochs])
    slope, intercept = np.polyfit(windows[np.array(SAMPLED) - 1], data, 1)
    solves = np.interp(every, SAMPLED, [epoch.solve for epoch in epochs]).sum()
    return float((intercept + slope * windows).sum() + (solves if solve is None else solve * EPOCHS))


def measure(report: Report, rounds: int) -> Finals:
    """Time both, side by side; return the last estimates of every round."""
    names = (*OURS.values(), *PROBLEMS, TUNED)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    ratios: dict[str, list[float]] = {name: [] for name in (*PROBLEMS, TUNED)}
    runs: dict[str, list[Run]] = {name: [] for name in OURS.values()}
    samples: list[list[reference.Epoch]] = []

    def ours(seed: int, *, diagnose: bool) -> float:
        took, epochs = timed(partial(learn, seed, diagnose=diagnose))[0]
        runs[OURS[diagnose]].append((took, epochs))
        seconds[OURS[diagnose]].append(took)
        return took

    for k in range(rounds):
        ours(k, diagnose=True)
        before = ours(k, diagnose=False)
        for name, problem in PROBLEMS.items():
            progress(f"round {k + 1} of {rounds}: {name}")
            epochs = sampled_epochs(problem, k, SAMPLED)
            totals = {name: extrapolated(epochs)}
            if name == HEADLINE:
                samples.append(epochs)
                answer = timed(partial(solve_with_numpy, problem))[0][1]
                totals[TUNED] = extrapolated(epochs, answer.build_seconds + answer.solve_seconds)
            after = ours(k, diagnose=False)
            for row, total in totals.items():
                seconds[row].append(total)
                ratios[row].append(2.0 * total / (before + after))
            before = after

    report.departures = runs[OURS[False]][0][1][-1].departures
    report.parts = {name: parts(found) for name, found in runs.items()}
    report.samples = [sample(position, samples) for position in range(len(SAMPLED))]
    for name, times in seconds.items():
        ratio = median(ratios[name]) if name in ratios else None
        report.rows.append(Row(name, median(times), min(times), max(times), ratio))
    found = median(ratios[HEADLINE])
    report.targets.append(Target("faster than the reference", found, FASTER, True, "times"))
    return Finals(
        [[row.parameters["p"] for row in run[-1].estimates.values()] for _, run in runs[OURS[True]]],
        [list(epochs[-1].estimates) for epochs in samples],
    )


def parts(runs: Sequence[Run]) -> dict[str, float]:
    """Where the time of corewise goes, in seconds; medians over runs."""
    spent = {
        name: median(sum(getattr(epoch.seconds, name) for epoch in epochs) for _, epochs in runs)
        for name in ("run", "estimate", "solve", "evaluate")
    }
    spent["rest"] = median(took - sum(epoch.seconds.total for epoch in epochs) for took, epochs in runs)
    return spent


def sample(position: int, rounds: Sequence[Sequence[reference.Epoch]]) -> Sample:
    """Medians of one sampled epoch over rounds."""
    k, epochs = SAMPLED[position], [found[position] for found in rounds]
    run, estimate, solve = (
        1e3 * median(getattr(epoch, part) for epoch in epochs) for part in ("run", "estimate", "solve")
    )
    sweeps = median(epoch.optimum.sweeps for epoch in epochs)
    return Sample(k, reference.window(k, FIRST, POWER), run, estimate, solve, sweeps)


# --- do both do the same? -----------------------------------------------------------------------------------


def check_agreement(report: Report, finals: Finals) -> None:
    """Check each part of the reference against corewise, and the last estimates of both against the truth."""
    progress("agreement")
    system, problem = cw.load_system("paper:1"), PROBLEMS[HEADLINE]
    optimum = reference.solve(problem, np.zeros((problem.side,) * 2))
    cores = problem.cores * np.stack([optimum.policy, 1.0 - optimum.policy])
    cores[:, 0, 0] = 0.0  # nobody to give them to
    best = cw.solve(system)
    gap = cw.evaluate(system, cw.Tabular(system, cores)).mean_jobs / best.mean_jobs - 1.0

    information = cw.fisher_information(system, best.policy)
    last, share = reference.window(EPOCHS, FIRST, POWER), system.arrival_rates / system.arrival_rates.sum()
    truth = np.array(problem.parallel)
    bound = [
        row.stderr(last * part)["p"] for row, part in zip(information.values(), share.tolist(), strict=True)
    ]

    def deviations(estimates: list[list[float]]) -> float:
        return float(np.abs((np.array(estimates) - truth) / bound).max())

    report.targets += [
        Target("same log, other estimates", 1e6 * same_log(system, problem), 10.0, False, "millionths"),
        Target("reference's optimum above ours", 1e6 * gap, 10.0, False, "millionths"),
        Target("reference's path, off the mean", path_error(system, problem), 5.0, False, "sd"),
        Target("reference's estimates, off the truth", deviations(finals.theirs), 5.0, False, "sd"),
        Target("corewise's estimates, off the truth", deviations(finals.ours), 5.0, False, "sd"),
    ]


def same_log(system: cw.System, problem: Problem) -> float:
    """The largest difference of estimates from one log, which corewise has recorded under EQUI."""
    run = cw.simulate(system, cw.Equi(), departures=CHECKED, rng=1, record=True)
    path = run.path
    assert path is not None
    states = path.counts @ np.array([problem.side, 1])
    events = np.where(path.event[1:] == EventKind.DEPARTURE, 2, 0) + path.job_class[1:]
    log = reference.Log(states[:-1], np.diff(path.time), events, int(states[-1]))
    theirs = reference.estimate(problem, reference.equi(problem), log)
    ours = [row.parameters["p"] for row in cw.estimate(run.statistics, system).values()]
    return max(abs(one - other) for one, other in zip(ours, theirs, strict=True))


def path_error(system: cw.System, problem: Problem) -> float:
    """How many standard errors the mean of a long path of the reference lies from the exact one."""
    log = reference.simulate(problem, reference.equi(problem), CHECKED, 0, np.random.default_rng(1))
    jobs = np.add(*reference.counts(problem)).ravel()[log.states]
    model, length = Model(system, cw.Equi()), float(log.durations.sum())
    error = float(jobs @ log.durations) / length - model.mean_jobs
    return abs(error) / float(np.sqrt(model.variance / length))


# --- for people ---------------------------------------------------------------------------------------------


def show(report: Report, console: Console) -> None:
    title = f"Example 1: {EPOCHS} epochs, {report.departures:,} departures"
    table = table_of(title, ("", "seconds", "from … to", "times slower"))
    for row in report.rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.0f}"
        table.add_row(row.name, f"{row.seconds:.3g}", f"{row.least:.3g} … {row.most:.3g}", ratio)
    console.print(table)

    table = table_of(
        "Where the time of corewise goes", ("", *("seconds", "share", "ms an epoch") * len(report.parts))
    )
    for part in next(iter(report.parts.values())):
        cells = []
        for spent in report.parts.values():
            seconds, share = spent[part], 100.0 * spent[part] / sum(spent.values())
            cells += [f"{seconds:.3f}", f"{share:.1f} %", f"{1e3 * seconds / EPOCHS:.3f}"]
        table.add_row(part, *cells)
    table.caption = "left: " + ", right: ".join(report.parts)
    console.print(table)

    headings = ("k", "departures", "run ms", "estimate ms", "solve ms", "sweeps")
    table = table_of(f"Epochs of the {HEADLINE}", headings)
    for entry in report.samples:
        times = (f"{value:.1f}" for value in (entry.run, entry.estimate, entry.solve))
        table.add_row(str(entry.k), f"{entry.window:,}", *times, f"{entry.sweeps:.0f}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
