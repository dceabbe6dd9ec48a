"""How fast is ``corewise.simulate``, next to other simulators, in one run on one machine.

    python benchmarks/simulate.py [--rounds N] [--json FILE]

Speed is events per second, an event being an arrival or a departure. In every round corewise and
each peer take turns, a ratio is taken within the round, and the median over rounds is reported.
corewise's clock covers the whole call, from the system to the statistics and the interval; a peer's covers
its loop alone. Compilation and imports happen before the clocks start, for everybody; the garbage collector
is off while they run, for everybody. Exits with 1 if a target was missed; a peer that cannot run here is said
so and left out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.chain import Model, Outcome, walk
from benchmarks.measure import Findings, Target, options, peak_megabytes, progress, timed
from benchmarks.simulators import PEERS, Peer

FASTER_THAN = {"C": 0.8, "simpy": 100.0, "ciw": 800.0}
TITLES = {"C": "the same loop in C", "simpy": "SimPy", "ciw": "Ciw"}
DEPARTURES = 10_000_000
TRIES = 3
"""Pairs of runs, corewise and a peer, in a round."""
REPLICATIONS = 32
FEW, MANY = 10**6, 10**8
"""Departures of the two runs whose memory is compared."""


@dataclass(frozen=True)
class Row:
    """One simulator: its speed, how many times faster corewise is, and whether its mean is right."""

    name: str
    package: str
    events_per_second: float
    ratio: float
    mean_jobs: float
    exact: float
    standard_errors: float


@dataclass
class Report(Findings):
    """Everything that was measured."""

    rows: list[Row] = field(default_factory=list)
    same_path_events: int = 0
    peak_megabytes: dict[int, float] = field(default_factory=dict)


def main() -> int:
    chosen = options(__doc__.partition("\n")[0], rounds=7)
    report = Report()
    # Memory first: a child's peak starts from the size of its parent, which is still small here.
    measure_memory(report)
    model = Model(cw.load_system("paper:1"), cw.Equi())
    compare_paths(report, model)
    measure_peers(report, model, chosen.rounds)
    return report.finish(chosen.json, lambda console: show(report, console))


def measure_memory(report: Report) -> None:
    """Peak resident memory of fresh processes that simulate few and many departures."""
    code = (
        "import corewise as cw\n"
        "cw.simulate(cw.load_system('paper:1'), cw.Equi(), departures=int(sys.argv[1]), rng=1)"
    )
    for departures in (1, FEW, MANY):  # the first fills the cache of compiled code
        progress(f"memory of {departures:.0e} departures, in a process of its own")
        report.peak_megabytes[departures] = peak_megabytes(code, [str(departures)])
    growth = report.peak_megabytes[MANY] - report.peak_megabytes[FEW]
    name = f"more memory for {MANY:.0e} departures than for {FEW:.0e}"
    report.targets.append(Target(name, growth, 5.0, at_least=False, unit="MB"))


def compare_paths(report: Report, model: Model, windows: int = 500, departures: int = 199) -> None:
    """C and corewise must take the same path when they get the same random numbers.

    Short windows, each with its own seed and starting where the last one ended: between longer stretches
    corewise draws their times from the same stream, which the loop in C does not.
    """
    if any(peer.package == "C" and peer.absence for peer in PEERS):
        return
    progress("the path of C against that of corewise")
    counts, classes = [0] * len(model.system.classes), len(model.system.classes)
    for seed in range(windows):
        run = cw.simulate(model.system, model.policy, departures=departures, rng=seed, start=counts)
        start = int(model.space.index(np.array(counts)))
        for inline in (False, True):
            rng = np.random.default_rng(seed)
            moves, end = walk(model, departures, rng, start=start, inline=inline)[0]
            seen = model.space.index(run.visited.T)
            totals = [number for c in run.classes.values() for number in (c.arrivals, c.departures)]
            if (
                tuple(model.space.counts[:, end].tolist()) != run.state.counts
                or set(np.flatnonzero(moves.sum(axis=1)).tolist()) != set(seen.tolist())
                or moves.sum(axis=0).reshape(2, classes).T.ravel().tolist() != totals
            ):
                raise RuntimeError(f"with seed {seed}, C and corewise go different ways from {counts}")
        counts = list(run.state.counts)
        report.same_path_events += run.events


def measure_peers(report: Report, model: Model, rounds: int) -> None:
    """Example 1 under EQUI: corewise against every peer and its own other engines, a ratio per round."""
    models: dict[str, Model] = {}
    for peer in (*OWN, *PEERS):
        if peer.absence is not None:
            progress(f"{peer.name}: {peer.absence}, left out")
            report.missing.append(peer.name)
            continue
        progress(f"warming up {peer.name}")
        own = Model(peer.stand_in(model.system), model.policy) if peer.stand_in else model
        peer.simulate(own, 1000, 0)
        models[peer.name] = own
    peers = [peer for peer in (*OWN, *PEERS) if peer.name in models]

    own_speeds: list[float] = []
    own_outcomes: list[Outcome] = []
    speeds: dict[str, list[float]] = {peer.name: [] for peer in peers}
    ratios: dict[str, list[float]] = {peer.name: [] for peer in peers}
    outcomes: dict[str, list[Outcome]] = {peer.name: [] for peer in peers}
    for seed in range(rounds):
        ours = partial(simulate_with_corewise, model, DEPARTURES, seed)
        for peer in peers:
            progress(f"round {seed + 1} of {rounds}: {peer.name}")
            theirs = partial(peer.simulate, models[peer.name], peer.departures, seed)
            pairs = [(timed(ours)[0][1], timed(theirs)[0][1]) for _ in range(TRIES)]
            fast = [run.speed for run, _ in pairs]
            slow = [run.speed for _, run in pairs]
            own_speeds += fast
            speeds[peer.name] += slow
            ratios[peer.name].append(median(fast) / median(slow))
            outcomes[peer.name].append(pairs[0][1])
        own_outcomes.append(pairs[0][0])

    report.rows.append(row("corewise", "corewise", model, own_outcomes, [1.0], own_speeds))
    for peer in peers:
        name = peer.name
        found = row(name, peer.package, models[name], outcomes[name], ratios[name], speeds[name])
        report.rows.append(found)
    judge(report)


def row(
    name: str, package: str, model: Model, outcomes: list[Outcome], ratios: list[float], speeds: list[float]
) -> Row:
    """The row of a simulator: medians of its speed, and the mean number of jobs over all rounds together."""
    time = sum(outcome.time for outcome in outcomes)
    mean = sum(outcome.mean_jobs * outcome.time for outcome in outcomes) / time
    off = (mean - model.mean_jobs) / math.sqrt(model.variance / time)
    return Row(name, package, median(speeds), median(ratios), mean, model.mean_jobs, off)


def judge(report: Report) -> None:
    """Set the targets: speed against each package's faster row, and nobody's mean may be wrong."""
    for package, bound in FASTER_THAN.items():
        found = [entry.ratio for entry in report.rows if entry.package == package]
        name = f"speed, against {TITLES[package]}" + (" (its faster row)" if len(found) > 1 else "")
        report.targets.append(Target(name, min(found, default=None), bound, at_least=True, unit="×"))
    worst = max(abs(entry.standard_errors) for entry in report.rows)
    name = "mean jobs of any row, from the exact mean"
    report.targets.append(Target(name, worst, 5.0, at_least=False, unit="standard errors"))


def simulate_with_corewise(model: Model, departures: int, seed: int) -> Outcome:
    """A window that ends on a count: the jump chain."""
    return one_call(lambda: cw.simulate(model.system, model.policy, departures=departures, rng=seed))


def simulate_by_the_clock(model: Model, departures: int, seed: int) -> Outcome:
    """A window that ends at a time: the clocked chain."""
    time = departures / float(model.system.arrival_rates.sum())
    return one_call(lambda: cw.simulate(model.system, model.policy, time=time, rng=seed))


def simulate_a_path(model: Model, departures: int, seed: int) -> Outcome:
    """Every event recorded, with the number of its job."""
    return one_call(
        lambda: cw.simulate(model.system, model.policy, departures=departures, rng=seed, record=True)
    )


def replicate_in_one_thread(model: Model, departures: int, seed: int) -> Outcome:
    """Independent replications, one after the other."""
    with ThreadPoolExecutor(1) as executor:
        return replicate(model, departures, seed, executor)


def replicate(model: Model, departures: int, seed: int, executor: Executor | None = None) -> Outcome:
    """Independent replications, on all cores unless told otherwise."""
    each = math.ceil(departures / REPLICATIONS)
    began = perf_counter()
    result = cw.replicate(
        model.system, model.policy, n=REPLICATIONS, departures=each, rng=seed, executor=executor
    )
    seconds = perf_counter() - began
    return Outcome(result.mean_jobs, sum(run.time for run in result.runs), result.events, seconds)


def one_call(call: Callable[[], cw.results.Run]) -> Outcome:
    began = perf_counter()
    run = call()
    return Outcome(run.mean_jobs, run.time, run.events, perf_counter() - began)


OWN = (
    Peer("corewise, by the clock", "corewise", simulate_by_the_clock, DEPARTURES),
    Peer("corewise, path recorded", "corewise", simulate_a_path, DEPARTURES // 20),
    Peer("replicate, one thread", "corewise", replicate_in_one_thread, DEPARTURES),
    Peer("replicate, all cores", "corewise", replicate, DEPARTURES),
)


def show(report: Report, console: Console) -> None:
    """The tables, for people."""
    table = Table(title="Example 1 under EQUI", caption="ratio: how many times faster corewise is")
    table.add_column("simulator", no_wrap=True)
    for heading in ("10⁶ events/s", "ratio", "mean jobs", "exact", "s.e. off"):
        table.add_column(heading, justify="right")
    for entry in report.rows:
        table.add_row(
            entry.name,
            f"{entry.events_per_second / 1e6:.3g}",
            f"{entry.ratio:.2f}" if entry.ratio < 10 else f"{entry.ratio:.0f}",
            f"{entry.mean_jobs:.5f}",
            f"{entry.exact:.5f}",
            f"{entry.standard_errors:+.1f}",
        )
    for name in report.missing:
        table.add_row(name, "left out")
    console.print(table)
    if report.same_path_events:
        console.print(f"C and corewise took the same path over {report.same_path_events:,} events")
    memory = (f"{count:.0e}: {size:.1f} MB" for count, size in report.peak_megabytes.items())
    console.print("peak memory by departures: " + ", ".join(memory), highlight=False)


if __name__ == "__main__":
    sys.exit(main())
