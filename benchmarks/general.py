"""Is the simulation of any size law right, and how fast is it, next to other simulators.

    python benchmarks/general.py [--rounds N] [--json FILE]

First the closed forms: what one class, and classes with one curve, do under EQUI depends on the means of
sizes only; the work of jobs that speed up perfectly is that of Pollaczek and Khinchine, the same path under
every policy; and the negative control, a system that is not insensitive. Then events per second of processor
time, an event being an arrival or a departure; the peers follow jobs as well.
Exits with 1 if a target was missed.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import process_time

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from scipy import stats

import corewise as cw
from benchmarks.chain import Model
from benchmarks.measure import Findings, Target, options, progress, table_of
from benchmarks.simulators import simulate_with_ciw, simulate_with_simpy_jobs
from corewise.kit.arrays import Floats
from corewise.observation.sample_path import EventKind
from corewise.policies.base import bind
from corewise.simulation.paths import first_walk
from corewise.simulation.state import State
from corewise.sizes import (
    Deterministic,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
    Pareto,
    SizeLaw,
    Weibull,
)

LAWS: dict[str, SizeLaw] = {
    "deterministic": Deterministic(),
    "Erlang-4": Erlang(4),
    "exponential": Exponential(),
    "lognormal, cv² 1": Lognormal(1.0),
    "hyperexponential, cv² 4": Hyperexponential(4.0),
    "lognormal, cv² 4": Lognormal(4.0),
    "Weibull, shape ½": Weibull(0.5),
    "hyperexponential, cv² 16": Hyperexponential(16.0),
    "Pareto 1.5, cut at 1000": Pareto(1.5, 1000.0),
}
DEPARTURES = 1_000_000
SAMPLES = 20_000
FASTER_THAN = {"SimPy, a process a job": 100.0, "Ciw, own node": 100.0}
PEERS = {
    "SimPy, a process a job": (simulate_with_simpy_jobs, 20_000),
    "Ciw, own node": (simulate_with_ciw, 5_000),
}


@dataclass(frozen=True)
class LawRow:
    """One law: standard errors from each closed form, and how far the count is from its law."""

    law: str
    one_class: float
    variation: float
    proportional: float
    two_classes: float
    work: float
    same_work: float


@dataclass
class Report(Findings):
    """Everything that was measured."""

    laws: list[LawRow] = field(default_factory=list)
    moves: dict[str, float] = field(default_factory=dict)
    speeds: dict[str, float] = field(default_factory=dict)


def main() -> int:
    chosen = options(__doc__.partition("\n")[0], rounds=3)
    report = Report()
    for name, law in LAWS.items():
        progress(f"closed forms: {name}")
        report.laws.append(closed_forms(name, law))
    negative_control(report)
    measure_speed(report, chosen.rounds)
    judge(report)
    return report.finish(chosen.json, lambda console: show(report, console), width=120)


# --- closed forms ---------------------------------------------------------------------------------


def closed_forms(name: str, law: SizeLaw) -> LawRow:
    """Everything that is known of a law exactly, against a long run."""
    single = cw.System(8, [cw.JobClass("a", 8.4, 1.5, cw.Amdahl(0.6), sizes=law)])
    exact = counts_law(single)
    means, run = ratio_means(single, "equi")
    total = float(exact @ np.arange(exact.size))
    seen = np.bincount(run.visited[0], weights=run.times / run.time, minlength=exact.size)[: exact.size]
    alike = pair(law, 0.9)
    shared = float(counts_law(alike) @ np.arange(400.0)) / alike.load / alike.cores
    both, _ = ratio_means(alike, "equi")
    return LawRow(
        law=name,
        one_class=means["a"].off(total / 8.4),
        variation=0.5 * float(np.abs(seen - exact).sum()),
        proportional=off_proportion(single, total / 8.4 * 1.5),
        two_classes=max(abs(both[c.name].off(shared / c.known_size_rate)) for c in alike.classes),
        work=off_work(law),
        same_work=work_apart(law),
    )


@dataclass(frozen=True)
class Mean:
    """A mean response time and its standard error."""

    value: float
    error: float

    def off(self, exact: float) -> float:
        """How many standard errors it is from what it should be."""
        return float((self.value - exact) / self.error)


def ratio_means(system: cw.System, policy: str) -> tuple[dict[str, Mean], cw.results.Run]:
    """Mean response times of a long run, by class; every job is followed, exponential sizes too."""
    walked = system if not system.memoryless else named(system)
    run = cw.simulate(walked, policy, departures=DEPARTURES, rng=1)
    student = 2.0 * stats.t.ppf(0.975, 19)
    times = run.response_times
    return {n: Mean(t.mean, (t.interval[1] - t.interval[0]) / student) for n, t in times.items()}, run


def named(system: cw.System) -> cw.System:
    """The system with hyperexponential sizes of cv² one: exponential, but every job is followed."""
    return with_law(system, Hyperexponential(1.0))


def with_law(system: cw.System, law: SizeLaw) -> cw.System:
    return cw.System(system.cores, [replace(one, sizes=law) for one in system.classes])


def pair(law: SizeLaw, p: float) -> cw.System:
    """Two classes of unequal size on six cores at load 2/3."""
    return cw.System(
        6,
        [
            cw.JobClass("one", 1.6, 0.8, cw.Amdahl(p), sizes=law),
            cw.JobClass("two", 4.0, 2.0, cw.Amdahl(p), sizes=law),
        ],
    )


def counts_law(system: cw.System) -> Floats:
    """P(N = n) of jobs that are alike: π(n) ∝ Π_{k ≤ n} (Σ λ/μ) / (k s(c/k))."""
    k = np.arange(1.0, 400.0)
    speed = np.asarray(system.classes[0].speedup.rate(system.cores / k))
    logs = np.concatenate([[0.0], np.cumsum(np.log(system.load * system.cores / (k * speed)))])
    law = np.exp(logs - logs.max())
    return np.asarray(law / law.sum())


def off_proportion(system: cw.System, ratio: float) -> float:
    """E[T | X = x] = x · ratio in each quarter of the sizes: the worst, in standard errors."""
    system = named(system) if system.memoryless else system
    run = cw.simulate(system, "equi", departures=DEPARTURES // 4, rng=2, record=True)
    assert run.path is not None
    work, spent = sizes_of(run, system), run.path.response_times["a"]
    worst = 0.0
    parts = 4 if system.classes[0].sizes.cv2 > 0.0 else 1  # equal sizes have no quarters
    for part in np.array_split(np.argsort(work, kind="stable"), parts):
        batches = np.array_split(np.sort(part), 20)
        ratios = np.array([spent[own].sum() / work[own].sum() for own in batches])
        worst = max(worst, float(abs(ratios.mean() - ratio) / (ratios.std(ddof=1) / math.sqrt(20))))
    return worst


def sizes_of(run: cw.results.Run, system: cw.System) -> Floats:
    """The sizes of the jobs that left, in order: the work that the clock of their class ran meanwhile."""
    path = run.path
    assert path is not None
    widths = path.cores[:, 0] / np.maximum(path.counts[:, 0], 1)
    speed = np.asarray(system.classes[0].speedup.rate(widths)) * (path.counts[:, 0] > 0)
    clock = np.concatenate([[0.0], np.cumsum(speed[:-1] * np.diff(path.time))])
    came = np.full(int(path.job.max()) + 1, np.nan)
    arrives, leaves = path.event == EventKind.ARRIVAL, path.event == EventKind.DEPARTURE
    came[path.job[arrives]] = clock[arrives]
    return np.asarray(clock[leaves] - came[path.job[leaves]])


def off_work(law: SizeLaw) -> float:
    """The mean work under perfect speed-up against Σ λ E[X²] / (2c(1 − ρ)), in standard errors."""
    system = pair(law, 1.0)
    system = named(system) if system.memoryless else system
    rates = float(np.sum(system.arrival_rates / system.size_rates**2))
    exact = (1.0 + law.cv2) * rates / (2.0 * system.cores * (1.0 - system.load))
    walk = first_walk(system, bind("equi", system), State((0, 0)), np.random.default_rng(3))
    work = []
    for k in range(1, SAMPLES + 1):
        walk.run_time(8.0 * k, 1, None)
        work.append(sum(map(sum, walk.finish()[0].remaining)))
    batches = np.array(work).reshape(20, -1).mean(axis=1)
    return float((batches.mean() - exact) / (batches.std(ddof=1) / math.sqrt(20)))


def work_apart(law: SizeLaw) -> float:
    """How far apart the work is at one time under three policies, relative to it: the same path."""
    system = pair(law, 1.0)
    system = named(system) if system.memoryless else system
    policies = ("equi", "priority:one,two", "priority:two,one")
    ends = [cw.simulate(system, policy, time=5000.3, rng=4).state for policy in policies]
    work = [sum(map(sum, end.remaining)) for end in ends]
    return float((max(work) - min(work)) / max(*work, 1.0))


def negative_control(report: Report) -> None:
    """Systems that are not insensitive: their means must move with the law, or the tests prove nothing."""
    alike, best = pair(Exponential(), 0.9), cw.load_system("paper:2").at_load(0.9)
    for policy, known in (("priority:one,two", alike), ("optimal", best)):
        found = []
        for law in (Deterministic(), Hyperexponential(16.0)):
            progress(f"negative control: {policy}, {law}")
            system = with_law(known, law)
            rates = system.arrival_rates.tolist()
            means = [
                sum(rate * t.mean for rate, t in zip(rates, times.values(), strict=True))
                for times in (
                    cw.simulate(system, policy, departures=2 * DEPARTURES, rng=seed).response_times
                    for seed in range(4)
                )
            ]
            found.append((float(np.mean(means)), float(np.std(means, ddof=1)) / 2.0))
        (few, one), (many, other) = found
        report.moves[policy] = float((many - few) / math.hypot(one, other))


# --- speed ------------------------------------------------------------------------------------------


def measure_speed(report: Report, rounds: int) -> None:
    """Events per second of processor time; a ratio to a peer is taken within a round."""
    law = Lognormal(4.0)
    crowded = cw.System(10_000, [cw.JobClass("a", 9_900.0, 1.0, cw.Amdahl(0.0), sizes=law)])
    cases: dict[str, tuple[cw.System, cw.Policy | str, list[int] | None]] = {
        "Example 1 at load 0.05, EQUI": (
            with_law(cw.load_system("paper:1").at_load(0.05), law),
            "equi",
            None,
        ),
        "Example 1 at load 0.8, EQUI": (with_law(cw.load_system("paper:1").at_load(0.8), law), "equi", None),
        "Example 2 at load 0.9, Whittle": (
            with_law(cw.load_system("paper:2").at_load(0.9), law),
            "whittle",
            None,
        ),
        "Example 2 at load 0.9, residual": (
            with_law(cw.load_system("paper:2").at_load(0.9), law),
            cw.Residual(base="whittle"),
            None,
        ),
        "one class, 10 000 jobs present": (crowded, "equi", [9_900]),
        "ten classes without tables, Whittle": (many_classes(law), "whittle", None),
    }
    for name, (system, policy, start) in cases.items():
        cw.simulate(system, policy, departures=100, rng=0, start=start)
        speeds = []
        for seed in range(rounds):
            progress(f"speed: {name}, round {seed + 1} of {rounds}")
            began = process_time()
            run = cw.simulate(system, policy, departures=2 * DEPARTURES, rng=seed, start=start)
            speeds.append(run.events / (process_time() - began))
        report.speeds[name] = median(speeds)
    system = with_law(cw.load_system("paper:1").at_load(0.7), law)
    model = Model(system, cw.Equi(), capacity=150)
    model.speeds  # noqa: B018  # made before any clock starts
    for name, (simulate, departures) in PEERS.items():
        simulate(model, 100, 0)
        ratios = []
        for seed in range(rounds):
            progress(f"speed: {name}, round {seed + 1} of {rounds}")
            began = process_time()
            run = cw.simulate(system, "equi", departures=DEPARTURES, rng=seed)
            ours = run.events / (process_time() - began)
            began = process_time()
            theirs = simulate(model, departures, seed).events / (process_time() - began)
            report.speeds[name] = theirs
            ratios.append(ours / theirs)
        bound = FASTER_THAN[name]
        report.targets.append(
            Target(f"speed, against {name}", median(ratios), bound, at_least=True, unit="×")
        )


def many_classes(law: SizeLaw) -> cw.System:
    curves = [cw.Amdahl(0.3 + 0.06 * i) for i in range(10)]
    classes = [cw.JobClass(f"k{i}", 1.0, 1.0, curve, sizes=law) for i, curve in enumerate(curves)]
    return cw.System(20, classes).at_load(0.7)


def judge(report: Report) -> None:
    """Set the targets."""
    every = [max(abs(r.one_class), abs(r.proportional), r.two_classes, abs(r.work)) for r in report.laws]
    add = report.targets.append
    add(Target("closed forms, all laws: the worst", max(every), 4.5, at_least=False, unit="standard errors"))
    apart = max(row.same_work for row in report.laws)
    add(Target("work under three policies, apart", apart, 1e-9, at_least=False, unit="of it"))
    control = min(abs(moved) for moved in report.moves.values())
    add(Target("negative control: means move", control, 4.5, at_least=True, unit="standard errors"))
    few = report.speeds["Example 1 at load 0.05, EQUI"] / 1e6
    add(Target("speed, few jobs present", few, 10.0, at_least=True, unit="M events/s"))
    many = report.speeds["one class, 10 000 jobs present"] / 1e6
    add(Target("speed, 10 000 jobs present", many, 5.0, at_least=True, unit="M events/s"))


def show(report: Report, console: Console) -> None:
    """The tables, for people."""
    headings = ["", "one class", "variation", "in proportion", "two classes", "work", "same work"]
    table = table_of("Closed forms, in standard errors", headings)
    for row in report.laws:
        table.add_row(
            row.law,
            *(f"{value:+.1f}" if abs(value) >= 0.05 else "0.0" for value in (row.one_class,)),
            f"{row.variation:.4f}",
            *(f"{value:+.1f}" for value in (row.proportional, row.two_classes, row.work)),
            f"{row.same_work:.0e}",
        )
    console.print(table)
    speeds = table_of("Speed", ["", "10⁶ events/s"])
    for name, speed in report.speeds.items():
        speeds.add_row(name, f"{speed / 1e6:.3g}")
    console.print(speeds)


if __name__ == "__main__":
    sys.exit(main())
