"""A day on a GPU cluster: decisions per job on the benchmark of the field, beside the published figures.

    python benchmarks/gpu_day.py FOLDER [--workloads 1,2,3] [--seeds 3] [--plot PNG] [--json FILE]

The simulator study of Pollux (Qiao and others, OSDI 2021): 160 training jobs of six applications within 8
hours on 64 GPUs; GPUs are decided on every 60 s, and a job stands still for 30 s whenever they change. FOLDER
holds a file ``<application>.csv`` for each application, ``epoch,from,to,rate_1,rate_2,…``: while the progress
of a job lies in an epoch it grows by rate_z per second on z GPUs. ``FOLDER/../workloads`` has the
submissions, ``pollux-workload-N.csv`` with ``name,time,application,…``. Both derive from petuum/adaptdl,
branch osdi21-artifact (Apache-2.0).

GPUs are taken anywhere, or packed on nodes of four: whole nodes and one part of a node, other jobs being
moved, at the price of their pause, where that is needed. Rules:

- EQUI, followed at every decision;
- rank: weights (k^q − (k − 1)^q)^(1/q), q = 5, by rank of remaining work, k = 1 the largest;
- job-index with the curve at the job's progress and its remaining work, ``load=0.0``: a day that ends;
- job-index with the class's size and its curve averaged over a job's life, which is what a class knows.

Nothing is tuned per workload. As a check, days that are drawn anew: so many jobs as load times 160, each an
application and a time of submission drawn from those of the workloads, for every seed and load. There are no
published figures for these: ratios are to EQUI.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.measure import Findings, Target, table_of
from corewise.kit.arrays import Floats
from corewise.policies.base import BoundPolicy
from corewise.policies.jobs.index import JobIndex
from corewise.policies.jobs.state import JobState
from corewise.policies.jobs.widths import best_widths
from corewise.sizes import Deterministic

GPUS, NODE, INTERVAL, PAUSE = 64, 4, 60.0, 30.0
POLLUX = {1: 2089.0, 2: 3323.0, 3: 2188.0}
"""Mean job completion times of Pollux, published in its artifact."""
LEAST_STEP = 1e-9
JOBS, LOADS = 160, (0.5, 1.0, 1.5, 2.0)

NOT_EQUAL = """\
What is not equal: the published figures are from the artifact's own simulator, where jobs look for their
batch size while they run and sit on nodes of four. The rates here assume the best batch size at once, worth
some 3 %, and a part of a job that fits on no node is spread at no loss of speed. The artifact's simulator has
EQUI at 2396, 3677 and 2974 s on these workloads, 5 to 14 % above EQUI packed here: a rule's ratio to EQUI in
the same simulator is the fairer one."""


@dataclass(frozen=True, eq=False)
class Application:
    """Application of the day.

    Attributes
    ----------
    name : str
        Its name.
    ends : ndarray
        The progress at which each epoch ends.
    rates : ndarray, shape (epochs, widths)
        Progress per second on 0, 1, 2, … GPUs.
    """

    name: str
    ends: Floats
    rates: Floats

    @classmethod
    def read(cls, file: Path) -> Application:
        """Return the application of a file."""
        with file.open(newline="", encoding="utf-8") as lines:
            heading, *rows = list(csv.reader(lines))
        table = np.array(rows, dtype=np.float64)
        widths = [int(name.removeprefix("rate_")) for name in heading[3:]]
        rates = np.zeros((len(table), max(widths) + 1))
        rates[:, widths] = table[:, 3:]
        return cls(file.stem, table[:, 2], rates)

    @cached_property
    def lengths(self) -> Floats:
        """The progress in each epoch."""
        return np.diff(self.ends, prepend=0.0)

    @cached_property
    def later(self) -> Floats:
        """Seconds that a job takes on one GPU from the end of each epoch on."""
        seconds = self.lengths / self.rates[:, 1]
        return np.asarray(seconds[::-1].cumsum()[::-1] - seconds)

    @cached_property
    def work(self) -> float:
        """Seconds that a job takes on one GPU."""
        return float((self.lengths / self.rates[:, 1]).sum())

    @cached_property
    def life_speeds(self) -> Floats:
        """The speed-up of a whole job on 0, 1, 2, … GPUs."""
        seconds = (self.lengths[:, None] / self.rates[:, 1:]).sum(axis=0)
        return np.append(0.0, seconds[0] / seconds)


@dataclass(eq=False)
class Job:
    """Job in the simulator; `nodes` says how many GPUs it holds on which node."""

    name: str
    application: Application
    submitted: float
    progress: float = 0.0
    nodes: dict[int, int] = field(default_factory=dict)
    width: int = 0
    resumes: float = 0.0
    moves: int = -1
    completed: float = math.nan

    @property
    def epoch(self) -> int:
        """The epoch that its progress lies in."""
        ends = self.application.ends
        return min(int(ends.searchsorted(self.progress, side="right")), ends.size - 1)

    @property
    def remaining(self) -> float:
        """Seconds that it would still take on one GPU."""
        application, k = self.application, self.epoch
        return float((application.ends[k] - self.progress) / application.rates[k, 1] + application.later[k])

    @property
    def speeds(self) -> Floats:
        """Its speed-up at present on 0, 1, 2, … GPUs."""
        rates = self.application.rates[self.epoch]
        return np.asarray(rates / rates[1])

    def run(self, begin: float, end: float) -> None:
        """Let it progress from a time to another, until it completes."""
        time, ends = max(begin, self.resumes), self.application.ends
        while self.width and time < end:
            k = self.epoch
            rate = self.application.rates[k, self.width]
            if rate <= 0.0:
                return
            step = min((ends[k] - self.progress) / rate, end - time)
            time += step
            self.progress += rate * step
            if self.progress >= ends[k] * (1.0 - LEAST_STEP):
                self.progress = ends[k]
                if k == len(ends) - 1:
                    self.completed = time
                    return


Rule = Callable[[Sequence[Job], bool], Mapping[str, int]]


def packable(speeds: Floats) -> Floats:
    """Return speeds that are zero on three GPUs, and beyond a node on parts of nodes: what is left packs."""
    kept = speeds.copy()
    widths = np.arange(speeds.size)
    kept[(widths == 3) | ((widths > NODE) & (widths % NODE > 0))] = 0.0
    return kept


def equi(system: cw.System) -> Rule:
    """Equal shares, followed."""
    bound = cw.Equi().on(system)

    def rule(jobs: Sequence[Job], packed: bool) -> Mapping[str, int]:  # noqa: ARG001
        tops = [job.application.rates.shape[1] - 1 for job in jobs]
        states = [
            JobState(job.name, job.application.name, max_cores=top)
            for job, top in zip(jobs, tops, strict=True)
        ]
        return bound.allocate_jobs(states, whole=True)  # type: ignore[return-value]

    return rule


def rank(system: cw.System) -> Rule:  # noqa: ARG001
    """Weights by rank of remaining work, with the curve at the job's progress."""

    def rule(jobs: Sequence[Job], packed: bool) -> Mapping[str, int]:
        order = np.argsort([-job.remaining for job in jobs], kind="stable")
        k = np.empty(len(jobs))
        k[order] = np.arange(1.0, len(jobs) + 1.0)
        weights = (k**5 - (k - 1.0) ** 5) ** 0.2
        speeds, tops = np.zeros((len(jobs), GPUS + 1)), []
        for row, job in zip(speeds, jobs, strict=True):
            table = packable(job.speeds) if packed else job.speeds
            row[: table.size] = table
            tops.append(table.size - 1)
        states = [JobState(job.name, job.application.name, held=job.width, attained=1.0) for job in jobs]
        widths = best_widths(states, weights, speeds, [1] * len(jobs), tops, GPUS, pause=PAUSE)
        return {job.name: int(width) for job, width in zip(jobs, widths, strict=True)}

    return rule


def indexed(system: cw.System) -> Rule:
    """Job-index with the curve at the job's progress and its remaining work."""
    bound = JobIndex(load=0.0).on(system)

    def rule(jobs: Sequence[Job], packed: bool) -> Mapping[str, int]:
        return _widths(bound, [(job, job.remaining, job.speeds) for job in jobs], packed)

    return rule


def by_class(system: cw.System) -> Rule:
    """Job-index with the size of the class and the curve averaged over a job's life."""
    bound = JobIndex(load=0.0).on(system)
    known: dict[str, tuple[float, Floats]] = {}

    def rule(jobs: Sequence[Job], packed: bool) -> Mapping[str, int]:
        for job in jobs:
            if job.application.name not in known:
                known[job.application.name] = job.application.work, job.application.life_speeds
        return _widths(bound, [(job, *known[job.application.name]) for job in jobs], packed)

    return rule


def _widths(bound: BoundPolicy, jobs: Sequence[tuple[Job, float, Floats]], packed: bool) -> Mapping[str, int]:
    states = [
        JobState(
            job.name,
            job.application.name,
            attained=1.0,  # a start has a pause as well
            remaining=remaining,
            held=job.width,
            speeds=packable(speeds) if packed else speeds,
        )
        for job, remaining, speeds in jobs
    ]
    return bound.allocate_jobs(states, whole=True, pause=PAUSE)  # type: ignore[return-value]


RULES: dict[str, Callable[[cw.System], Rule]] = {
    "EQUI": equi,
    "rank of remaining work": rank,
    "job-index": indexed,
    "job-index, class sizes and life curves": by_class,
}


def place(jobs: Sequence[Job], widths: Mapping[str, int]) -> dict[str, dict[int, int]]:
    """Return on which nodes jobs hold how many GPUs: whole nodes, and one part of a node.

    Jobs of the same width stay where they are if all fit; if not, all are placed anew, widest first, each on
    its own nodes where it can. A part that fits on no node is spread, at no loss of speed.
    """
    staying = {job.name: job.nodes for job in jobs if widths[job.name] == job.width and job.nodes}
    moving = [job for job in jobs if job.name not in staying and widths[job.name]]
    for kept, placed, may_spread in ((staying, moving, False), ({}, jobs, True)):
        free = dict.fromkeys(range(GPUS // NODE), NODE)
        for nodes in kept.values():
            for node, held in nodes.items():
                free[node] -= held
        found = dict(kept)
        for job in sorted(placed, key=lambda job: -widths[job.name]):
            fitted = _fit(widths[job.name], free, job.nodes, may_spread)
            if fitted is None:
                break
            found[job.name] = fitted
            for node, held in fitted.items():
                free[node] -= held
        else:
            return found
    raise AssertionError("jobs hold more GPUs than there are")


def _fit(width: int, free: dict[int, int], own: dict[int, int], may_spread: bool) -> dict[int, int] | None:
    """Return nodes for one job, its own ones first; None if it does not fit."""
    whole, part = divmod(width, NODE)
    empty = sorted((node for node in free if free[node] == NODE), key=lambda node: (node not in own, node))
    nodes = dict.fromkeys(empty[:whole], NODE)
    if len(nodes) < whole and not may_spread:
        return None
    left = width - sum(nodes.values())
    if left and left == part:
        fits = [node for node in free if node not in nodes and free[node] >= part]
        if fits:
            best = min(fits, key=lambda node: (own.get(node, 0) != part, free[node], node))
            return {**nodes, best: part}
        if not may_spread:
            return None
    for node in sorted(free, key=lambda node: -free[node]):
        if left and node not in nodes and free[node]:
            nodes[node] = min(free[node], left)
            left -= nodes[node]
    return nodes


@dataclass(frozen=True)
class Outcome:
    """Outcome of one day.

    Attributes
    ----------
    mean, percentile, makespan : float
        Mean and 99th percentile of job completion times, and the end of the last job, in seconds.
    restarts : float
        Changes of GPUs per job after its start.
    by_application : dict
        Mean completion times of the jobs of each application.
    milliseconds : float
        Mean processor time of a decision, from what is known of the jobs to their GPUs.
    """

    mean: float
    percentile: float
    makespan: float
    restarts: float
    by_application: dict[str, float]
    milliseconds: float


Submissions = Sequence[tuple[str, float]]
"""The application and the time of every job of a day."""


def read_submissions(file: Path) -> Submissions:
    """Return the submissions of a workload."""
    with file.open(newline="", encoding="utf-8") as lines:
        return [(row["application"], float(row["time"])) for row in csv.DictReader(lines)]


def drawn_anew(days: Sequence[Submissions], load: float, seed: int) -> Submissions:
    """Return a day with applications and times drawn from those of other days."""
    rng = np.random.default_rng([seed, round(100 * load)])
    names = [name for day in days for name, _ in day]
    times = np.array([time for day in days for _, time in day])
    count = round(JOBS * load)
    which = rng.integers(len(names), size=count)
    return [
        (names[k], time) for k, time in zip(which, np.sort(rng.choice(times, count)).tolist(), strict=True)
    ]


def simulate(
    applications: Mapping[str, Application], day: Submissions, rule: Rule, *, packed: bool
) -> Outcome:
    """Return the outcome of a day under a rule."""
    jobs = [Job(f"{name}-{k}", applications[name], time) for k, (name, time) in enumerate(day)]
    waiting = sorted(jobs, key=lambda job: job.submitted)
    present: list[Job] = []
    time, seconds, decisions = 0.0, 0.0, 0
    while waiting or present:
        while waiting and waiting[0].submitted <= time:
            present.append(waiting.pop(0))
        if present:
            began = process_time()
            widths = rule(present, packed)
            seconds, decisions = seconds + process_time() - began, decisions + 1
            _move(present, widths, time, packed=packed)
            for job in present:
                job.run(time, time + INTERVAL)
            present = [job for job in present if math.isnan(job.completed)]
        time += INTERVAL
    times = np.array([job.completed - job.submitted for job in jobs])
    names = sorted({job.application.name for job in jobs})
    means = {
        name: float(np.mean([t for t, job in zip(times, jobs, strict=True) if job.application.name == name]))
        for name in names
    }
    return Outcome(
        float(times.mean()),
        float(np.percentile(times, 99)),
        max(job.completed for job in jobs),
        float(np.mean([job.moves for job in jobs])),
        means,
        1e3 * seconds / decisions,
    )


def _move(jobs: Sequence[Job], widths: Mapping[str, int], time: float, *, packed: bool) -> None:
    """Give jobs their GPUs; those whose GPUs change stand still for the pause."""
    assert sum(widths.values()) <= GPUS
    places = place(jobs, widths) if packed else {}
    for job in jobs:
        width, nodes = widths[job.name], places.get(job.name, {})
        if width != job.width or nodes != job.nodes:
            job.width, job.nodes = width, nodes
            if width:
                job.resumes = time + PAUSE
                job.moves += 1


@dataclass
class DayFindings(Findings):
    """Everything measured, by placement, rule and workload; and by load, rule and seed of days drawn anew."""

    outcomes: dict[str, dict[str, dict[str, Outcome]]] = field(default_factory=dict)
    drawn: dict[float, dict[str, list[Outcome]]] = field(default_factory=dict)


def ratio(outcomes: Mapping[str, Outcome], others: Mapping[str, float]) -> float:
    """Return the geometric mean of mean completion times over those of others."""
    return math.exp(float(np.mean([math.log(outcomes[key].mean / others[key]) for key in outcomes])))


def worst_application(days: Mapping[str, Outcome], base: Mapping[str, Outcome]) -> tuple[float, str]:
    """Return the largest ratio of mean completion times to others by application, and whose it is."""
    names = {name for day in days.values() for name in day.by_application}
    means = {
        name: np.mean(
            [
                day.by_application[name] / base[key].by_application[name]
                for key, day in days.items()
                if name in day.by_application
            ]
        )
        for name in sorted(names)
    }
    name = max(means, key=lambda name: float(means[name]))
    return float(means[name]), name


def report(findings: DayFindings, published: Mapping[str, float]) -> list[object]:
    """Return one table per placement."""
    tables: list[object] = []
    for placement, rules in findings.outcomes.items():
        workloads = list(next(iter(rules.values())))
        headings = ["", *workloads, "/Pollux", "/EQUI", "p99", "makespan", "restarts", "worst/EQUI", "ms"]
        title = (
            f"Mean job completion time in seconds by workload, GPUs {placement}; ratios are geometric means"
        )
        table = table_of(title, headings)
        table.add_row("Pollux, published", *(f"{published[key]:.0f}" for key in workloads), "1.000")
        base = rules["EQUI"]
        for name, days in rules.items():
            worst, application = worst_application(days, base)
            table.add_row(
                name,
                *(f"{days[key].mean:.0f}" for key in workloads),
                f"{ratio(days, published):.3f}",
                f"{ratio(days, {key: base[key].mean for key in base}):.3f}",
                f"{np.mean([day.percentile for day in days.values()]):.0f}",
                f"{np.mean([day.makespan for day in days.values()]):.0f}",
                f"{np.mean([day.restarts for day in days.values()]):.1f}",
                f"{worst:.2f} {application}",
                f"{np.mean([day.milliseconds for day in days.values()]):.2f}",
            )
        tables.append(table)
    tables.append(NOT_EQUAL)
    if findings.drawn:
        tables.append(drawn_table(findings.drawn))
    return tables


def drawn_table(drawn: Mapping[float, Mapping[str, Sequence[Outcome]]]) -> object:
    """Return the ratios to EQUI on days drawn anew: the geometric mean over seeds, and their range."""
    seeds = len(next(iter(drawn.values()))["EQUI"])
    title = f"Days drawn anew, GPUs anywhere, {seeds} seeds: mean completion time over EQUI's, least to most"
    table = table_of(title, ["", *(f"load {load:g}" for load in drawn)])
    equi_means = (f"{np.mean([day.mean for day in rules['EQUI']]):.0f} s" for rules in drawn.values())
    table.add_row("EQUI", *equi_means)
    for name in RULES:
        if name == "EQUI":
            continue
        cells = []
        for rules in drawn.values():
            ratios = [day.mean / base.mean for day, base in zip(rules[name], rules["EQUI"], strict=True)]
            mean = math.exp(float(np.mean(np.log(ratios))))
            cells.append(f"{mean:.3f} ({min(ratios):.3f}–{max(ratios):.3f})")
        table.add_row(name, *cells)
    return table


def figure(
    outcomes: Mapping[str, Mapping[str, Mapping[str, Outcome]]], published: Mapping[str, float], file: Path
) -> None:
    """Draw the mean completion times over those of the published Pollux, by placement, rule and workload."""
    from corewise.plots.style import class_colour, new_figure

    placements = list(outcomes)
    with new_figure(max(3.6 * len(placements), 4.8), 3.2) as drawn:
        axes = drawn.subplots(1, len(placements), sharey=True, squeeze=False)[0]
        for axis, placement in zip(axes, placements, strict=True):
            for i, (name, days) in enumerate(outcomes[placement].items()):
                heights = [day.mean / published[key] for key, day in days.items()]
                places = np.arange(len(heights)) + 0.2 * (i - 1.5)
                axis.bar(places, heights, width=0.18, color=class_colour(i), label=name)
            axis.axhline(1.0, color="0.3", linewidth=0.8, label="Pollux, published")
            axis.set_xticks(range(len(days)), [f"workload {key}" for key in days])
            axis.set_title(f"GPUs {placement}", fontsize=9)
        axes[0].set_ylabel("mean completion time / published Pollux")
        axes[0].set_ylim(0.0, 1.6)
        axes[0].legend(frameon=False, fontsize=7, loc="upper left")
    drawn.savefig(file, dpi=150)


def main() -> int:
    """Run the day; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the applications; workloads lie beside it")
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=["1", "2", "3"])
    parser.add_argument("--seeds", type=int, default=3, help="days drawn anew at each load (default 3)")
    parser.add_argument("--plot", type=Path, metavar="PNG")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    applications = {file.stem: Application.read(file) for file in sorted(chosen.folder.glob("*.csv"))}
    classes = [
        cw.JobClass(name, None, 1.0 / app.work, cw.Amdahl(0.9), sizes=Deterministic())
        for name, app in applications.items()
    ]
    system = cw.System(GPUS, classes, unit="seconds")
    files = {
        key: chosen.folder.parent / "workloads" / f"pollux-workload-{key}.csv" for key in chosen.workloads
    }
    days = {key: read_submissions(file) for key, file in files.items()}
    published = {key: POLLUX.get(int(key), math.nan) for key in files}
    findings = DayFindings()
    for made in RULES.values():  # compiled before a clock runs
        simulate(applications, next(iter(days.values())), made(system), packed=False)
    for placement, packed in (("anywhere", False), ("packed on nodes of four", True)):
        findings.outcomes[placement] = {
            name: {key: simulate(applications, day, made(system), packed=packed) for key, day in days.items()}
            for name, made in RULES.items()
        }
    for load in LOADS if chosen.seeds else ():
        drawn = [drawn_anew(list(days.values()), load, seed) for seed in range(chosen.seeds)]
        findings.drawn[load] = {
            name: [simulate(applications, day, made(system), packed=False) for day in drawn]
            for name, made in RULES.items()
        }
    bounds = {
        ("anywhere", "job-index"): 0.77,
        ("packed on nodes of four", "job-index"): 0.80,
        ("packed on nodes of four", "job-index, class sizes and life curves"): 0.93,
    }
    for (placement, name), bound in bounds.items():
        value = ratio(findings.outcomes[placement][name], published)
        findings.targets.append(Target(f"{name}, GPUs {placement}, over Pollux", value, bound, False, ""))
    slowest = max(
        float(np.mean([day.milliseconds for day in rules["job-index"].values()]))
        for rules in findings.outcomes.values()
    )
    findings.targets.append(Target("job-index, a decision", slowest, 0.5, False, "ms"))
    if chosen.plot:
        figure(findings.outcomes, published, chosen.plot)
    return findings.finish(chosen.json, *report(findings, published), width=140)  # type: ignore[arg-type]


if __name__ == "__main__":
    raise SystemExit(main())
