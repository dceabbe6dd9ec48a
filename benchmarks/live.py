"""Live control in virtual time, all rates unknown: gains, starts, estimates from progress, CPU, invariants.

    python benchmarks/live.py [--only gains starts progress cpu sequences] [--traces N] [--starts N]
                              [--sequences N] [--seed S] [--runs FILE] [--json FILE]

*Gains*: the same jobs, 120 mean sizes of them at a load of .7, under EQUI, under what is learned, and under
the optimum that knows all. *Starts*: the first 400 jobs of a pool, with the gate and without, and under the
plainest learner, which goes by what is most likely. *Progress*: the estimates of p after 2000 departures, and
their spread after 200. *CPU*: of the controller, an event, of a stream with all kinds. *Sequences*: random
histories of events under which all invariants hold, a replay gives the same, and a snapshot goes on as if
nothing had been.

With ``--runs`` traces and starts are added to a file as they are done, and those in it are not run again.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import corewise as cw
from benchmarks.instruments.kept_runs import KeptRuns
from benchmarks.instruments.live_starts import (
    LOADS,
    SYSTEMS,
    MostLikely,
    Solver,
    believing_all,
    excesses,
    learning,
    mean_response,
    run,
    system_at,
    trace,
)
from benchmarks.instruments.live_stream import new_controller, stream
from benchmarks.instruments.virtual_engine import VirtualJob
from benchmarks.measure import Findings, Target, progress, table_of, targets_table
from corewise.errors import InvalidInput
from corewise.kit.jsonable import plain
from corewise.learning.algorithms import Algorithm
from corewise.learning.learner import infer
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


def seeds(chosen: argparse.Namespace, what: int, count: int) -> Iterator[tuple[int, ...]]:
    for k in range(count):
        yield (chosen.seed, what, k)


def measure_gains(chosen: argparse.Namespace, report: Report) -> Iterator[Table]:
    """Gain over EQUI on each of some traces: what is learned, and the optimum."""
    table = table_of(f"Gain over EQUI, {chosen.traces} traces, %", ("", "mean", "sd", "least", "optimum"))
    runs = KeptRuns(chosen.runs)
    for what, name in enumerate(SYSTEMS):
        found = []
        for seed in seeds(chosen, what, chosen.traces):
            found.append(runs.run(["gain", name, *seed], partial(gains_of, name, seed)))
            progress(f"{name}: learned {found[-1][0]:.2f} %, optimum {found[-1][1]:.2f} %")
        gains, optimum = np.array(found).T
        table.add_row(
            name, *(f"{x:.2f}" for x in (gains.mean(), gains.std(ddof=1), gains.min(), optimum.mean()))
        )
        report.gains.append({"system": name, "learned": gains.tolist(), "optimum": optimum.tolist()})
        mean, least = DEMANDED[name]
        report.targets.append(Target(f"{name}: mean gain", float(gains.mean()), mean, True, "%"))
        report.targets.append(Target(f"{name}: least gain", float(gains.min()), least, True, "%"))
    yield table


def gains_of(name: str, seed: tuple[int, ...]) -> list[float]:
    """The gains on a trace, in per cent: of what is learned, and of the optimum."""
    system = system_at(name, LOAD)
    jobs = trace(system, np.random.default_rng(seed), time=TIME)
    equi = mean_response(run(jobs, system)[0])
    learned, _ = run(jobs, system, algorithm=learning(system))
    known, _ = run(jobs, system, policy=cw.solve(system, whole_cores=True).policy)
    return [100.0 * (1.0 - mean_response(one) / equi) for one in (learned, known)]


CONTROLS: dict[str, tuple[Callable[[], Solver], Callable[[cw.System], Algorithm], bool]] = {
    "gate": (Solver, learning, True),
    "gate, silent jobs": (Solver, learning, False),
    "no gate": (partial(Solver, gate=False), learning, True),
    "no gate, silent jobs": (partial(Solver, gate=False), learning, False),
    "most likely, silent jobs": (MostLikely, believing_all, False),
}
"""What answers, how it learns, and whether jobs tell of their progress; the last is the control."""


def measure_starts(chosen: argparse.Namespace, report: Report) -> Iterator[Table]:
    """How much longer the first jobs take than under EQUI, and how far off policies were in force."""
    cases = [(name, load) for name in SYSTEMS for load in LOADS]
    each, runs = -(-chosen.starts // len(cases)), KeptRuns(chosen.runs)
    heads = ("", "mean", "worst 5 %", "worst", "worse", "policy")
    table = table_of(f"First {FIRST} jobs against EQUI, %", heads)
    found: list[dict[str, list[tuple[float, float]]]] = [{one: [] for one in CONTROLS} for _ in cases]
    for k in range(each):  # some of every case, if it is stopped
        for what, (name, load) in enumerate(cases):
            seed = (chosen.seed, 10 + what, k)
            for control in CONTROLS:
                of = ["start", name, load, control, *seed]
                longer, policies = runs.run(of, partial(start_of, name, load, control, seed))
                found[what][control].append((longer, max(policies)))
    whole = {control: [value for case in found for value in case[control]] for control in CONTROLS}
    for (name, load), case in zip(cases, found, strict=True):
        for control, values in case.items():
            progress(f"{name}, load {load:g}, {control}: {', '.join(cells(values))}")
        report.starts.append({"system": name, "load": load, "found": plain(case)})
    for control, values in whole.items():
        table.add_row(control, *cells(values))
    for control in list(CONTROLS)[:2]:
        mean, worst, _ = ends([longer for longer, _ in whole[control]])
        report.targets.append(Target(f"starts, {control}: mean", mean, 1.0, False, "%"))
        report.targets.append(Target(f"starts, {control}: worst twentieth", worst, 3.0, False, "%"))
    worst = max(policy for _, policy in whole[list(CONTROLS)[-1]])
    report.targets.append(Target("the control: its worst policy above EQUI", worst, 20.0, True, "%"))
    yield table


def start_of(name: str, load: float, control: str, seed: tuple[int, ...]) -> tuple[float, list[float]]:
    """How much longer the first jobs take than under EQUI, and the excess of each policy in force, in %."""
    solver, how, told = CONTROLS[control]
    system, answers = system_at(name, load), solver()
    jobs, equi = first_jobs(name, load, seed)
    times, controller = run(jobs, system, algorithm=how(system), solver=answers, progress=told)
    policies = [100.0 * excess for excess in excesses(system, answers, controller)]
    return 100.0 * (mean_response(times) / equi - 1.0), policies


@lru_cache(maxsize=1)
def first_jobs(name: str, load: float, seed: tuple[int, ...]) -> tuple[list[VirtualJob], float]:
    """The first jobs of a pool, and their mean response time under EQUI."""
    system = system_at(name, load)
    expected = FIRST / float(np.sum(system.arrival_rates))
    jobs = trace(system, np.random.default_rng(seed), time=2.0 * expected)[:FIRST]
    return jobs, mean_response(run(jobs, system)[0])


def cells(values: list[tuple[float, float]]) -> list[str]:
    """The ends of what was found, how many starts were worse than EQUI, and the worst policy in force."""
    longer, policies = zip(*values, strict=True)
    worse = f"{sum(x > 0.0 for x in longer)} of {len(longer)}"
    return [*(f"{x:+.2f}" for x in ends(longer)), worse, f"{max(policies):+.1f}"]


def ends(values: Sequence[float]) -> tuple[float, float, float]:
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
        for seed in seeds(chosen, 20 + what, runs):
            rng = np.random.default_rng(seed)
            enough = 2.0 * departures / float(np.sum(system.arrival_rates))
            jobs = trace(system, rng, time=enough)[:departures]
            drawn = rng if kind.startswith("exp") else None
            never = learning(system, departures=departures + 1)
            _, controller = run(jobs, system, algorithm=never, round_sizes=drawn)
            controller.learner.observe(controller.tally.close())
            controller.learner.close()
            inference = infer(controller.inference_request())
            found.append([row.parameters["p"] for row in inference.classes])
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
    parser.add_argument("--runs", type=Path, metavar="FILE", help="where traces and starts are kept")
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
