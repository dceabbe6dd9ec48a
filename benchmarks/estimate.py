"""How fast is ``corewise.estimate``, next to maximum likelihood on the raw log, and what a large log costs.

    python benchmarks/estimate.py [--rounds N] [--json FILE]

The peer is what one would write first: the log-likelihood summed over every interval of a log of a million
events with NumPy, and ``scipy.optimize.minimize_scalar`` on it. It is compared with the certified fits from
the statistics, the maxima alone on both sides; all of ``corewise.estimate``, with standard errors, intervals
and arrival rates, is shown beside them.
The second part writes an event log of ten million rows, reads it back and estimates from it, and says where
the time goes. Exits with 1 if a target was missed.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter

from rich.console import Console
from rich.table import Table

from corewise.kit.arrays import Floats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from scipy.optimize import minimize_scalar

import corewise as cw
from benchmarks.measure import Findings, Target, options, progress, timed
from corewise.estimation.likelihood import Likelihood
from corewise.estimation.search import fit_curve_to
from corewise.observation.event_logs import load_events, save_events
from corewise.observation.sample_path import EventKind

EVENTS = 1_000_000
ROWS = 10_000_000
FASTER = 1000.0
REST = 0.1
"""What counting and fitting may add to the time of reading a log."""
CALLS = 200


@dataclass
class Report(Findings):
    """Everything that was measured."""

    seconds: dict[str, float] = field(default_factory=dict)
    ratio: float = 0.0
    difference: float = 0.0
    rows: int = 0
    megabytes: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)


def main() -> int:
    chosen = options("maximum likelihood next to the raw log", rounds=5)
    report = Report()
    measure_fit(report, chosen.rounds)
    measure_log(report)
    report.targets = [
        Target("faster than minimize_scalar on the raw log", report.ratio, FASTER, True, "times"),
        Target("both find the same maximum", report.difference, 1e-6, False, "difference"),
        Target(
            "counting and fitting, against reading the log",
            (report.parts["counting"] + report.parts["fitting"]) / report.parts["reading"],
            REST,
            False,
            "of it",
        ),
    ]
    return report.finish(chosen.json, lambda console: show(report, console))


def measure_fit(report: Report, rounds: int) -> None:
    """Compare the fit from statistics with the fit from a million events."""
    system = cw.load_system("paper:1")
    run = cw.simulate(system, cw.Equi(), departures=EVENTS // 2, rng=1, record=True)
    assert run.path is not None
    logs = [raw_log(run.path, i) for i in range(2)]
    rates = system.size_rates.tolist()
    ratios, ours, theirs, whole = [], [], [], []
    fits, peaks = certified_fits(run.statistics, system), [0.0, 0.0]
    for k in range(rounds):
        progress(f"round {k + 1} of {rounds}: fits")
        slow, peaks = timed(lambda: [fit_raw(*log, rate) for log, rate in zip(logs, rates, strict=True)])[0]
        calls = timed(lambda: certified_fits(run.statistics, system), CALLS)
        fits = calls[-1][1]
        ours.append(median(seconds for seconds, _ in calls))
        whole.append(median(s for s, _ in timed(lambda: cw.estimate(run.statistics, system), CALLS)))
        theirs.append(slow)
        ratios.append(slow / ours[-1])
    report.ratio = median(ratios)
    report.seconds = {
        "corewise, the certified fits": median(ours),
        "corewise, all of estimate": median(whole),
        "minimize_scalar on the log": median(theirs),
    }
    report.difference = max(abs(fit - peak) for fit, peak in zip(fits, peaks, strict=True))


def certified_fits(statistics: cw.Statistics, system: cw.System) -> list[float]:
    """Return the certified maxima of both classes, and nothing else."""
    fits = []
    for job_class, table in zip(system.classes, statistics.classes, strict=True):
        fit = fit_curve_to(Likelihood(table, job_class.speedup, job_class.size_rate))
        assert fit.certified
        fits.append(float(fit.parameters[0]))
    return fits


def raw_log(path: cw.SamplePath, i: int) -> tuple[Floats, Floats, Floats]:
    """Return width, job-time and departures of every interval in which a class has jobs."""
    jobs = path.counts[:-1, i].astype(np.float64)
    here = jobs > 0
    leaves = (path.event[1:] == EventKind.DEPARTURE) & (path.job_class[1:] == i)
    return (
        path.cores[:-1, i][here] / jobs[here],
        (jobs * np.diff(path.time))[here],
        leaves[here].astype(np.float64),
    )


def fit_raw(width: Floats, exposure: Floats, leaves: Floats, size_rate: float) -> float:
    """Return the p of Amdahl's law that maximises the likelihood of a raw log."""

    def cost(p: float) -> float:
        speed = np.minimum(width, 1.0 / (1.0 - p + p / np.maximum(width, 1.0)))
        return float(size_rate * (exposure @ speed) - leaves @ np.log(speed))

    answer = minimize_scalar(cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
    return float(answer.x)


def measure_log(report: Report) -> None:
    """Write, read, count and fit a large log."""
    system = cw.load_system("paper:1")
    progress(f"a log of {ROWS:,} rows")
    path = cw.simulate(system, cw.Equi(), departures=ROWS // 2, rng=2, record=True).path
    assert path is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "events.csv"
        steps = [("writing", perf_counter())]
        save_events(path, file)
        report.rows, report.megabytes = path.time.size, file.stat().st_size / 1e6
        del path
        steps.append(("reading", perf_counter()))
        log = load_events(file, system)
        steps.append(("counting", perf_counter()))
        statistics = cw.Statistics.of(log.path)
        steps.append(("fitting", perf_counter()))
        cw.estimate(statistics, system)
        steps.append(("", perf_counter()))
    for (name, began), (_, ended) in pairwise(steps):
        report.parts[name] = ended - began


def show(report: Report, console: Console) -> None:
    table = Table(title=f"Two curves from {EVENTS:,} events")
    for heading in ("", "time", "corewise is faster by"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, seconds in report.seconds.items():
        faster = "" if name.startswith("corewise") else f"{report.ratio:.0f} times"
        table.add_row(name, f"{1e3 * seconds:.3g} ms", faster)
    console.print(table)
    parts = Table(title=f"A log of {report.rows:,} rows, {report.megabytes:.0f} MB")
    for heading in ("", "seconds", "rows a second"):
        parts.add_column(heading, justify="right" if heading else "left")
    for name, seconds in report.parts.items():
        parts.add_row(name, f"{seconds:.3g}", "" if name == "fitting" else f"{report.rows / seconds:,.0f}")
    console.print(parts)


if __name__ == "__main__":
    sys.exit(main())
