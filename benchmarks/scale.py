"""Many classes: how fast the simulation is, how good the policies, and how soon they are learned.

    python benchmarks/scale.py [--only engine policies learn] [--events N] [--json FILE]

- engine: events a second without tables for 2, 10, 100 and 1000 classes under Whittle (Amdahl's law and power
  laws in turn, load 0.7), next to the engine with tables on two classes, in turns in one run.
- policies: EQUI, GREEDY*, Whittle and Improved for 10, 50 and 200 classes on 100 and 1000 cores at loads 0.5,
  0.7 and 0.9, p spread over [.02, .98]: simulated means with a control variate, against the lower bound.
- learn: 50 classes of five families with unknown curves: the policy learned after so many departures, against
  the same policy with the true curves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from time import perf_counter

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.bounds import curve_of, many_classes
from benchmarks.measure import Findings, Target, progress, table_of
from corewise.simulation.decisions.levels import LevelChain
from corewise.simulation.state import State

PARTS = ("engine", "policies", "learn")
ROUNDS = 7
EVENTS = 4_000_000


@dataclass
class Report(Findings):
    """Everything that was measured."""

    engine: list[dict[str, float]] = field(default_factory=list)
    policies: list[dict[str, object]] = field(default_factory=list)
    learned: list[dict[str, float | str]] = field(default_factory=list)


def in_turn(classes: int, cores: float) -> cw.System:
    """Amdahl's law and power laws in turn, p spread over [.02, .98], load 0.7."""
    rng = np.random.default_rng(classes)
    curves: list[Callable[[float], cw.SpeedUp]] = [cw.Amdahl, cw.PowerLaw]
    spread = np.linspace(0.02, 0.98, classes)
    sizes = np.exp(rng.uniform(-0.7, 0.7, classes))
    jobs = [
        cw.JobClass(f"c{i}", float(rng.uniform(0.5, 1.5)), float(sizes[i]), curves[i % 2](float(spread[i])))
        for i in range(classes)
    ]
    return cw.System(cores, jobs).at_load(0.7)


def measure_engine(report: Report) -> None:
    """Events a second, the best of several rounds in which all take their turn."""
    sizes = ((2, 20.0), (10, 100.0), (100, 1000.0), (1000, 1000.0))
    systems = [in_turn(classes, cores) for classes, cores in sizes]

    def tabulated(events: int) -> int:
        return cw.simulate(systems[0], cw.Whittle(), departures=events // 2, rng=1).events

    def loose(system: cw.System) -> Callable[[int], int]:
        start = cw.simulate(system, cw.Whittle(), departures=20_000, rng=1).state.counts

        def run(events: int) -> int:
            walk = LevelChain(system, cw.Whittle().on(system), State(start), np.random.default_rng(2))
            walk.run_departures([events // 2], None)
            return walk.events

        return run

    works = [tabulated, *map(loose, systems)]
    best = [0.0] * len(works)
    for turn in range(ROUNDS + 1):
        for k, work in enumerate(works):
            progress(f"round {turn} of {ROUNDS}: {'tables' if k == 0 else f'{sizes[k - 1][0]} classes'}")
            began = perf_counter()
            done = work(20_000_000 if k == 0 else EVENTS)
            if turn:  # the first round compiles
                best[k] = max(best[k], done / (perf_counter() - began))
    for (classes, cores), rate in zip(((2, 20.0), *sizes), best, strict=True):
        report.engine.append({"classes": classes, "cores": cores, "rate": rate, "share": rate / best[0]})
    wanted = (("2 classes", 0.2), ("10 classes", 0.05), ("1000 classes", 0.01))
    for (what, share), row in zip(
        wanted, (report.engine[1], report.engine[2], report.engine[4]), strict=True
    ):
        name = f"{what}: share of the speed with tables"
        report.targets.append(Target(name, 100.0 * row["share"], 100.0 * share, True, "%"))


def compare_policies(report: Report, events: int) -> None:
    for classes, cores, load in product((10, 50, 200), (100, 1000), (0.5, 0.7, 0.9)):
        progress(f"{classes} classes on {cores} cores at load {load}")
        system = many_classes(classes, cores, load, 0.02)
        began = perf_counter()
        found = cw.compare(system, events=events, rng=1)
        report.policies.append(
            {
                "classes": classes,
                "cores": cores,
                "load": load,
                "bound": found.lower_bound,
                "gaps": {row.name: row.certified_gap for row in found.rows},
                "means": {row.name: row.mean_jobs for row in found.rows},
                "seconds": perf_counter() - began,
            }
        )
        if cores == 1000:
            gap = found.rows[-1].certified_gap
            assert gap is not None
            name = f"K = {classes}, load {load}: certified gap of improved"
            report.targets.append(Target(name, 100.0 * gap, 5.0, False, "%"))


def fifty_families() -> cw.System:
    """Fifty classes of five families in turn on 100 cores, load 0.8."""
    rng = np.random.default_rng(50)
    jobs = [
        cw.JobClass(
            f"c{i}",
            float(rng.uniform(0.5, 1.5)),
            float(np.exp(rng.uniform(-0.7, 0.7))),
            curve_of(i % 5, 0.02 + 0.96 * i / 49),
        )
        for i in range(50)
    ]
    return cw.System(100, jobs).at_load(0.8)


def learn_many(report: Report, events: int) -> None:
    system = fifty_families()
    rules: list[cw.Policy] = [cw.Whittle(), cw.Improved(events=50_000)]
    for rule in rules:
        known = cw.simulated_mean(system, rule, events=events, rng=3)
        algorithm = cw.algorithm_1b(system, departures=25_000, steps=8, policy=rule)
        for epoch in cw.learn(cw.SimulatedPlant(system, rng=1), algorithm, diagnose=False):
            progress(f"{rule.name}: {epoch.departures} departures")
            if epoch.k not in (1, 2, 4, 8):
                continue
            found = cw.simulated_mean(system, epoch.policy, events=events, rng=3)
            report.learned.append(
                {
                    "policy": rule.name,
                    "departures": epoch.departures,
                    "loss": found.mean_cost / known.mean_cost - 1.0,
                    "error": (found.cost_interval[1] - found.cost_interval[0]) / known.mean_cost,
                }
            )
        loss = float(report.learned[-1]["loss"])
        name = f"{rule.name} after 200 000 departures: loss"
        report.targets.append(Target(name, 100.0 * loss, 1.0, False, "%"))


def show(report: Report, console: Console) -> None:
    if report.engine:
        table = table_of("Events a second", ("", "classes", "cores", "million", "of tables"))
        for k, row in enumerate(report.engine):
            kind = "tables" if k == 0 else "no tables"
            cells = (
                f"{row['classes']:g}",
                f"{row['cores']:g}",
                f"{row['rate'] / 1e6:.2f}",
                f"{row['share']:.3f}",
            )
            table.add_row(kind, *cells)
        console.print(table)
    if report.policies:
        names = ("equi", "greedy", "whittle", "improved")
        table = table_of("At most above the optimum, p over [.02, .98]", ("K", "cores", "load", *names, "s"))
        for entry in report.policies:
            gaps = entry["gaps"]
            assert isinstance(gaps, dict)
            shown = ("unstable" if gaps[name] is None else f"{gaps[name]:.2%}" for name in names)
            head = (str(entry[key]) for key in ("classes", "cores", "load"))
            table.add_row(*head, *shown, f"{entry['seconds']:.0f}")
        console.print(table)
    if report.learned:
        table = table_of(
            "Learned, above the same policy with the true curves", ("policy", "departures", "loss")
        )
        for line in report.learned:
            table.add_row(
                str(line["policy"]), str(line["departures"]), f"{line['loss']:.3%} ± {line['error']:.3%}"
            )
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--events", type=int, default=400_000, help="to simulate of each policy")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    report = Report()
    works = {
        "engine": lambda: measure_engine(report),
        "policies": lambda: compare_policies(report, chosen.events),
        "learn": lambda: learn_many(report, chosen.events),
    }
    for part in chosen.only:
        works[part]()
        if chosen.json:
            report.write(chosen.json)
    report.finish(None, lambda console: show(report, console))  # it is written part by part


if __name__ == "__main__":
    main()
