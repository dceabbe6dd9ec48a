"""How soon changes are found, how often those that never were, and whether the thresholds are right.

    python benchmarks/change.py [--quick] [--json FILE] [--plot PNG]

Calibration: the constants of the thresholds, from buckets of normal scores. False alarms: the detector on
simulated systems that do not change. Delays: the four changes of the paper's schedule, beside CUSUM that
knows them beforehand and has as many false alarms; and how delays grow as false alarms become rarer. Exits
with 1 if a target was missed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from numba import njit
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from scipy import stats

import corewise as cw
from benchmarks.instruments.cusum import Jump, cusum_delays, cusum_height
from benchmarks.instruments.detection import (
    DelayCurve,
    FalseAlarms,
    delay_curve,
    detection_delays,
    false_alarms,
)
from benchmarks.instruments.figure import delay_figure
from benchmarks.measure import Findings, Target, progress, table_of, targets_table
from corewise.estimation.changes._kernels import append_bucket
from corewise.plots.style import save_figure

SLOWER = 1.8
"""The median delay of the detector, over the mean delay of CUSUM."""

BETWEEN = 1e6
"""Departures between false alarms."""

OFTEN = 1e5
"""The same where alarms that follow from one another would be seen, as there are many."""

OF_EACH_SIZE = 4
"""Buckets, as in `corewise.estimation.changes.buckets`."""

DRAWN = 2
"""The change of the schedule whose delays are drawn against the rate of false alarms."""


@dataclass(frozen=True)
class Extent:
    """How much is simulated."""

    heights: tuple[float, ...]
    alarms: int
    departures: int
    chunks: int
    often: int
    repetitions: int
    between: tuple[float, ...]
    before: int


FULL = Extent((8.0, 10.0, 12.0), 1000, 100_000_000, 8, 5_000_000, 250, (1e5, 1e6, 1e7, 1e8), 1000)
QUICK = Extent((6.0, 7.0, 8.0), 500, 1_000_000, 2, 500_000, 40, (1e5, 1e8), 200)


@dataclass(frozen=True)
class Constant:
    """c_P at one height, with its standard error."""

    parameters: int
    height: float
    value: float
    stderr: float


@dataclass(frozen=True)
class AlarmRow:
    """False alarms on one system: promised and found, by what they were found with and as they were named."""

    system: str
    between: float
    departures: int
    promised: float
    found: int
    tests: dict[str, int]
    kinds: dict[str, int]


@dataclass(frozen=True)
class DelayRow:
    """Delays of one change, in departures of all classes."""

    change: str
    information: float
    median: float
    mean: float
    cusum: float
    cusum_stderr: float
    ratio: float
    repetitions: int


@dataclass
class Report(Findings):
    """Everything that was measured."""

    constants: list[Constant] = field(default_factory=list)
    alarms: list[AlarmRow] = field(default_factory=list)
    between: float = BETWEEN
    delays: list[DelayRow] = field(default_factory=list)
    growth: dict[str, Any] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="about a minute, with rough numbers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE as well")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw how delays grow")
    chosen = parser.parse_args()
    extent, report = QUICK if chosen.quick else FULL, Report()
    with ProcessPoolExecutor(2) as pool:
        calibrate(report, extent, pool)
        count_alarms(report, extent, pool)
        measure_delays(report, extent, pool)
        (curve,) = pool.map(partial(growing_delays, extent), [paper_changes()[DRAWN - 1]])
    report.growth = {
        "change": curve.name,
        "between": curve.between.tolist(),
        "detector": curve.detector.tolist(),
        "cusum": curve.cusum.tolist(),
        "slopes": dict(zip(("detector", "cusum"), curve.slopes, strict=True)),
        "theory": 1.0 / curve.information,
    }
    show(report, Console())
    if chosen.plot:
        save_figure(delay_figure(curve), chosen.plot)
    if chosen.json:
        report.write(chosen.json)
    return 1 if report.missed else 0


# --- the thresholds -----------------------------------------------------------------------------------------


@njit(cache=True)
def alarms_of_normals(
    rng: np.random.Generator, parameters: int, most: int, height: float, checks: int
) -> int:
    """Count alarms of the detector if the scores of checks are independent and normal, with unit variance."""
    room = 64 * most
    sizes, rows = np.empty(room, dtype=np.int64), np.empty((room, parameters))
    wider_sizes, wider = np.empty(room, dtype=np.int64), np.empty((room, parameters))
    row, later, whole = np.empty(parameters), np.empty(parameters), np.empty(parameters)
    count, alarms = 0, 0
    for _ in range(checks):
        for p in range(parameters):
            row[p] = rng.standard_normal()
        count = append_bucket(sizes[:count], rows[:count], most, row, wider_sizes, wider)
        sizes, wider_sizes = wider_sizes, sizes
        rows, wider = wider, rows
        whole[:], later[:] = 0.0, 0.0
        total, size, largest = 0.0, 0.0, 0.0
        for b in range(count):
            total += sizes[b]
            for p in range(parameters):
                whole[p] += rows[b, p]
        for b in range(count - 1, 0, -1):
            size += sizes[b]
            square = 0.0
            for p in range(parameters):
                later[p] += rows[b, p]
                square += (total * later[p] - size * whole[p]) ** 2
            largest = max(largest, square / (size * (total - size)))
        if 0.5 * largest / total >= height:
            alarms += 1
            count = 0
    return alarms


def constant(alarms: int, case: tuple[int, float]) -> Constant:
    """Return c_P at a height from about so many alarms."""
    parameters, height = case
    rest = height - 0.5 * parameters * math.log(height)
    checks = int(alarms * math.exp(rest + 1.0))
    rng = np.random.default_rng([parameters, int(10 * height)])
    found = alarms_of_normals(rng, parameters, OF_EACH_SIZE, height, checks)
    return Constant(parameters, height, math.log(checks / found) - rest, 1.0 / math.sqrt(found))


def calibrate(report: Report, extent: Extent, pool: ProcessPoolExecutor) -> None:
    progress("calibration")
    cases = [(parameters, height) for parameters in (1, 2, 3) for height in extent.heights]
    report.constants = list(pool.map(partial(constant, extent.alarms), cases))


# --- false alarms -------------------------------------------------------------------------------------------


def stationary_systems() -> dict[str, cw.System]:
    return {
        "paper:drift": cw.load_system("paper:drift").regime(0),
        "paper:1, load 0.7": cw.load_system("paper:1").at_load(0.7),
    }


def some_alarms(case: tuple[str, float, int, int]) -> FalseAlarms:
    """Return the false alarms of one stretch of simulation."""
    name, between, departures, seed = case
    system = stationary_systems()[name]
    policy = cw.solve(system).policy
    rng = np.random.default_rng([11, seed])
    return false_alarms(system, policy, between_alarms=between, departures=departures, rng=rng)


def row_of(name: str, found: FalseAlarms) -> AlarmRow:
    """Return the alarms in numbers; a class's tests of curve and size rate are told by their thresholds."""
    lowest = min((alarm.threshold for alarm in found.alarms), default=0.0)
    tests = Counter(
        "arrival rate"
        if alarm.kind == "arrival rate"
        else "curve"
        if math.isclose(alarm.threshold, lowest)
        else "size rate"
        for alarm in found.alarms
    )
    counts = (found.departures, found.promised, len(found.alarms))
    return AlarmRow(name, found.between_alarms, *counts, dict(tests), dict(found.kinds))


def count_alarms(report: Report, extent: Extent, pool: ProcessPoolExecutor) -> None:
    """Count false alarms, rare ones and frequent ones; hold the former to what was promised."""
    progress("false alarms")
    names = list(stationary_systems())
    share = extent.departures // extent.chunks
    cases = [(names[k % 2], BETWEEN, share, k) for k in range(extent.chunks)]
    cases += [(name, OFTEN, extent.often, 100 + i) for i, name in enumerate(names)]
    totals: dict[tuple[str, float], FalseAlarms] = {}
    for case, found in zip(cases, pool.map(some_alarms, cases), strict=True):
        name, between, *_ = case
        key = (name, between)
        totals[key] = totals[key] + found if key in totals else found
        progress(f"  {name}: {len(found.alarms)} alarms, {found.promised:g} promised")
    report.alarms = [row_of(name, found) for (name, _), found in totals.items()]
    rows = [row for row in report.alarms if row.between == BETWEEN]
    promised, count = sum(row.promised for row in rows), sum(row.found for row in rows)
    low, high = (float(stats.poisson.ppf(chance, promised)) for chance in (0.005, 0.995))
    report.between = sum(row.departures for row in rows) / max(count, 1)
    what = f"false alarms, {promised:g} promised (99 %)"
    report.targets += [Target(what, count, low, True, ""), Target(what, count, high, False, "")]


# --- delays -------------------------------------------------------------------------------------------------


def paper_changes() -> list[Jump]:
    """Return the four changes of the paper's schedule, each under the policy that was optimal before it."""
    system = cw.load_system("paper:drift")
    jumps = []
    for change in system.changes:
        old = system.regime(math.nextafter(change.time, 0.0))
        jumps.append(Jump(old, cw.solve(old).policy, change.name, change.speedup))
    return jumps


def delays_of(extent: Extent, between: float, position: int) -> DelayRow:
    """Return the delays of one change, with CUSUM at a rate of false alarms that was measured."""
    jump, count = paper_changes()[position], extent.repetitions
    rng = np.random.default_rng([7, position])
    ours = detection_delays(jump, between_alarms=BETWEEN, repetitions=count, before=extent.before, rng=rng)
    height = cusum_height(jump, between=between, rng=rng)
    theirs = cusum_delays(jump, height=height, repetitions=10 * count, rng=rng)
    old = jump.system[jump.name].speedup
    return DelayRow(
        f"{jump.name}: {old.parameters['p']:g} → {jump.after.parameters['p']:g}",
        jump.information,
        float(np.median(ours)),
        float(ours.mean()),
        float(theirs.mean()),
        float(theirs.std() / math.sqrt(theirs.size)),
        float(np.median(ours) / theirs.mean()),
        count,
    )


def measure_delays(report: Report, extent: Extent, pool: ProcessPoolExecutor) -> None:
    progress("delays")
    report.delays = list(pool.map(partial(delays_of, extent, report.between), range(4)))
    report.targets += [
        Target(f"delay over CUSUM's, {row.change}", row.ratio, SLOWER, False, "times")
        for row in report.delays
    ]


def growing_delays(extent: Extent, jump: Jump) -> DelayCurve:
    """Return delays against the rate of false alarms."""
    return delay_curve(
        jump, between=extent.between, repetitions=extent.repetitions, before=extent.before, rng=11
    )


# --- for people ---------------------------------------------------------------------------------------------


def show(report: Report, console: Console) -> None:
    table = table_of("Constants of the thresholds", ("parameters", "height", "constant", "standard error"))
    for row in report.constants:
        table.add_row(str(row.parameters), f"{row.height:g}", f"{row.value:.3f}", f"{row.stderr:.3f}")
    console.print(table)

    headings = ("", "γ", "promised", "found", "curve", "size", "arrivals")
    table = table_of("False alarms, and by which test", headings)
    for alarms in report.alarms:
        tests = (str(alarms.tests.get(test, 0)) for test in ("curve", "size rate", "arrival rate"))
        table.add_row(
            alarms.system, f"{alarms.between:.0e}", f"{alarms.promised:g}", str(alarms.found), *tests
        )
    console.print(table)

    table = table_of(
        f"Delays in departures, {report.between:,.0f} between false alarms",
        ("", "median", "mean", "CUSUM", "± s.e.", "ratio", "log γ/I"),
    )
    for delay in report.delays:
        first_order = math.log(report.between) / delay.information
        numbers = (delay.median, delay.mean, delay.cusum, delay.cusum_stderr)
        cells = [f"{number:.0f}" for number in numbers]
        table.add_row(delay.change, *cells, f"{delay.ratio:.2f}", f"{first_order:.0f}")
    console.print(table)

    growth = report.growth
    table = table_of("Mean delays as false alarms become rarer", ("γ", "detector", "CUSUM"))
    for between, *means in zip(growth["between"], growth["detector"], growth["cusum"], strict=True):
        table.add_row(f"{between:.0e}", *(f"{mean:.0f}" for mean in means))
    slopes = growth["slopes"]
    table.caption = (
        f"slope in log γ: detector {slopes['detector']:.0f}, CUSUM {slopes['cusum']:.0f}, "
        f"1/I = {growth['theory']:.0f}"
    )
    console.print(table)
    console.print(targets_table(report.targets))


if __name__ == "__main__":
    sys.exit(main())
