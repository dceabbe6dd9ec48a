"""What kinds of jobs do to the estimates, in virtual time: gangs, rounds with a serial part, serial first.

    python benchmarks/malleable.py [--runs N] [--departures N] [--json FILE]

Two classes, p = 0.3 and 0.8, sizes 1, load 0.7, whole cores of EQUI on 16; rates known. *Gangs* keep all z
cores for g((1−p)+p/z); *bulk* jobs work serially for (1−p)g, then on z cores, and may be resized in between;
jobs that are *serial first* do all their serial work before the rest. g is the grain, in mean sizes. All keep
the cores that they hold. Estimates are from the cores that jobs *held*, and from those that they were *told*
to hold, which they took over at the end of a round.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import corewise as cw
from benchmarks.instruments.live_starts import trace
from benchmarks.instruments.virtual_engine import VirtualEngine
from benchmarks.measure import Findings, Target, progress, table_of
from corewise.live.state.baseline import never_learning
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import SetCores
from corewise.observation import events as happened
from corewise.observation.event_tally import EventTally

CORES, LOAD, SEED = 16, 0.7, 20261118
TRUTH = {"a": 0.3, "b": 0.8}
ROWS = (("gang", 0.02), ("gang", 0.1), ("gang", 0.4), ("bulk", 0.1), ("bulk", 0.4), ("serial first", 0.1))
SYSTEM = cw.System(CORES, [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(p)) for name, p in TRUTH.items()]).at_load(
    LOAD
)


class Shaped(VirtualEngine):
    """Virtual engine with jobs of a kind, which tallies the cores that they hold, and that they were told."""

    def __init__(self, kind: str, grain: float) -> None:
        super().__init__({name: cw.Amdahl(p) for name, p in TRUTH.items()}, grain)
        self._kind, self._grain = kind, grain
        self.held, self.told = (EventTally(list(TRUTH), 0.0) for _ in range(2))

    def _begin(self, name: str) -> None:
        running = self._running.get(name)
        if running is not None and not running.working and self._kind != "gang":
            p, size = TRUTH[running.job.job_class], running.job.size
            done = size - running.left
            cycle = self._grain if self._kind == "bulk" else size
            place = math.fmod(done + 1e-12, cycle)
            serial = place < (1.0 - p) * cycle
            end = (1.0 - p) * cycle if serial else cycle
            self._next = (
                max(end - place, 1e-9) if self._kind == "bulk" else min(end - place + 1e-12, self._grain)
            )
            self._speeds[running.job.job_class] = (lambda _: 1.0) if serial else float
        super()._begin(name)

    def _round(self, job_class: str) -> float:
        return super()._round(job_class) if self._kind == "gang" else self._next

    def _tell(self, kind: type[happened.Event], *values: object) -> None:
        event = kind(self._now, str(next(self._ids)), *values)
        for tally in (self.held, self.told):
            tally.move_to(self._now)
        match event:
            case happened.JobArrived():
                for tally in (self.held, self.told):
                    tally.arrive(event.job, list(TRUTH).index(event.job_class), 0, self._now, counted=True)
            case happened.CoresHeld():
                self.held.hold(event.job, event.cores, self._now)
            case happened.JobFinished():
                for tally in (self.held, self.told):
                    tally.leave(event.job, self._now, finished=True)
        instructions = self._controller.handle(event)
        for told in instructions:
            if isinstance(told, SetCores):
                self.told.hold(told.job, told.cores, self._now)
        self._obey(instructions)


@dataclass(frozen=True)
class Row:
    """Estimates of a kind of jobs: means over runs, and their standard errors, by class."""

    kind: str
    grain: float
    held: dict[str, tuple[float, float]]
    told: dict[str, tuple[float, float]]


@dataclass
class Report(Findings):
    """Everything that was measured."""

    rows: list[Row] = field(default_factory=list)


def estimates(kind: str, grain: float, rng: np.random.Generator, departures: int) -> list[list[float]]:
    """Estimates of p of both classes, from the cores held and from those told, of one run."""
    engine = Shaped(kind, grain)
    controller = Controller(never_learning(cw.algorithm_1b(SYSTEM)), lambda _: cw.Equi(), mode="steer")
    engine.run(trace(SYSTEM, rng, time=departures / sum(SYSTEM.arrival_rates)), controller)
    found = [cw.estimate(tally.close(), SYSTEM, sizes="exponential") for tally in (engine.held, engine.told)]
    return [[one[name].value for name in TRUTH] for one in found]


def measured(kind: str, grain: float, runs: int, departures: int) -> Row:
    found = np.array(
        [estimates(kind, grain, np.random.default_rng([SEED, k]), departures) for k in range(runs)]
    )
    means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(runs)
    held, told = (
        {name: (float(means[j, i]), float(errors[j, i])) for i, name in enumerate(TRUTH)} for j in range(2)
    )
    return Row(kind, grain, held, told)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--departures", type=int, default=2000, help="of a run")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report = Report()
    table = table_of("p, estimated; the truth is 0.3 and 0.8", ("", "grain", "held", "held", "told", "told"))
    for kind, grain in ROWS:
        row = measured(kind, grain, chosen.runs, chosen.departures)
        report.rows.append(row)
        cells = [
            f"{mean:.3f} ± {error:.3f}" for part in (row.held, row.told) for mean, error in part.values()
        ]
        progress(f"{kind}, {grain:g}: {', '.join(cells)}")
        table.add_row(kind, f"{grain:g}", *cells)
        if kind == "gang" and grain <= 0.1:
            for name, (mean, error) in row.held.items():
                off = abs(mean - TRUTH[name]) / error
                report.targets.append(
                    Target(f"gang, {grain:g}, {TRUTH[name]:g}: bias in standard errors", off, 3.0, False, "")
                )
    return report.finish(chosen.json, table, width=120)


if __name__ == "__main__":
    sys.exit(main())
