"""How fast is the loop where every job has cores of its own, and what does a decision per job cost.

    python benchmarks/jobs_loop.py [--rounds N] [--json FILE]

Events (arrivals and departures) per second of processor time with about 15 jobs present: EQUI in whole cores,
and job-index on shares and whole cores, with sizes unknown and known, beside SimPy with a process per job,
if it is installed. Then microseconds per decision of job-index for 10 to 10 000 jobs, compiled, called in a
loop of 16 cores. Compiling is not counted. Exits with 1 if a target was missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.measure import Findings, Target, options, progress, table_of
from corewise.policies.base import bind
from corewise.policies.jobs.curves import packed
from corewise.policies.jobs.decision._kernels.index import JobList, decide
from corewise.policies.jobs.levels import JobLevels

CORES = 16
CASES = {
    "EQUI, whole cores": ("equi", {"whole": True}),
    "job-index, shares": ("job-index", {}),
    "job-index, shares, known sizes": ("job-index", {"known_sizes": True}),
    "job-index, whole cores": ("job-index", {"whole": True}),
    "job-index, whole cores, known sizes": ("job-index", {"whole": True, "known_sizes": True}),
}
JOBS = (10, 100, 1000, 10_000)


@dataclass
class Report(Findings):
    """What was measured."""

    rates: dict[str, float] = field(default_factory=dict)
    present: dict[str, float] = field(default_factory=dict)
    decisions: dict[str, dict[str, float]] = field(default_factory=dict)


def system() -> cw.System:
    """Return one class at load 0.9, which has about 15 jobs present."""
    sizes = cw.sizes.Lognormal(4.0)
    return cw.System(CORES, [cw.JobClass("a", 0.9 * CORES, 1.0, cw.Amdahl(0.9), sizes=sizes)])


def events_per_second(name: str, rounds: int, report: Report) -> None:
    """Measure one case, the best of several rounds."""
    policy, how = CASES[name]
    bound = bind(policy, system())
    cw.simulate(system(), bound, departures=100, rng=1, **how)  # type: ignore[arg-type]
    best = 0.0
    for k in range(rounds):
        departures = 200_000 if policy == "equi" else 10_000
        began = process_time()
        run = cw.simulate(system(), bound, departures=departures, rng=k, **how)  # type: ignore[arg-type]
        best = max(best, run.events / (process_time() - began))
        report.present[name] = run.mean_jobs
    report.rates[name] = best


def with_simpy(departures: int = 5000) -> float | None:
    """Return events per second of a SimPy model: a process per job, interrupted whenever shares change."""
    try:
        import simpy
    except ImportError:
        return None
    rng, curve, env = np.random.default_rng(1), cw.Amdahl(0.9), simpy.Environment()
    one = system().classes[0]
    gaps, sizes = rng.exponential(1.0 / (0.9 * CORES), departures), one.sizes.draw(rng, departures)
    present: dict[int, object] = {}
    events = [0]

    def share(changed: int) -> None:
        for number, process in list(present.items()):
            if number != changed:
                process.interrupt()  # type: ignore[attr-defined]

    def job(number: int, work: float) -> Iterator[object]:
        present[number] = env.active_process
        events[0] += 1
        share(number)
        while work > 1e-12:
            whole, more = divmod(CORES, len(present))
            held = whole + (list(present).index(number) < more)
            speed, began = float(curve.rate(held)), env.now
            try:
                yield env.timeout(work / speed if held else np.inf)
                work = 0.0
            except simpy.Interrupt:
                work -= (env.now - began) * speed
        del present[number]
        events[0] += 1
        share(number)

    def arrivals() -> Iterator[object]:
        for number in range(departures):
            yield env.timeout(gaps[number])
            env.process(job(number, float(sizes[number])))

    env.process(arrivals())
    began = process_time()
    env.run()
    return events[0] / (process_time() - began)


def decision_times(report: Report) -> None:
    """Measure decisions of job-index by the number of jobs."""
    levels = cw.JobIndex().on(system()).decision.part(JobLevels)
    assert levels is not None
    curves, speeds = packed([levels.curve(0, 0, 0, None)]), levels.table(0, 0, CORES)[None, :].copy()
    rng, kernel = np.random.default_rng(1), getattr(decide, "compiled", decide)
    for known in (False, True):
        for pool in (0, CORES):
            what = f"{'whole cores' if pool else 'shares'}, sizes {'known' if known else 'unknown'}"
            report.decisions[what] = {}
            for n in JOBS:
                jobs = JobList(
                    np.zeros(n, dtype=np.int64),
                    np.zeros(n, dtype=np.int64),
                    rng.exponential(size=n),
                    rng.lognormal(size=n) if known else np.full(n, np.nan),
                    np.ones(n),
                    np.zeros(n),
                    np.full(n, float(pool > 0)),
                    np.full(n, np.inf),
                    np.ones(n, dtype=np.bool_),
                )
                arguments = (levels.rule, curves, speeds, jobs, 0.2, pool, np.zeros(n))
                kernel(*arguments)
                times = max(3, 10_000 // n)
                began = process_time()
                for _ in range(times):
                    kernel(*arguments)
                report.decisions[what][str(n)] = 1e6 * (process_time() - began) / times


def main() -> int:
    """Measure, print and say whether targets were met."""
    given = options(str(__doc__), rounds=3)
    report = Report()
    for name in CASES:
        progress(name)
        events_per_second(name, given.rounds, report)
    progress("SimPy")
    simpy_rate = with_simpy()
    if simpy_rate is None:
        report.missing.append("SimPy")
    else:
        report.rates["SimPy, EQUI in whole cores"] = simpy_rate
    progress("decisions")
    decision_times(report)
    rate = report.rates["EQUI, whole cores"]
    report.targets.append(Target("EQUI in whole cores, events", rate / 1e6, 1.0, True, "M/s"))
    rows = [
        (name, f"{report.present.get(name, float('nan')):.1f}", f"{rate:,.0f}", f"{1e6 / rate:.2f}")
        for name, rate in report.rates.items()
    ]
    costs = [(what, *(f"{report.decisions[what][str(n)]:,.0f}" for n in JOBS)) for what in report.decisions]
    speeds = table_of("Events per second of processor time", ["", "jobs present", "events/s", "µs per event"])
    for row in rows:
        speeds.add_row(*row)
    decisions = table_of("Microseconds per decision of job-index", ["", *(f"{n:,} jobs" for n in JOBS)])
    for cost in costs:
        decisions.add_row(*cost)
    return report.finish(given.json, speeds, decisions)


if __name__ == "__main__":
    sys.exit(main())
