"""How well the adaptive algorithm follows change, next to 1a, 1b and an oracle, and what it costs.

    python benchmarks/track.py [--quick] [--runs N] [--only PART …] [--json FILE]

Five parts, of whole learning loops with exact optima, in two processes:

paper   The paper's schedule of changes to t = 3e6: the squared error of p̂, averaged over time, for Algorithms
        1a and 1b with the paper's windows, the adaptive one, and an oracle that restarts a class at its first
        check of 200 departures after a change of that class. And the mean number of jobs
        over the run, by exact evaluation of every policy in force under every truth in force; EQUI and the
        optimum beside them.
crowded The same with a schedule of its own at load 0.7.
still   Examples 1-4, in which nothing changes, with 1e8 departures between false alarms. Every window of a
        run of Algorithm 1b is shown to the adaptive memory as well, so that both estimate from the same data;
        the ratio of the mean squared errors of the last estimates, and its standard error over runs.
walks   p of each class takes a normal step every thousand units of time, two thousand departures, for three
        step sizes: the error of the adaptive loop over that of the best sliding window of a fixed number of
        its checks, chosen in hindsight for each class.
cost    What the detector adds to the time of the loop on paper:drift. Each window of one run is remembered
        and recalled by both memories, right after each other; the difference is divided by the time of the
        loop without it.

Exits with 1 if a target was missed.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.instruments.walks import fixed_windows, random_walk
from benchmarks.measure import Target, progress
from benchmarks.tracked import Followed, Found, Report, Still, Walked, show
from corewise.experiments.studies.learning import LearningStudy, detections, learning_study, tracking_errors
from corewise.experiments.studies.tracking import exact_mean_jobs, oracle, squared_errors, windows_until
from corewise.learning.algorithms import adaptive
from corewise.learning.memories import Everything, Memory, SinceChange

CHECK, FIRST, POWER = 200, 200, 0.75
"""Departures of a check; windows of 1a and 1b are those of the paper's experiment."""
PARTS = ("paper", "crowded", "still", "walks", "cost")
EXAMPLES = (
    ("paper:1", 100, 0.75, 400),
    ("paper:2", 200, 0.75, 400),
    ("paper:3", 100, 0.0, 100),
    ("paper:4", 100, 0.0, 100),
)
"""Table 1 of the paper: system, N_1, power, windows."""
RARELY = 1e8
STEPS, EVERY = (0.02, 0.005, 0.00125), 1000.0
"""Of the random walks: standard deviations, and the time between steps."""
WALKED = 5_200_000
REGIME = 1_200_000
"""Departures between the changes of the schedule at load 0.7, as in the paper's."""


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    runs: int = 20
    still: tuple[int, ...] = (60, 60, 300, 300)
    walked: int = WALKED
    timed: int = 30_000

    @classmethod
    def chosen(cls, runs: int | None, *, quick: bool) -> Scale:
        scale = cls(2, (4, 4, 20, 20), 400_000, 2_000) if quick else cls()
        return scale if runs is None else cls(runs, scale.still, scale.walked, scale.timed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to see that it works")
    parser.add_argument("--runs", type=int, metavar="N", help="runs of each schedule (default 20)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="which parts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE as well")
    chosen = parser.parse_args()
    if chosen.runs is not None and chosen.runs < 2:
        parser.error("--runs must be at least 2")
    scale, report = Scale.chosen(chosen.runs, quick=chosen.quick), Report()
    measures: dict[str, Callable[[Report, Scale, Executor], None]] = {
        "paper": partial(measure_jumps, "paper:drift"),
        "crowded": partial(measure_jumps, "load 0.7"),
        "still": measure_still,
        "walks": measure_walks,
        "cost": measure_cost,
    }
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        for name in PARTS:
            if name in chosen.only:
                measures[name](report, scale, executor)
                if chosen.json:  # a part takes long, and the next may be interrupted
                    report.write(chosen.json)
    return report.finish(None, lambda console: show(report, console))  # it is written part by part


# --- jumps ----------------------------------------------------------------------------------------------


def crowded() -> cw.System:
    """Eight cores at load 0.7, sizes in the ratio of one to four; p of each class goes up and down once."""
    classes = [
        cw.JobClass("short", 3.0, 3.0, cw.Amdahl(0.5)),
        cw.JobClass("long", 1.0, 0.75, cw.Amdahl(0.9)),
    ]
    jumps = [("short", 0.7), ("long", 0.75), ("short", 0.55), ("long", 0.85)]
    system = cw.System(8, classes).at_load(0.7)
    length = REGIME / float(system.arrival_rates.sum())
    changes = [cw.Change(length * (i + 1), name, cw.Amdahl(p)) for i, (name, p) in enumerate(jumps)]
    return cw.System(8, system.classes, changes)


def algorithms(system: cw.System, end: float, inertia: float) -> dict[str, cw.Algorithm]:
    """All four, to a time; optima take long at high load, so there they are made less often."""
    departures = end * float(system.arrival_rates.sum())
    steps = windows_until(cw.schedules.Growing(FIRST, POWER), departures)
    checks = windows_until(cw.schedules.Constant(CHECK), departures)
    return {
        "1a": cw.algorithm_1a(system, departures=FIRST, power=POWER, steps=steps),
        "1b": cw.algorithm_1b(system, departures=FIRST, power=POWER, steps=steps),
        "adaptive": adaptive(system, departures=CHECK, steps=checks, inertia=inertia),
        "oracle": oracle(system, departures=CHECK, steps=checks, inertia=inertia),
    }


def measure_jumps(schedule: str, report: Report, scale: Scale, executor: Executor) -> None:
    """Let all algorithms follow a schedule of jumps."""
    own = crowded()
    system, end, inertia = {
        "paper:drift": (cw.load_system("paper:drift"), 3e6, 0.1),
        "load 0.7": (own, own.changes[0].time * 5.0, 0.3),
    }[schedule]
    studies = {}
    for j, (name, algorithm) in enumerate(algorithms(system, end, inertia).items()):
        began = perf_counter()
        studies[name] = learning_study(
            system, algorithm, n=scale.runs, rng=10 + j, average_until=end, executor=executor
        )
        error = tracking_errors(studies[name], system).mean(axis=0)
        progress(
            f"{schedule}: {scale.runs} runs of {name} took {perf_counter() - began:.0f} s; error {error}"
        )
    tell_followed(report, schedule, system, studies)
    tell_alarms(report, schedule, system, studies["adaptive"])
    rules: dict[str, Callable[[cw.System], cw.Policy]] = {
        "EQUI": lambda _: cw.Equi(),
        "optimum": lambda truth: cw.solve(truth).policy,
    }
    for name, rule in rules.items():
        report.followed.append(Followed(schedule, name, 0, [], [], exact_mean_jobs(rule, system, end), 0.0))


def tell_followed(
    report: Report, schedule: str, system: cw.System, studies: Mapping[str, LearningStudy]
) -> None:
    """Print the errors of each algorithm, and its exact mean number of jobs."""
    errors = {name: tracking_errors(study, system).mean(axis=0) for name, study in studies.items()}
    for name, study in studies.items():
        ratios = (errors[name] / errors["adaptive"]).tolist()
        runs, jobs = study.averages.size, float(study.averages.mean())
        spread = float(study.averages.std()) / math.sqrt(max(runs - 1, 1))
        report.followed.append(Followed(schedule, name, runs, errors[name].tolist(), ratios, jobs, spread))
    for name, bound in (("1a", 6.0), ("1b", 30.0)):
        for i, known in enumerate(system.names):
            ratio = float(errors[name][i] / errors["adaptive"][i])
            report.targets.append(
                Target(f"{schedule}, {known}: error of {name} / adaptive", ratio, bound, True, "times")
            )
    for i, known in enumerate(system.names):
        ratio = float(errors["adaptive"][i] / errors["oracle"][i])
        report.targets.append(
            Target(f"{schedule}, {known}: error of adaptive / oracle", ratio, 4.0, False, "times")
        )


def tell_alarms(report: Report, schedule: str, system: cw.System, study: LearningStudy) -> None:
    """Say how soon each change was found."""
    seen = detections(study, system)
    for change, delays in zip(system.changes, seen.delays.T, strict=True):
        found = delays[~np.isnan(delays)]
        middle = float(np.median(found)) if found.size else None
        report.found.append(Found(schedule, f"{change.name} at {change.time:g}", found.size, middle))
    report.other_alarms[schedule] = float(seen.others.mean())


# --- nothing changes ----------------------------------------------------------------------------------------


class Overheard:
    """A plant whose windows somebody else hears of as well."""

    def __init__(self, plant: cw.SimulatedPlant, hear: Callable[[cw.Statistics], object]) -> None:
        self.plant, self.hear = plant, hear

    @property
    def truth(self) -> cw.System:
        return self.plant.truth

    def run(self, policy: cw.Policy, departures: int) -> cw.Statistics:
        seen = self.plant.run(policy, departures)
        self.hear(seen)
        return seen


class Mind:
    """A memory that changes with what it hears, and how long that took."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.seconds, self.alarms = memory, 0.0, 0

    def hear(self, window: cw.Statistics) -> None:
        began = perf_counter()
        self.memory = self.memory.remember(window)
        self.memory.recall()
        self.seconds += perf_counter() - began
        if isinstance(self.memory, SinceChange):
            self.alarms += len(self.memory.alarms)


class Both(NamedTuple):
    """Two who hear the same."""

    one: Mind
    other: Mind

    def hear(self, window: cw.Statistics) -> None:
        self.one.hear(window)
        self.other.hear(window)


def measure_still(report: Report, scale: Scale, executor: Executor) -> None:
    """Compare the last estimates of both memories where nothing changes."""
    for example, runs in zip(EXAMPLES, scale.still, strict=True):
        system = cw.load_system(example[0])
        streams = np.random.default_rng(20).spawn(runs)
        records = np.array(list(executor.map(partial(hear_both, example), streams, chunksize=4)))
        truth = np.array([known.speedup.parameters["p"] for known in system.classes])
        squares = (records[:, :2] - truth) ** 2  # runs, memories, classes
        alarms = int(records[:, 2, 0].sum())
        for i, name in enumerate(system.names):
            one, other = squares[:, 0, i], squares[:, 1, i]
            ratio = float(one.mean() / other.mean())
            spread = float(np.std(one - ratio * other, ddof=1) / other.mean() / math.sqrt(runs))
            report.still.append(Still(example[0], name, runs, ratio, spread, alarms))
            report.targets.append(
                Target(f"{example[0]}, {name}: variance, adaptive / 1b", ratio, 1.05, False, "times")
            )
        progress(f"{example[0]}: {runs} runs, {alarms} alarms")


def hear_both(example: tuple[str, int, float, int], stream: np.random.Generator) -> list[list[float]]:
    """Run 1b once; return the last estimates of the adaptive memory and its own, and the alarms."""
    name, first, power, steps = example
    system = cw.load_system(name)
    watchful = adaptive(system, departures=first, power=power, steps=steps, between_alarms=RARELY)
    mind = Mind(watchful.memory)
    plant = Overheard(cw.SimulatedPlant(system, rng=stream), mind.hear)
    algorithm = cw.algorithm_1b(system, departures=first, power=power, steps=steps)
    *_, last = cw.learn(plant, algorithm, diagnose=False)
    found = cw.estimate(mind.memory.recall(), system)
    rows = [[estimates[key].value for key in system.names] for estimates in (found, last.estimates)]
    return [*rows, [mind.alarms] * len(system.names)]


# --- random walks -------------------------------------------------------------------------------------------


def measure_walks(report: Report, scale: Scale, executor: Executor) -> None:
    """Compare the adaptive loop with the best window in hindsight while parameters creep."""
    names = cw.load_system("paper:drift").names
    for step, (found, best, lengths, alarms) in zip(
        STEPS, executor.map(partial(walk, scale.walked), STEPS), strict=True
    ):
        for i, name in enumerate(names):
            report.walked.append(Walked(step, name, found[i], best[i], lengths[i], alarms))
            report.targets.append(
                Target(
                    f"walk of {step:g}, {name}: error of adaptive / best window",
                    found[i] / best[i],
                    1.5,
                    False,
                    "times",
                )
            )


def walk(departures: int, step: float) -> tuple[list[float], list[float], list[int], int]:
    """Follow one walk; return the errors, those of the best windows, their lengths, and the alarms."""
    start = cw.load_system("paper:drift").regime(0.0)
    end = departures / float(start.arrival_rates.sum())
    system = random_walk(start, sd=step, every=EVERY, end=end, rng=30)
    seen: list[cw.Statistics] = []
    plant = Overheard(cw.SimulatedPlant(system, rng=31), seen.append)
    algorithm = adaptive(system, departures=CHECK, steps=departures // CHECK)
    epochs = [
        (epoch.time, [row.value for row in epoch.estimates.values()], len(epoch.alarms))
        for epoch in cw.learn(plant, algorithm, diagnose=False)
    ]
    times, spans = np.array([row[0] for row in epochs]), np.diff([row[0] for row in epochs])
    errors = squared_errors(system, times, np.array([row[1] for row in epochs]).T) @ spans / spans.sum()
    windows = fixed_windows(seen, system)
    progress(f"a walk with steps of {step:g} is over: {errors / windows.best} times the best windows")
    alarms = sum(row[2] for row in epochs)
    return errors.tolist(), windows.best.tolist(), windows.best_lengths.tolist(), alarms


# --- cost -------------------------------------------------------------------------------------------------


def measure_cost(report: Report, scale: Scale, executor: Executor) -> None:  # noqa: ARG001  # one process
    """Time both memories on the windows of one adaptive run, and the rest of the loop."""
    system = cw.load_system("paper:drift")
    for windows in (100, scale.timed):  # the first is to warm up
        algorithm = adaptive(system, departures=CHECK, steps=windows)
        both = Both(Mind(algorithm.memory), Mind(Everything()))
        plant = Overheard(cw.SimulatedPlant(system, rng=40), both.hear)
        began = perf_counter()
        for _ in cw.learn(plant, algorithm, diagnose=False):
            pass
        watchful, careless = both.one.seconds, both.other.seconds
        loop = perf_counter() - began - watchful - careless
    added = watchful - careless
    share = added / (loop - added)
    report.cost = {
        "windows": windows,
        "seconds of the loop": loop,
        "of its memory": watchful,
        "of the memory of 1b": careless,
    }
    report.targets.append(
        Target("what the detector adds to the loop on paper:drift", 100.0 * share, 20.0, False, "%")
    )


if __name__ == "__main__":
    sys.exit(main())
