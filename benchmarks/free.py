"""Curves without a family: errors on measured curves beside those of the families, cost, and their bands.

    python benchmarks/free.py [--runs N] [--data DIR] [--json FILE]

One class with a measured curve (the concave majorant of its points) at load 0.5 under EQUI, on as many cores
as its throughput rises to: beyond, the majorant is not what was measured. Sizes are exponential and their
rate known. After 1e4 and 1e5 departures: the root mean square of log(ŝ/s), weighted by departures,
of the free curve and of the one that ``auto`` chooses among the families alone; milliseconds of a free fit;
and how often the simultaneous 95 % band holds the whole curve after 1e3 departures. Curves are read from DIR
(default ``../shared/data`` beside the checkout); those of the families need none.

Targets: on measured curves an error of at most 0.7 times that of the best family at 1e4 departures, 5 ms a
fit at most, and a coverage of 0.95 within binomial error. Exits with 1 if one was missed.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.measure import ROOT, Findings, Target, progress, table_of
from corewise.estimation.free import FreeFit, band_of
from corewise.observation.statistics import ClassStatistics

LENGTHS = (10_000, 100_000)
FAMILIES = ("amdahl", "power", "usl")
FAMILY_TRUTHS: dict[str, tuple[float, cw.SpeedUp]] = {
    "Amdahl 0.8": (16.0, cw.Amdahl(0.8)),
    "power 0.6": (16.0, cw.PowerLaw(0.6)),
}


@dataclass
class Row:
    """What was measured of one true curve."""

    curve: str
    measured: bool
    free: dict[int, float]
    family: dict[int, float]
    milliseconds: float
    covered: float


@dataclass
class Report(Findings):
    """Everything that was measured."""

    rows: list[Row] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report = Report()
    truths = measured_curves(chosen.data)
    if not truths:
        report.missing.append(f"measured curves: nothing in {chosen.data}")
    for name, (cores, curve) in {**truths, **FAMILY_TRUTHS}.items():
        report.rows.append(measured(name, name in truths, cores, curve, chosen.runs))
        progress(str(report.rows[-1]))
    ratios = [row.free[LENGTHS[0]] / row.family[LENGTHS[0]] for row in report.rows if row.measured]
    covered = float(np.mean([row.covered for row in report.rows]))
    report.targets += [
        Target("error over the families' at 1e4, measured curves", max(ratios, default=None), 0.7, False, ""),
        Target("ms a fit", max(row.milliseconds for row in report.rows), 5.0, False, "ms"),
        Target("coverage of the band", covered, 0.95 - 0.04, True, ""),
    ]
    return report.finish(chosen.json, table(report))


def measured(name: str, is_measured: bool, cores: float, curve: cw.SpeedUp, runs: int) -> Row:
    """Return errors, costs and coverage for one true curve."""
    system = cw.System(cores, [cw.JobClass("a", 1.0, 1.0, curve)]).at_load(0.5)
    free: dict[int, list[float]] = {n: [] for n in LENGTHS}
    family: dict[int, list[float]] = {n: [] for n in LENGTHS}
    spent = []
    for n in LENGTHS:
        for seed in range(runs):
            seen = cw.simulate(system, cw.Equi(), departures=n, rng=seed).statistics
            began = process_time()
            fit = FreeFit.of(seen["a"], 1.0)
            spent.append(process_time() - began)
            free[n].append(error(fit.curve, curve, seen["a"]))
            found = [cw.estimate(seen, system, family=one)["a"] for one in FAMILIES]
            best = min(found, key=lambda row: -2.0 * row.log_likelihood + len(row.parameters) * np.log(n))
            family[n].append(error(best.curve or curve, curve, seen["a"]))
    return Row(
        name,
        is_measured,
        {n: float(np.mean(values)) for n, values in free.items()},
        {n: float(np.mean(values)) for n, values in family.items()},
        1000.0 * float(np.median(spent)),
        coverage(system, curve, 4 * runs),
    )


def error(found: cw.SpeedUp, truth: cw.SpeedUp, seen: ClassStatistics) -> float:
    """Return the root mean square of log(ŝ/s), weighted by departures."""
    logs = np.log(found.rate(seen.widths) / truth.rate(seen.widths))
    return float(np.sqrt(np.average(logs**2, weights=seen.departures)))


def coverage(system: cw.System, curve: cw.SpeedUp, runs: int) -> float:
    """Return how often a band holds the whole curve, up to the widest job."""
    held = 0
    for seed in range(runs):
        fit = FreeFit.of(
            cw.simulate(system, cw.Equi(), departures=1000, rng=1000 + seed).statistics["a"], 1.0
        )
        z = np.geomspace(1.0, fit.widths[-1], 80)
        low, high = band_of(fit, 0.95).at(z)
        held += bool(np.all((low <= curve.rate(z) + 1e-9) & (curve.rate(z) <= high + 1e-9)))
    return held / runs


def measured_curves(data: Path) -> dict[str, tuple[float, cw.SpeedUp]]:
    """Return the measured curves with the cores they were measured on; none if they are not there."""
    files = {
        "ray tracer": (data / "usl" / "raytracer.csv", "processors"),
        "SPEC SDM91": (data / "usl" / "specsdm91.csv", "load"),
    }
    found: dict[str, tuple[float, cw.SpeedUp]] = {}
    for name, (file, column) in files.items():
        if file.exists():
            rows = list(csv.DictReader(file.read_text().splitlines()))
            pairs = sorted((float(row[column]), float(row["throughput"])) for row in rows)
            found[name] = (peak(pairs), majorant(pairs))
    for app, batch, most in (("cifar10", 512, 16), ("deepspeech2", 80, 8), ("imagenet", 160, 8)):
        file = data / "pollux-osdi21" / f"{app}-scalability.csv"
        pairs = strong_scaling(file, batch, most) if file.exists() else []
        if len(pairs) > 2:
            found[f"Pollux {app}"] = (peak(pairs), majorant(pairs))
    return found


def peak(pairs: list[tuple[float, float]]) -> float:
    """Return the cores with the highest throughput."""
    return max(pairs, key=lambda pair: pair[1])[0]


def strong_scaling(file: Path, batch: int, most: int) -> list[tuple[float, float]]:
    """Return (GPUs, throughput) for a fixed batch size, interpolated between measured ones of a replica."""
    steps: dict[int, dict[int, float]] = {}
    for row in csv.DictReader(file.read_text().splitlines()):
        own = steps.setdefault(int(row["num_replicas"]), {})
        size, time = int(row["local_bsz"]), float(row["step_time"])
        own[size] = min(time, own.get(size, np.inf))
    pairs: list[tuple[float, float]] = []
    for replicas, own in sorted(steps.items()):
        sizes = sorted(own)
        if replicas <= most and sizes[0] <= batch / replicas <= sizes[-1]:
            pairs.append(
                (float(replicas), 1.0 / float(np.interp(batch / replicas, sizes, [own[s] for s in sizes])))
            )
    return pairs


def majorant(pairs: list[tuple[float, float]]) -> cw.SpeedUp:
    """Return the concave majorant of points, over the throughput of the first at a speed-up of its cores."""
    cores, throughput = pairs[0]
    scale = throughput / cores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cw.Tabulated([(1.0, 1.0), *((at, rate / scale) for at, rate in pairs if at > 1.0)])


def table(report: Report) -> Table:
    """Return what was found, for people."""
    heads = [f"{what}\n{n:,}" for n in LENGTHS for what in ("free", "families")]
    made = table_of("RMS of log(ŝ/s) in %, weighted by departures", ["", *heads, "ms\na fit", "band\nholds"])
    for row in report.rows:
        errors = [f"{100 * part[n]:.2f}" for n in LENGTHS for part in (row.free, row.family)]
        made.add_row(row.curve, *errors, f"{row.milliseconds:.2f}", f"{row.covered:.2f}")
    return made


if __name__ == "__main__":
    sys.exit(main())
