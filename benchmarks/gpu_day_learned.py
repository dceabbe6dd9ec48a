"""A day on a GPU cluster with nothing known at first: `Scheduler` alone, from what jobs report.

    python benchmarks/gpu_day_learned.py FOLDER [--workloads 1,2,3] [--seeds 3] [--plot PNG] [--json FILE]

The simulator, the data and what is not equal are those of ``benchmarks/gpu_day.py``. Every job reports its
progress in the unit of its application every 60 s, and nothing else: no fractions, no step times, no sizes.
GPUs are taken anywhere. Rows:

- EQUI, followed at every decision, and job-index with true curves and remaining work, as bounds;
- learned: nothing is known at first;
- with another day's history: what the scheduler had seen by the end of the next workload;
- without pooling: every job learns alone; without progress: one curve for all of a job's life; without
  reports: only arrivals and ends are reported.

Days drawn anew are those of ``gpu_day.py``: nothing was chosen on them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.gpu_day import (
    GPUS,
    INTERVAL,
    LOADS,
    PAUSE,
    POLLUX,
    Application,
    Job,
    Outcome,
    Rule,
    drawn_anew,
    equi,
    figure,
    indexed,
    ratio,
    read_submissions,
    simulate,
)
from benchmarks.measure import Findings, Target, table_of
from corewise.estimation.progress.statistics import ProgressStatistics

MEMORY = "corewise.estimation.progress.curves.MEMORY"


class Learned:
    """Rule of a `Scheduler`, which gets reports of what happened since its last decision.

    Parameters
    ----------
    history : ProgressStatistics, optional
        What was seen on another day.
    pooled, reports : bool, optional
        Whether jobs of an application are of one class, and whether they report progress.
    """

    def __init__(
        self, history: ProgressStatistics | None = None, *, pooled: bool = True, reports: bool = True
    ) -> None:
        self.scheduler = cw.Scheduler(GPUS, pause=PAUSE, policy=cw.JobIndex(load=0.0), history=history)
        self._pooled, self._reports = pooled, reports
        self._present: dict[str, tuple[Job, float]] = {}
        self._time = 0.0

    def __call__(self, jobs: Sequence[Job], packed: bool) -> Mapping[str, int]:
        """Return the GPUs of every job that is present."""
        assert not packed
        self._report()
        new = [job for job in jobs if job.name not in self._present]
        came = max((math.ceil(job.submitted / INTERVAL) * INTERVAL for job in new), default=0.0)
        time = self._time = max(self._time, came)
        for job in new:
            self._present[job.name] = job, 0.0
            kind = job.application.name if self._pooled else job.name
            self.scheduler.arrived(
                job.name, kind, job.submitted, max_cores=job.application.rates.shape[1] - 1
            )
        widths = self.scheduler.decide(time)
        for name, width in widths.items():
            self.scheduler.held(name, width, time)
        self._time = time + INTERVAL
        return widths

    def _report(self) -> None:
        """Report the progress of all jobs since the last decision, and those that have completed."""
        for name, (job, before) in list(self._present.items()):
            done = not math.isnan(job.completed)
            time = job.completed if done else self._time
            if self._reports:
                self.scheduler.progress(name, time, job.progress - before)
            self._present[name] = job, job.progress
            if done:
                self.scheduler.finished(name, time)
                del self._present[name]


def report(rows: Mapping[str, Mapping[str, Outcome]], drawn: Mapping[str, Sequence[float]]) -> list[object]:
    """Return the tables."""
    keys = list(rows["EQUI"])
    equal = {key: rows["EQUI"][key].mean for key in keys}
    table = table_of(
        "Mean job completion time in seconds by workload, GPUs anywhere; ratios are geometric means",
        ["", *keys, "/Pollux", "/EQUI", "worst /EQUI", "p99", "restarts", "ms"],
    )
    published = {key: POLLUX.get(int(key), math.nan) for key in keys}
    table.add_row("Pollux, published", *(f"{published[key]:.0f}" for key in keys), "1.000")
    for name, days in rows.items():
        table.add_row(
            name,
            *(f"{days[key].mean:.0f}" for key in keys),
            f"{ratio(days, published):.3f}",
            f"{ratio(days, equal):.3f}",
            f"{max(days[key].mean / equal[key] for key in keys):.3f}",
            f"{np.mean([day.percentile for day in days.values()]):.0f}",
            f"{np.mean([day.restarts for day in days.values()]):.1f}",
            f"{np.mean([day.milliseconds for day in days.values()]):.2f}",
        )
    if not drawn:
        return [table]
    seeds = len(next(iter(drawn.values())))
    other = table_of(f"Days drawn anew, {seeds} seeds: learned over EQUI", ["", "mean", "least", "most"])
    for name, ratios in drawn.items():
        mean = math.exp(float(np.mean(np.log(ratios))))
        other.add_row(name, f"{mean:.3f}", f"{min(ratios):.3f}", f"{max(ratios):.3f}")
    return [table, other]


def main() -> int:
    """Run the days; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the applications; workloads lie beside it")
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=["1", "2", "3"])
    parser.add_argument("--seeds", type=int, default=3, help="days drawn anew at each load (default 3)")
    parser.add_argument("--plot", type=Path, metavar="PNG")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    applications = {file.stem: Application.read(file) for file in sorted(chosen.folder.glob("*.csv"))}
    system = cw.System(GPUS, [cw.JobClass(name, speedup=cw.Amdahl(0.9)) for name in applications])
    folder = chosen.folder.parent / "workloads"
    days = {key: read_submissions(folder / f"pollux-workload-{key}.csv") for key in chosen.workloads}

    def each(made: Callable[[str], Rule]) -> dict[str, Outcome]:
        return {key: simulate(applications, day, made(key), packed=False) for key, day in days.items()}

    first = {key: Learned() for key in days}
    rows = {
        "EQUI": each(lambda _: equi(system)),
        "job-index, true curves": each(lambda _: indexed(system)),
        "learned": each(first.__getitem__),
    }
    following = dict(zip(days, [*list(days)[1:], next(iter(days))], strict=True))
    rows["… with another day's history"] = each(lambda key: Learned(first[following[key]].scheduler.seen))
    rows["… without pooling"] = each(lambda _: Learned(pooled=False))
    with patch(MEMORY, 1e6):
        rows["… without progress"] = each(lambda _: Learned())
    rows["… without reports"] = each(lambda _: Learned(reports=False))
    drawn = {}
    for load in LOADS if chosen.seeds else ():
        many = [drawn_anew(list(days.values()), load, seed) for seed in range(chosen.seeds)]
        drawn[f"load {load:g}"] = [
            simulate(applications, day, Learned(), packed=False).mean
            / simulate(applications, day, equi(system), packed=False).mean
            for day in many
        ]
    published = {key: POLLUX.get(int(key), math.nan) for key in days}
    equal = {key: rows["EQUI"][key].mean for key in days}
    worst = max(rows["learned"][key].mean / equal[key] for key in days)
    history = ratio(rows["… with another day's history"], published)
    findings = Findings()
    findings.targets += [
        Target("learned over Pollux", ratio(rows["learned"], published), 0.83, False, ""),
        Target("with history over Pollux", history, 0.80, False, ""),
        Target("learned over EQUI, worst workload", worst, 1.0, False, ""),
    ]
    if drawn:
        over = max(max(ratios) for ratios in drawn.values())
        findings.targets.append(Target("learned over EQUI, worst day drawn anew", over, 1.0, False, ""))
    if chosen.plot:
        shown = {
            "equal shares": "EQUI",
            "nothing known at first": "learned",
            "with another day's history": "… with another day's history",
            "curves and sizes known": "job-index, true curves",
        }
        figure({"anywhere": {name: rows[row] for name, row in shown.items()}}, published, chosen.plot)
    return findings.finish(chosen.json, *report(rows, drawn), width=120)  # type: ignore[arg-type]


if __name__ == "__main__":
    raise SystemExit(main())
