"""Live control in virtual time, all rates unknown: gains, starts, estimates from progress, CPU, invariants.

    python benchmarks/live.py [--only gains starts progress cpu sequences] [--traces N] [--starts N]
                              [--sequences N] [--seed S] [--json FILE]

*Gains*: the same jobs, 120 mean sizes of them at a load of .7, under EQUI, under what is learned, and under
the optimum that knows all. *Starts*: the first 400 jobs of a pool, with the gate and without. *Progress*: the
estimates of p after 2000 departures, and their spread after 200. *CPU*: of the controller, an event, of a
stream with all kinds. *Sequences*: random histories of events under which all invariants hold, a replay gives
the same, and a snapshot goes on as if nothing had been.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import corewise as cw
from benchmarks.instruments.live_starts import (
    LOADS,
    SYSTEMS,
    Solver,
    learning,
    mean_response,
    run,
    system_at,
    trace,
)
from benchmarks.instruments.live_stream import new_controller, stream
from benchmarks.measure import Findings, Target, progress, table_of, targets_table
from corewise.errors import InvalidInput
from corewise.live.lessons import conclude
from tests.live.test_controller import LiveMachine

LOAD = 0.7
TIME = 120.0
FIRST = 400
DEMANDED = dict(zip(SYSTEMS, ((17.0, 14.0), (6.0, 4.0)), strict=True))
SEED = 20261117


@dataclass
class Report(Findings):
    """The numbers."""

    gains: list[dict[str, Any]] = field(default_factory=list)
    starts: list[dict[str, Any]] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)


def seeds(chosen: argparse.Namespace, what: int, count: int) -> Iterator[np.random.Generator]:
    for k in range(count):
        yield np.random.default_rng([chosen.seed, what, k])


def measure_gains(chosen: argparse.Namespace, report: Report) -> Iterator[Table]:
    """Gain over EQUI on each of some traces: what is learned, and the optimum."""
    table = table_of(f"Gain over EQUI, {chosen.traces} traces, %", ("", "mean", "sd", "least", "optimum"))
    for what, name in enumerate(SYSTEMS):
        system = system_at(name, LOAD)
        best = cw.solve(system, whole_cores=True).policy
        found = []
        for rng in seeds(chosen, what, chosen.traces):
            jobs = trace(system, rng, time=TIME)
            equi = mean_response(run(jobs, system)[0])
            learned, _ = run(jobs, system, algorithm=learning(system))
            known, _ = run(jobs, system, policy=best)
            found.append([100.0 * (1.0 - mean_response(one) / equi) for one in (learned, known)])
            progress(f"{name}: {len(jobs)} jobs, learned {found[-1][0]:.2f} %, optimum {found[-1][1]:.2f} %")
        gains, optimum = np.array(found).T
        table.add_row(
            name, *(f"{x:.2f}" for x in (gains.mean(), gains.std(ddof=1), gains.min(), optimum.mean()))
        )
        report.gains.append({"system": name, "learned": gains.tolist(), "optimum": optimum.tolist()})
        mean, least = DEMANDED[name]
        report.targets.append(Target(f"{name}: mean gain", float(gains.mean()), mean, True, "%"))
        report.targets.append(Target(f"{name}: least gain", float(gains.min()), least, True, "%"))
    yield table


CONTROLS = {
    "with the gate": (True, True),
    "with it, departures only": (True, False),
    "without": (False, True),
    "without, departures only": (False, False),
}
"""Whether there is a gate, and whether jobs tell of their progress."""


def measure_starts(chosen: argparse.Namespace, report: Report) -> Iterator[Table]:
    """How much longer the first jobs take than under EQUI."""
    each = -(-chosen.starts // (len(SYSTEMS) * len(LOADS)))
    table = table_of(
        f"First {FIRST} jobs against EQUI, {each} starts a row, %", ("", "mean", "worst twentieth", "worst")
    )
    whole: dict[str, list[float]] = {control: [] for control in CONTROLS}
    for what, (name, load) in enumerate((name, load) for name in SYSTEMS for load in LOADS):
        system = system_at(name, load)
        found: dict[str, list[float]] = {control: [] for control in CONTROLS}
        for rng in seeds(chosen, 10 + what, each):
            jobs = trace(system, rng, time=2.0 * FIRST / float(np.sum(system.arrival_rates)))[:FIRST]
            equi = mean_response(run(jobs, system)[0])
            for control, (gate, told) in CONTROLS.items():
                learned, _ = run(
                    jobs, system, algorithm=learning(system), solver=Solver(gate=gate), progress=told
                )
                found[control].append(100.0 * (mean_response(learned) / equi - 1.0))
        for control, values in found.items():
            row = [f"{x:+.2f}" for x in ends(values)]
            table.add_row(f"{name}, load {load:g}, {control}", *row)
            progress(f"{name}, load {load:g}, {control}: {', '.join(row)}")
            whole[control] += values
        report.starts.append({"system": name, "load": load, **found})
    for control, values in whole.items():
        table.add_row(f"all, {control}", *(f"{x:+.2f}" for x in ends(values)))
    for control in ("with the gate", "with it, departures only"):
        mean, worst, _ = ends(whole[control])
        report.targets.append(Target(f"starts {control}: mean, worse than EQUI by", mean, 1.0, False, "%"))
        report.targets.append(Target(f"starts {control}: worst twentieth", worst, 3.0, False, "%"))
    yield table


def ends(values: list[float]) -> tuple[float, float, float]:
    """The mean, the mean of the worst twentieth, and the worst."""
    ordered = np.sort(values)[::-1]
    return float(ordered.mean()), float(ordered[: max(len(values) // 20, 1)].mean()), float(ordered[0])


def measure_progress(chosen: argparse.Namespace, report: Report) -> Iterator[Table]:
    """Estimates from progress, no rate known."""
    name = list(SYSTEMS)[1]
    system = system_at(name, LOAD)
    table = table_of("p from progress under EQUI", ("", "departures", "runs", "mean", "standard error", "sd"))
    for what, (kind, departures, runs) in enumerate(
        (
            ("rounds of one size", 2000, 20),
            ("rounds of one size", 200, 20),
            ("exponential rounds", 200, 20),
            ("exponential rounds", 2000, 20),
        )
    ):
        found = []
        for rng in seeds(chosen, 20 + what, runs):
            enough = 2.0 * departures / float(np.sum(system.arrival_rates))
            jobs = trace(system, rng, time=enough)[:departures]
            drawn = rng if kind.startswith("exp") else None
            never = learning(system, departures=departures + 1)
            _, controller = run(jobs, system, algorithm=never, round_sizes=drawn)
            controller.learner.observe(controller.tally.close())
            lesson = conclude(controller.question())
            found.append([row.parameters["p"] for row in lesson.classes])
        for p, values in zip(SYSTEMS[name][0], np.array(found).T, strict=True):
            mean, sd = float(values.mean()), float(values.std(ddof=1))
            error = sd / math.sqrt(runs)
            table.add_row(
                f"{kind}, p = {p:g}", str(departures), str(runs), f"{mean:.4f}", f"{error:.4f}", f"{sd:.4f}"
            )
            report.progress.append(
                {"kind": kind, "p": p, "departures": departures, "values": values.tolist()}
            )
            if departures == 2000 and kind.startswith("exp"):
                off = abs(mean - p) / error
                report.targets.append(Target(f"bias of p = {p:g}", off, 3.0, False, "standard errors"))
            elif departures == 2000:  # which have next to no spread: what is left is that of a posterior mean
                report.targets.append(Target(f"bias of p = {p:g}, {kind}", abs(mean - p), 0.001, False, ""))
            elif p == 0.8:
                report.targets.append(Target(f"sd of p = .8, {kind}", sd, 0.06, False, ""))
    yield table


def measure_cpu(_: argparse.Namespace, report: Report) -> Iterator[Table]:
    """CPU of the controller, an event."""
    told = stream(2000, SEED)
    best = math.inf
    for _round in range(3):
        controller, began = new_controller(), time.process_time()
        for event in told:
            with suppress(InvalidInput):
                controller.handle(event)
        best = min(best, time.process_time() - began)
    began = time.process_time()
    content = controller.snapshot()
    spent = time.process_time() - began
    table = table_of("Controller", ("", "events", "CPU an event, µs", "a snapshot, ms", "its size, kB"))
    each = 1e6 * best / len(told)
    table.add_row("", f"{len(told):,}", f"{each:.1f}", f"{1e3 * spent:.1f}", f"{len(content) / 1e3:.0f}")
    report.targets.append(Target("controller: CPU an event", each, 100.0, False, "µs"))
    yield table


def measure_sequences(chosen: argparse.Namespace, report: Report) -> Iterator[Table]:
    """Random histories; the first that breaks an invariant ends this with an error."""
    run_state_machine_as_test(
        LiveMachine,
        settings=settings(
            max_examples=chosen.sequences,
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    report.targets.append(Target("sequences without a fault", float(chosen.sequences), 10_000.0, True, ""))
    yield from ()


PARTS: dict[str, Callable[[argparse.Namespace, Report], Iterator[Table]]] = {
    "gains": measure_gains,
    "starts": measure_starts,
    "progress": measure_progress,
    "cpu": measure_cpu,
    "sequences": measure_sequences,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=list(PARTS), metavar="PART")
    parser.add_argument("--traces", type=int, default=12, help="of each system")
    parser.add_argument("--starts", type=int, default=200, help="of all systems and loads together")
    parser.add_argument("--sequences", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report, console = Report(), Console()
    for part in chosen.only:
        for table in PARTS[part](chosen, report):
            console.print(table)
    console.print(targets_table(report.targets))
    if chosen.json:
        report.write(chosen.json)
    return int(report.missed)


if __name__ == "__main__":
    sys.exit(main())
