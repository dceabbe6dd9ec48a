"""Sizes of any law: bias, error and coverage of estimates, false alarms, and the test of the law of sizes.

    python benchmarks/sizes.py [--only TEXT …] [--repetitions 1000] [--processes 2] [--journal FILE]

Estimates: 8 laws, Examples 1-3 at loads 0.1, 0.5 and 0.8, under EQUI and the optimum, the default estimator
beside the exponential likelihood on the same logs. Alarms: the change detector where nothing changes, an
alarm promised in 1e5 departures; delays at exponential sizes with and without the dispersion. Fit: p-values
of the test of sizes. A cell is printed when it is done, and kept in the journal, from which a run that was
stopped goes on; `--only` takes parts of the names of cells, such as `lognormal` or `alarms`. Exits with 1 if
a target was missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any
from zlib import crc32

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from scipy import stats

import corewise as cw
from benchmarks.measure import Findings, Target, progress, table_of, targets_table
from corewise.estimation.changes.detector import ChangeDetector
from corewise.learning.plant import Plant
from corewise.model.sizes import (
    Deterministic,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
    Pareto,
    SizeLaw,
    Weibull,
)
from corewise.policies.base import bind

LAWS: dict[str, SizeLaw] = {
    "exponential": Exponential(),
    "erlang 1/4": Erlang(4),
    "hyperexponential 4": Hyperexponential(4.0),
    "lognormal 4": Lognormal(4.0),
    "weibull 5": Weibull(0.5),
    "hyperexponential 16": Hyperexponential(16.0),
    "deterministic": Deterministic(),
    "pareto": Pareto(1.5),
}
BESIDE = ("deterministic", "pareto")
"""Laws that are reported, and not held to the targets."""

LOADS, RULES = (0.1, 0.5, 0.8), ("equi", "optimal")
COVERAGE = (0.91, 0.98)
MOST_BIAS = 0.3
ALIKE = 1.05
BELOW = 1.01
"""At load 0.1 the mean size is all there is to learn from, and both estimates are the same but for noise."""

BETWEEN, EVERY, AT_A_TIME = 1e5, 200, 1_000_000
"""Departures between false alarms, of a check, and of one path that is watched."""

ALARMS = ((1, 0.1, "optimal"), (2, 0.5, "optimal"), (2, 0.8, "equi"))
Row = dict[str, Any]


@dataclass(frozen=True)
class Extent:
    """How much is simulated."""

    repetitions: int
    departures: int
    watched: int


@dataclass
class Report(Findings):
    """Everything that was measured."""

    rows: list[Row] = field(default_factory=list)


def system_of(example: int, load: float, law: str) -> cw.System:
    system = cw.load_system(f"paper:{example}").at_load(load)
    return cw.System(system.cores, [replace(known, sizes=LAWS[law]) for known in system.classes])


def policy_of(system: cw.System, rule: str) -> cw.Policy | str:
    return cw.solve(system.as_memoryless()).policy if rule == "optimal" else rule


def logs(system: cw.System, rule: str, extent: Extent) -> Iterator[cw.SamplePath]:
    policy, of_cell = policy_of(system, rule), crc32(f"{system.load:.6f} {system.classes} {rule}".encode())
    for seed in range(extent.repetitions):
        rng = np.random.default_rng([16, of_cell, seed])  # with the same sizes, all cells would err alike
        run = cw.simulate(system, policy, departures=extent.departures, rng=rng, record=True)
        assert run.path is not None
        yield run.path


def estimates(example: int, load: float, rule: str, law: str, extent: Extent) -> list[Row]:
    """Return how good estimates are, one row a class."""
    system = system_of(example, load, law)
    known, began = system.as_memoryless(), process_time()
    found: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in known.names}
    for path in logs(system, rule, extent):
        robust, likelihood = (cw.estimate(seen, known) for seen in (path, cw.Statistics.of(path)))
        for name, row in robust.items():
            found[name].append((row.value, *row.interval, likelihood[name].value))
    rows = []
    for name, values in found.items():
        truth = known[name].speedup.parameters["p"]
        at, low, high, other = np.array(values).T
        rows.append(
            {
                "class": name,
                "bias": float(np.mean(at - truth) / np.std(at)),
                "rmse": float(np.sqrt(np.mean((at - truth) ** 2))),
                "rmse_exponential": float(np.sqrt(np.mean((other - truth) ** 2))),
                "coverage": float(np.mean((low <= truth + 1e-9) & (truth - 1e-9 <= high))),
                "repetitions": len(values),
                "seconds": process_time() - began,
            }
        )
    return rows


def alarms(example: int, load: float, rule: str, law: str, extent: Extent) -> list[Row]:
    """Return how many false alarms there were, with thresholds that know of the dispersion."""
    system = system_of(example, load, law)
    policy, known = policy_of(system, rule), system.as_memoryless()

    def plants() -> Iterator[tuple[Plant, ChangeDetector]]:
        for seed in seeds(extent):
            run = cw.simulate(system, policy, departures=AT_A_TIME, rng=seed, record=True)
            assert run.path is not None
            plant = cw.ReplayPlant(run.path)
            plant.attend(known)
            yield plant, ChangeDetector(known, BETWEEN)

    return [watched(plants(), cw.Equi())]


def alarms_without_rates(example: int, load: float, rule: str, extent: Extent) -> list[Row]:
    """Return how many false alarms there were at exponential sizes, if no rate is known."""
    system = system_of(example, load, "exponential")
    policy, known = policy_of(system, rule), system.without_rates()
    plants = ((cw.SimulatedPlant(system, rng=seed), ChangeDetector(known, BETWEEN)) for seed in seeds(extent))
    return [watched(plants, policy)]


def seeds(extent: Extent) -> range:
    return range(16, 16 + max(extent.watched // AT_A_TIME, 1))


def watched(plants: Iterable[tuple[Plant, ChangeDetector]], policy: cw.Policy | str) -> Row:
    """Return how many alarms detectors raised where nothing changed, and how many of them they took back.

    All count, also those that were retracted later.
    """
    found, retracted, promised = 0, 0, 0.0
    for plant, fresh in plants:
        detector, seen = fresh, dict[tuple[str, float], str]()
        bound = bind(policy, detector.system)
        for _ in range(AT_A_TIME // EVERY):
            detector, raised = detector.observe(plant.run(bound, EVERY))
            seen |= {(alarm.name, alarm.departures): alarm.kind for alarm in raised}
        found += len(seen)
        retracted += sum(kind == "none" for kind in seen.values())
        promised += AT_A_TIME / BETWEEN
    return {"alarms": found, "taken back": retracted, "promised": promised}


def delays(extent: Extent) -> list[Row]:
    """Return how late a change is found at exponential sizes, with the dispersion estimated and without."""
    system = cw.load_system("paper:2").at_load(0.5)
    before = 4000.0 / float(system.arrival_rates.sum())
    jump = cw.System(system.cores, system.classes, [cw.Change(before, "two", cw.Amdahl(0.7))])
    late: dict[str, list[float]] = {"estimated": [], "exponential": []}
    for seed in range(min(extent.repetitions, 100)):
        rng = np.random.default_rng([17, seed])
        run = cw.simulate(jump, "equi", departures=10_000, rng=rng, record=True)
        assert run.path is not None
        for dispersion, mine in late.items():
            plant, detector = cw.ReplayPlant(run.path), ChangeDetector(system, 1e6, dispersion=dispersion)
            plant.attend(system)
            raised: tuple[cw.results.Alarm, ...] = ()
            while not raised and plant.left:
                detector, raised = detector.observe(plant.run(cw.Equi(), EVERY))
            mine.append(detector.departures - 4000.0)
    return [{name: float(np.mean(mine)) for name, mine in late.items()}]


def fit(example: int, load: float, law: str, extent: Extent) -> list[Row]:
    """Return p-values of the test of sizes, on logs of 300 departures with an estimated curve."""
    system = system_of(example, load, law)
    known = system.as_memoryless()
    p_values: dict[str, list[float]] = {name: [] for name in known.names}
    for path in logs(system, "equi", replace(extent, departures=300)):
        verdicts = cw.goodness_of_fit(path, known, cw.estimate(path, known))
        for name, verdict in verdicts.items():
            p_values[name] += [verdict.p_values["sizes"]] if "sizes" in verdict.p_values else []
    return [
        {
            "class": name,
            "logs": len(values),
            "rejected": float(np.mean(np.array(values) < 0.01)),
            "uniform": float(stats.kstest(values, "uniform").pvalue),
        }
        for name, values in p_values.items()
    ]


def cells(extent: Extent) -> dict[str, Callable[[], list[Row]]]:
    """Return everything there is to measure, by name."""
    wanted: dict[str, Callable[[], list[Row]]] = {}
    for law in LAWS:
        for example in (1, 2, 3):
            for load in LOADS:
                for rule in RULES:
                    name = f"estimates: {law}, example {example}, load {load}, {rule}"
                    wanted[name] = partial(estimates, example, load, rule, law, extent)
    for law in ("exponential", "hyperexponential 4", "lognormal 4", "hyperexponential 16"):
        for example, load, rule in ALARMS:
            name = f"alarms: {law}, example {example}, load {load}, {rule}"
            wanted[name] = partial(alarms, example, load, rule, law, extent)
    for example, load, rule in ALARMS:
        name = f"alarms: no rates, example {example}, load {load}, {rule}"
        wanted[name] = partial(alarms_without_rates, example, load, rule, extent)
    wanted["delays: exponential"] = partial(delays, extent)
    for law in ("exponential", "hyperexponential 4", "erlang 1/4"):
        for example, load in ((1, 0.1), (2, 0.7)):
            wanted[f"fit: {law}, example {example}, load {load}"] = partial(fit, example, load, law, extent)
    return wanted


def targets_of(name: str, row: Row) -> Iterator[Target]:
    """Yield what a row must show."""
    kind, law = name.split(": ", maxsplit=1)[0], name.split(": ")[1].split(", ", maxsplit=1)[0]
    what = f"{name} {row.get('class', '')}".strip()
    if kind == "estimates" and law not in BESIDE:
        yield Target(f"coverage, {what}", row["coverage"], COVERAGE[0], True, "")
        yield Target(f"coverage, {what}", row["coverage"], COVERAGE[1], False, "")
        yield Target(f"bias, {what}", abs(row["bias"]), MOST_BIAS, False, "sd")
        if law != "erlang 1/4":
            most = ALIKE if law == "exponential" else BELOW
            yield Target(f"rmse, {what}", row["rmse"] / row["rmse_exponential"], most, False, "times")
    if kind == "alarms":
        low, high = (float(stats.poisson.ppf(chance, row["promised"])) for chance in (0.005, 0.995))
        yield Target(what, row["alarms"], low, True, "")
        yield Target(what, row["alarms"], high, False, "")
    if kind == "delays":
        yield Target(what, row["estimated"] / row["exponential"], 1.03, False, "times")
    if kind == "fit":
        tested = (row["uniform"], 0.001) if law == "exponential" else (row["rejected"], 0.75)
        yield Target(what, *tested, True, "")


def shown(row: Row) -> str:
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], metavar="TEXT", help="parts of the names of cells")
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--departures", type=int, default=5000, help="of a log")
    parser.add_argument("--watched", type=int, default=5_000_000, help="departures watched for false alarms")
    parser.add_argument("--processes", type=int, default=2, help="cells that are measured at a time")
    parser.add_argument("--journal", type=Path, metavar="FILE", help="where cells are kept, one a line")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE as well")
    chosen = parser.parse_args()
    extent = Extent(chosen.repetitions, chosen.departures, chosen.watched)
    wanted = {
        name: cell
        for name, cell in cells(extent).items()
        if not chosen.only or any(text in name for text in chosen.only)
    }
    report, done = Report(), read_journal(chosen.journal)
    with ProcessPoolExecutor(chosen.processes) as pool:
        waiting = {pool.submit(cell): name for name, cell in wanted.items() if name not in done}
        for future in as_completed(waiting):
            name = waiting[future]
            done[name] = future.result()
            for row in done[name]:
                progress(f"{name}: {shown(row)}")
            if chosen.journal:
                with chosen.journal.open("a") as file:
                    file.write(json.dumps({"cell": name, "rows": done[name]}) + "\n")
    for name in wanted:
        report.rows += [{"cell": name, **row} for row in done[name]]
        report.targets += [target for row in done[name] for target in targets_of(name, row)]
    show(report, Console())
    if chosen.json:
        report.write(chosen.json)
    return 1 if report.missed else 0


def read_journal(file: Path | None) -> dict[str, list[Row]]:
    """Return the cells that an earlier run has measured."""
    if file is None or not file.exists():
        return {}
    lines = map(json.loads, file.read_text().splitlines())
    return {line["cell"]: line["rows"] for line in lines}


def show(report: Report, console: Console) -> None:
    kept = [row for row in report.rows if row["cell"].startswith("estimates")]
    table = table_of("Estimates, worst and best over all cells of a law", ("law", "coverage", "bias", "rmse"))
    for law in LAWS:
        mine = [row for row in kept if row["cell"].split(": ")[1].startswith(law + ",")]
        if mine:
            cover = [row["coverage"] for row in mine]
            ratio = [row["rmse"] / row["rmse_exponential"] for row in mine]
            bias = max((row["bias"] for row in mine), key=abs)
            ranges = (
                f"{min(cover):.3f}-{max(cover):.3f}",
                f"{bias:+.2f}",
                f"{min(ratio):.2f}-{max(ratio):.2f}",
            )
            table.add_row(law, *ranges)
    console.print(table)
    missed = [target for target in report.targets if target.met is False]
    console.print(targets_table(missed) if missed else f"all {len(report.targets)} targets met")


if __name__ == "__main__":
    sys.exit(main())
