"""Learning from progress reports: measured curves, and the day on a GPU cluster with nothing known at first.

    python benchmarks/progress.py DATA [--part curves|day|steady] [--workloads 1,2,3] [--json FILE]

DATA holds the folders ``usl``, ``gavel-osdi20``, ``pollux-osdi21``, ``gpu-day`` and ``workloads``.

**Curves.** The truth is a measured table of throughputs. Jobs report their progress on the widths of the
table, five reports a job on one width, with a relative error of 10 % per report and of 10 % per job
(lognormal). After 10, 100 and 1 000 reports: the root mean square of log(ŝ/s) over the widths of the table,
about its mean, and whether the best width found is the best of the table or next to it. Medians, and shares,
over the curves of a source and five seeds. Where two widths are nearly as fast as each other nothing is lost
by the wrong one: so the speed lost at the width found is shown as well.

**Day.** The simulator of ``gpu_day.py``, GPUs anywhere. What is seen of a job is its application's name, the
GPUs that it holds, and every 60 s its progress in the unit of its application: no fractions, no speeds, no
sizes. A `Scheduler` decides with that alone; and so does a rule made of the same parts, of which things can
be switched off: ``JobIndex(load=0.0)`` with the learned speeds and the remaining work, a class on one GPU per
job at first, then on at most twice the most that it was measured on, and one of which nothing is known
counting as 200 s of work. One thing is switched off at a time: history (of another day), progress (one curve
for all of a job's life), pooling (every job learns alone), throughput (departures alone: the work done is
what the curve of no measurement says of the GPUs held).

**Steady pool.** 16 cores, one class with Amdahl's p = .9 at load .8, jobs that report progress every 20 s and
at every event, no pauses; 400 jobs, the first 100 left out, two seeds. Mean response time of a `Scheduler` of
which nothing was known at first over that of one that shares equally, on the same jobs; its load is not known
(a week has not passed), or declared.

What was chosen was chosen on days drawn anew from the times and the applications of the three workloads
(``--drawn SEEDS`` runs such days instead).
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.free import strong_scaling
from benchmarks.gpu_day import (
    GPUS,
    INTERVAL,
    PAUSE,
    POLLUX,
    Application,
    Job,
    Outcome,
    Rule,
    Submissions,
    drawn_anew,
    equi,
    indexed,
    ratio,
    read_submissions,
    simulate,
)
from benchmarks.measure import Findings, Target, table_of
from corewise.estimation.progress import curves
from corewise.estimation.progress.learned import LearnedJobs
from corewise.estimation.progress.reports import ReportTally
from corewise.estimation.progress.statistics import ProgressStatistics
from corewise.kit.arrays import Floats, Ints
from corewise.policies.jobs.index import JobIndex
from corewise.policies.jobs.state import JobState
from corewise.sizes import Deterministic, Erlang, Exponential, Lognormal

REPORTS = (10, 100, 1000)
NOISE, PER_JOB, SEEDS = 0.1, 5, 5

UNKNOWN = 200.0
"""Seconds of work that a job of a class counts as of which nothing is known."""

GROWTH = 2
"""Times the most GPUs that a class was measured on: the most that a job of it is given."""


# --- measured curves ---------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredCurve:
    """Measured throughputs at some widths."""

    source: str
    cores: Ints
    throughput: Floats


def measured_curves(data: Path) -> Iterator[MeasuredCurve]:
    """Yield the measured curves of a folder."""
    for name, column in (("raytracer", "processors"), ("specsdm91", "load")):
        rows = _rows(data / "usl" / f"{name}.csv")
        yield _curve("USL", [(float(row[column]), float(row["throughput"])) for row in rows])
    grouped: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for row in _rows(data / "gavel-osdi20" / "isolated_throughputs.csv"):
        if row["source_file"] == "physical_cluster":
            key = row["worker_type"], row["job_type"]
            pair = float(row["scale_factor"]), float(row["steps_per_second"])
            grouped.setdefault(key, []).append(pair)
    for pairs in grouped.values():
        if len(pairs) > 2 and min(rate for _, rate in pairs) > 0.0:
            yield _curve("Gavel", pairs)
    for app, batch in (("cifar10", 512), ("bert", 48), ("yolov3", 64), ("ncf", 2048)):
        yield _curve(
            "Pollux, fixed batch",
            strong_scaling(data / "pollux-osdi21" / f"{app}-scalability.csv", batch, 64),
        )
    for app in ("cifar10", "deepspeech2", "imagenet", "yolov3", "bert"):
        rates = Application.read(data / "gpu-day" / f"{app}.csv").rates
        for epoch in (0, len(rates) // 2, len(rates) - 1):
            widths = [z for z in (1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64) if z < rates.shape[1]]
            yield _curve("Pollux, best batch", [(float(z), float(rates[epoch, z])) for z in widths])


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _curve(source: str, pairs: Sequence[tuple[float, float]]) -> MeasuredCurve:
    cores, throughput = np.array(sorted(pairs)).T
    return MeasuredCurve(source, cores.astype(np.int64), throughput)


@dataclass(frozen=True)
class CurveError:
    """Errors of learned curves of a source: medians, and how often the best width was found or the next."""

    source: str
    reports: int
    curves: int
    error: float
    best_found: float
    lost: float


def learned_error(curve: MeasuredCurve, reports: int, rng: np.random.Generator) -> tuple[float, bool, float]:
    """Return the error of a curve from some reports, whether its best width is near, and the speed lost."""
    tally, begun = ReportTally(), 6000.0 * float(curve.throughput.max())
    for k in range(math.ceil(reports / PER_JOB)):
        at = int(rng.integers(curve.cores.size))
        own = math.exp(NOISE * rng.normal())
        tally.report(f"{k}", "a", cores=None, amount=begun, seconds=60.0)
        for _ in range(min(PER_JOB, reports - k * PER_JOB)):
            amount = 60.0 * curve.throughput[at] * own * math.exp(NOISE * rng.normal())
            tally.report(f"{k}", "a", cores=int(curve.cores[at]), amount=amount, seconds=60.0)
    speeds = LearnedJobs(tally.seen(), int(curve.cores[-1]))["a"].speeds(begun).speeds[curve.cores]
    off = np.log(speeds / curve.throughput)
    best, found = int(curve.throughput.argmax()), int(speeds.argmax())
    lost = 1.0 - curve.throughput[found] / curve.throughput[best]
    return float(np.std(off)), abs(best - found) <= 1, float(lost)


def curve_errors(data: Path) -> list[CurveError]:
    """Return the errors by source and number of reports."""
    found = []
    known = list(measured_curves(data))
    for source in dict.fromkeys(curve.source for curve in known):
        mine = [curve for curve in known if curve.source == source]
        for reports in REPORTS:
            rows = [
                learned_error(curve, reports, np.random.default_rng([seed, k, reports]))
                for k, curve in enumerate(mine)
                for seed in range(SEEDS)
            ]
            error, near, lost = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
            found.append(
                CurveError(
                    source,
                    reports,
                    len(mine),
                    float(np.median(error)),
                    float(near.mean()),
                    float(lost.mean()),
                )
            )
    return found


# --- the day -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Switches:
    """What is learned from: all, or all but one."""

    pooled: bool = True
    by_progress: bool = True
    throughput: bool = True


ALL = Switches()


class Learner:
    """Rule that learns everything from the progress that jobs report."""

    def __init__(
        self, names: Iterable[str], switches: Switches = ALL, history: ProgressStatistics | None = None
    ) -> None:
        classes = [cw.JobClass(name, speedup=cw.Amdahl(0.9)) for name in names]  # none of it counts
        self.bound = JobIndex(load=0.0).on(cw.System(GPUS, classes))
        self.switches, self.tally = switches, ReportTally(history)
        self.present: dict[str, Job] = {}
        self.done: dict[str, float] = {}
        self.changed: dict[str, bool] = {}
        self.learned = LearnedJobs(self.tally.seen(), GPUS)
        self.nothing = self.learned["nothing known"].speeds().speeds

    def __call__(self, jobs: Sequence[Job], packed: bool) -> Mapping[str, int]:  # noqa: ARG002
        here = {job.name: job for job in jobs}
        for name, job in self.present.items():
            self._report(job)
            if name not in here:
                self.tally.finished(name)
        self.present = here
        self.learned = self.learned.after(self.tally)
        states = [self._state(job) for job in jobs]
        widths = self.bound.allocate_jobs(states, whole=True, pause=PAUSE)
        self.changed = {job.name: widths[job.name] != job.width for job in jobs}
        return widths  # type: ignore[return-value]

    def _class(self, job: Job) -> str:
        return job.application.name if self.switches.pooled else job.name

    def _report(self, job: Job) -> None:
        """Report the progress of a job since the last decision; one that has completed took part of that."""
        if not job.width:
            return
        begin = PAUSE if self.changed[job.name] else 0.0
        end = INTERVAL if math.isnan(job.completed) else job.completed % INTERVAL or INTERVAL
        seconds = max(end - begin, 0.0)
        amount = job.progress - self.done.get(job.name, 0.0)
        self.done[job.name] = job.progress
        if not self.switches.throughput:
            amount = seconds * float(self.nothing[job.width])
        self.tally.report(job.name, self._class(job), cores=job.width, amount=amount, seconds=seconds)

    def _state(self, job: Job) -> JobState:
        known = self.learned[self._class(job)]
        said = self.tally.jobs.get(job.name)
        done = said.done if said else 0.0
        remaining = known.work(done).remaining
        top = min(max(1, GROWTH * known.widest), job.application.rates.shape[1] - 1)
        return JobState(
            job.name,
            job.application.name,
            attained=1.0,  # a start has a pause as well
            remaining=UNKNOWN if math.isnan(remaining) else remaining,
            held=job.width,
            speeds=known.speeds(done).speeds[: top + 1],
        )


class Scheduled:
    """Rule of a `Scheduler` that is told of arrivals, GPUs held, progress and ends, and of nothing else.

    The second job of every class may lie: it reports so many times the work that it does.
    """

    def __init__(self, lie: float = 1.0) -> None:
        self.scheduler, self.time, self.lie = cw.Scheduler(GPUS, pause=PAUSE), 0.0, lie
        self.second: dict[str, list[str]] = {}
        self.present: dict[str, Job] = {}
        self.done: dict[str, float] = {}

    def __call__(self, jobs: Sequence[Job], packed: bool) -> Mapping[str, int]:  # noqa: ARG002
        here = {job.name: job for job in jobs}
        for name, job in self.present.items():
            spent = INTERVAL if name in here else job.completed % INTERVAL or INTERVAL
            if job.width:
                lie = self.lie if self.second[job.application.name][1:2] == [name] else 1.0
                self.scheduler.progress(name, self.time + spent, lie * (job.progress - self.done[name]))
                self.done[name] = job.progress
            if name not in here:
                self.scheduler.finished(name, self.time + spent)
        self.time += INTERVAL
        for name, job in here.items():
            if name not in self.present:
                self.second.setdefault(job.application.name, []).append(name)
                most = job.application.rates.shape[1] - 1
                self.scheduler.arrived(name, job.application.name, self.time, max_cores=most)
                self.done[name] = 0.0
        self.present = here
        widths = self.scheduler.decide(self.time)
        for name, width in widths.items():
            self.scheduler.held(name, width, self.time)
        return widths


# --- a steady pool -----------------------------------------------------------------------------


@dataclass(eq=False)
class PoolJob:
    """Job in a steady pool: the work left, its cores, and when it came and reported."""

    left: float
    came: float
    reported: float
    cores: int = 0


def steady_response(law: cw.sizes.SizeLaw, policy: cw.Policy | str, seed: int) -> float:
    """Return the mean response time of jobs in a steady pool whose scheduler learns."""
    rng, cores, tick = np.random.default_rng(seed), 16, 20.0
    speeds = np.append(0.0, cw.Amdahl(0.9).rate(np.arange(1.0, cores + 1.0))).tolist()
    sizes = 100.0 * law.draw(rng, 400)
    arrivals = np.cumsum(rng.exponential(100.0 / (0.8 * cores), sizes.size))
    scheduler = cw.Scheduler(cores, policy=policy)
    jobs: dict[str, PoolJob] = {}
    responses: list[float] = []
    time, came = 0.0, 0
    while came < sizes.size or jobs:
        ends = {n: job.reported + job.left / speeds[job.cores] for n, job in jobs.items() if job.cores}
        first = min(ends, key=lambda name: ends[name], default="")
        arrival = float(arrivals[came]) if came < sizes.size else math.inf
        time, what = min((time + tick, ""), (arrival, "arrival"), (ends.get(first, math.inf), first))
        for name, job in jobs.items():
            amount = speeds[job.cores] * (time - job.reported)
            if job.cores:
                scheduler.progress(name, time, amount)
            job.left, job.reported = job.left - amount, time
        if what == "arrival":
            name = f"job {came}"
            jobs[name] = PoolJob(float(sizes[came]), time, time)
            scheduler.arrived(name, "a", time)
            came += 1
        elif what:
            responses.append(time - jobs.pop(what).came)
            scheduler.finished(what, time)
        for name, width in scheduler.decide(time).items():
            if width != jobs[name].cores:
                jobs[name].cores = width
                scheduler.held(name, width, time)
    return float(np.mean(responses[100:]))


def steady_ratios() -> dict[str, dict[str, float]]:
    """Return response times over those of equal shares, by sizes and by what is known of the load."""
    laws = {"exponential": Exponential(), "lognormal, CV² 4": Lognormal(4.0), "Erlang-4": Erlang(4)}
    policies: dict[str, cw.Policy | str] = {
        "unknown": "job-index",
        "0.5": JobIndex(load=0.5),
        "0.8": JobIndex(load=0.8),
    }
    found: dict[str, dict[str, float]] = {}
    for name, law in laws.items():
        equal = [steady_response(law, "equi", seed) for seed in (1, 2)]
        found[name] = {
            known: math.exp(
                float(
                    np.mean([np.log(steady_response(law, policy, seed) / equal[seed - 1]) for seed in (1, 2)])
                )
            )
            for known, policy in policies.items()
        }
    return found


@dataclass
class ProgressFindings(Findings):
    """Everything measured: curves, days by what is learned and workload, and the steady pool."""

    steady: dict[str, dict[str, float]] = field(default_factory=dict)
    curves: list[CurveError] = field(default_factory=list)
    days: dict[str, dict[str, Outcome]] = field(default_factory=dict)


def learned_day(
    applications: Mapping[str, Application],
    day: Submissions,
    switches: Switches = ALL,
    history: ProgressStatistics | None = None,
) -> tuple[Outcome, ProgressStatistics]:
    """Return the outcome of a day on which everything is learned, and what was seen."""
    learner, memory = Learner(applications, switches, history), curves.MEMORY
    curves.MEMORY = memory if switches.by_progress else math.inf
    try:
        return simulate(applications, day, learner, packed=False), learner.tally.seen()
    finally:
        curves.MEMORY = memory


def outcomes(data: Path, days: Mapping[str, Submissions]) -> dict[str, dict[str, Outcome]]:
    """Return the outcomes by what is learned and workload."""
    applications = {file.stem: Application.read(file) for file in sorted((data / "gpu-day").glob("*.csv"))}
    classes = [
        cw.JobClass(name, None, 1.0 / app.work, cw.Amdahl(0.9), sizes=Deterministic())
        for name, app in applications.items()
    ]
    system = cw.System(GPUS, classes, unit="seconds")
    rules: dict[str, Callable[[], Rule]] = {
        "EQUI": lambda: equi(system),
        "job-index, all known": lambda: indexed(system),
        "learned by Scheduler": Scheduled,
        "… one job of each class reports 3 times its work": lambda: Scheduled(3.0),
        "… one job of each class reports 1e6 times its work": lambda: Scheduled(1e6),
    }
    found = {
        name: {key: simulate(applications, day, made(), packed=False) for key, day in days.items()}
        for name, made in rules.items()
    }
    learned = {key: learned_day(applications, day) for key, day in days.items()}
    found["learned"] = {key: outcome for key, (outcome, _) in learned.items()}
    keys = list(days)
    found["… and on another day"] = {
        key: learned_day(applications, days[key], history=learned[other][1])[0]
        for key, other in zip(keys, [*keys[1:], keys[0]], strict=True)
    }
    for name, switches in (
        ("… one curve for all of a job's life", Switches(by_progress=False)),
        ("… every job alone", Switches(pooled=False)),
        ("… departures alone", Switches(throughput=False)),
    ):
        found[name] = {key: learned_day(applications, day, switches)[0] for key, day in days.items()}
    return found


def report(findings: ProgressFindings, published: Mapping[str, float]) -> list[object]:
    """Return a table of curves and one of days."""
    tables: list[object] = []
    if findings.curves:
        heads = ["", "curves", "reports", "error", "best width or next", "speed lost there"]
        table = table_of("Curves learned from progress reports", heads)
        for row in findings.curves:
            values = f"{row.error:.1%}", f"{row.best_found:.0%}", f"{row.lost:.1%}"
            table.add_row(row.source, str(row.curves), str(row.reports), *values)
        tables.append(table)
    if findings.days:
        base = findings.days["EQUI"]
        keys = list(base)
        table = table_of(
            "Mean job completion time in seconds by workload; ratios are geometric means",
            ["", *keys, "/Pollux", "/EQUI", "/all known", "restarts", "ms"],
        )
        for name, rows in findings.days.items():
            to_pollux = ratio(rows, published) if published else math.nan
            table.add_row(
                name,
                *(f"{rows[key].mean:.0f}" for key in keys),
                f"{to_pollux:.3f}",
                *(f"{ratio(rows, _means(findings.days[of])):.3f}" for of in ("EQUI", "job-index, all known")),
                f"{np.mean([day.restarts for day in rows.values()]):.1f}",
                f"{np.mean([day.milliseconds for day in rows.values()]):.2f}",
            )
        tables.append(table)
    if findings.steady:
        known = list(next(iter(findings.steady.values())))
        table = table_of(
            "Steady pool: mean response time over EQUI's", ["", *(f"load {name}" for name in known)]
        )
        for name, ratios in findings.steady.items():
            table.add_row(name, *(f"{ratios[of]:.3f}" for of in known))
        tables.append(table)
    return tables


def _means(rows: Mapping[str, Outcome]) -> dict[str, float]:
    return {key: day.mean for key, day in rows.items()}


def main() -> int:
    """Run the parts; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--part", choices=("curves", "day", "steady"))
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=["1", "2", "3"])
    parser.add_argument("--drawn", type=lambda text: text.split(","), metavar="SEEDS")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    findings = ProgressFindings()
    published: dict[str, float] = {}
    if chosen.part in (None, "curves"):
        findings.curves = curve_errors(chosen.data)
        for row in findings.curves:
            if row.reports == 100:
                findings.targets += [
                    Target(f"{row.source}, 100 reports: error", row.error, 0.1, False, ""),
                    Target(f"{row.source}, 100 reports: speed lost", row.lost, 0.05, False, ""),
                ]
            if row.reports == 1000:
                name = f"{row.source}, 1000 reports: best width or next"
                findings.targets.append(Target(name, row.best_found, 0.9, True, ""))
    if chosen.part in (None, "day"):
        folder = chosen.data / "workloads"
        days = {key: read_submissions(folder / f"pollux-workload-{key}.csv") for key in chosen.workloads}
        published = {key: POLLUX[int(key)] for key in days}
        if chosen.drawn:
            days = {seed: drawn_anew(list(days.values()), 1.0, int(seed)) for seed in chosen.drawn}
            published = {}
        findings.days = outcomes(chosen.data, days)
        if published:
            for name, bound in (
                ("learned by Scheduler", 0.83),
                ("learned", 0.83),
                ("… and on another day", 0.80),
            ):
                value = ratio(findings.days[name], published)
                findings.targets.append(Target(f"{name.strip('… ')}, over Pollux", value, bound, False, ""))
    if chosen.part in (None, "steady"):
        findings.steady = steady_ratios()
        for name, ratios in findings.steady.items():
            for known, value in ratios.items():
                target = f"steady pool, {name}, load {known}: over EQUI"
                findings.targets.append(Target(target, value, 1.05, False, ""))
    return findings.finish(chosen.json, *report(findings, published), width=120)  # type: ignore[arg-type]


if __name__ == "__main__":
    raise SystemExit(main())
