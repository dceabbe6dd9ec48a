"""How far are the lower bounds from the optimum, and what do they cost for many classes.

    python benchmarks/bounds.py [--rounds N] [--json FILE]

The first table is over random systems of two classes (loads .1 to .95, sizes to 10 : 1, p in [0, 1], families
mixed, 4 to 64 cores), `rounds` of them: by how much the optimum lies above each bound. The second is over
many classes on 100 and 1000 cores, where there is no optimum to compare with: the bounds, the simulated mean
of the Whittle policy, and by how much the upper end of its interval lies above the best of them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.measure import Findings, options, progress, table_of, timed

DEPARTURES = 2_000_000
OLD = ("fixed widths", "perfect speed-up")


@dataclass
class Report(Findings):
    """Everything that was measured."""

    slack: dict[str, list[float]] = field(default_factory=dict)
    many: list[dict[str, float]] = field(default_factory=list)


def random_pair(rng: np.random.Generator) -> cw.System:
    """Two classes of any kind."""
    cores = float(rng.integers(4, 65))
    work = rng.dirichlet([2.0, 2.0]) * rng.uniform(0.1, 0.95) * cores
    sizes = np.exp(rng.uniform(0.0, np.log(10.0), 2))
    curves = [curve_of(int(rng.integers(5)), float(rng.uniform(0.0, 1.0))) for _ in range(2)]
    return cw.System(
        cores,
        [cw.JobClass("ab"[i], float(work[i] * sizes[i]), float(sizes[i]), curves[i]) for i in range(2)],
    )


def curve_of(family: int, p: float) -> cw.SpeedUp:
    """A curve of one of five families."""
    match family:
        case 0:
            return cw.Amdahl(p)
        case 1:
            return cw.PowerLaw(p)
        case 2:
            return cw.Gustafson(p)
        case 3:
            return cw.Usl((1.0 - p) / 3.0, (1.0 - p) / 30.0)
    return cw.Tabulated([(2.0, 1.0 + 0.9 * p), (8.0, 1.0 + 4.0 * p)])


def many_classes(classes: int, cores: int, load: float, least: float) -> cw.System:
    """Amdahl classes with p spread evenly from `least` to .98."""
    rng = np.random.default_rng(classes)
    work = rng.dirichlet(np.full(classes, 2.0)) * load * cores
    sizes = np.exp(rng.uniform(0.0, np.log(10.0), classes))
    spread = np.linspace(least, 0.98, classes)
    return cw.System(
        cores,
        [
            cw.JobClass(f"c{i}", float(work[i] * sizes[i]), float(sizes[i]), cw.Amdahl(float(spread[i])))
            for i in range(classes)
        ],
    )


def compare_with_the_optimum(report: Report, rounds: int) -> None:
    rng = np.random.default_rng(1)
    for i in range(rounds):
        progress(f"system {i + 1} of {rounds}")
        system = random_pair(rng)
        optimum, bounds = cw.solve(system).mean_cost, cw.lower_bounds(system)
        best = {**bounds, "best of the first two": max(bounds[name] for name in OLD), "best": bounds.best}
        for name, bound in best.items():
            report.slack.setdefault(name, []).append(optimum / bound - 1.0)


def look_at_many_classes(report: Report) -> None:
    for least, classes, cores, load in product((0.02, 0.9), (10, 50, 200), (100, 1000), (0.5, 0.7, 0.9)):
        progress(f"{classes} classes on {cores} cores, load {load}, p from {least}")
        system = many_classes(classes, cores, load, least)
        ((seconds, bounds),) = timed(lambda system=system: cw.lower_bounds(system))  # type: ignore[misc]
        start = cw.simulate(system, cw.Whittle(), departures=DEPARTURES // 5, rng=1).state
        run = cw.simulate(system, cw.Whittle(), departures=DEPARTURES, rng=2, start=start)
        report.many.append(
            {
                "least p": least,
                "classes": classes,
                "cores": cores,
                "load": load,
                "fixed widths": bounds["fixed widths"],
                "best": bounds.best,
                "seconds": seconds,
                "whittle": run.mean_jobs,
                "gap": run.interval[1] / bounds.best - 1.0,
            }
        )


def main() -> None:
    chosen = options(__doc__.splitlines()[0], 100)
    report = Report()
    cw.lower_bounds(cw.load_system("paper:1"))  # compiled before the clock starts
    compare_with_the_optimum(report, chosen.rounds)
    look_at_many_classes(report)
    slack = table_of("The optimum above each bound, two classes", ("", "mean", "95 %", "worst"))
    for name, values in report.slack.items():
        figures = (np.mean(values), np.percentile(values, 95), np.max(values))
        slack.add_row(name, *(f"{figure:.2%}" for figure in figures))
    many = table_of(
        "Many classes; the gap is certified",
        ("p from", "K", "cores", "load", "fixed", "best", "seconds", "Whittle", "gap"),
    )
    for row in report.many:
        *cells, gap = row.values()
        many.add_row(*(f"{cell:.4g}" for cell in cells), f"{gap:.2%}")
    report.finish(chosen.json, slack, many)


if __name__ == "__main__":
    main()
