"""Engines: how busy they keep the cores while jobs are told other widths, tasks a second, CPU a task.

    python benchmarks/engines.py [--only ENGINE …] [--seconds S] [--rounds N] [--json FILE]

*Busy* is the share of the cores on which a call is being carried out, *as told* the share on which it is one
of the job that the core was given to. Four jobs that always have work are told other widths every 0.2 s, all
of them, which is much harsher than life. Calls sleep, so two cores can play sixteen. Gangs hold all their
cores until the end of a round; bags lend what they do not use. Of several rounds the best counts: whoever
else is on the machine can only take away.

Tasks a second and CPU a task are those of calls that do nothing, of a bag; CPU is that of all processes.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Findings, Target, progress, table_of
from corewise.live.engines.base import Bag, Gang, Holding, JobSpec, Rounds
from corewise.live.engines.dask import DaskEngine
from corewise.live.engines.dispatcher import Dispatcher
from corewise.live.engines.executor import ExecutorEngine
from corewise.observation.events import Event

CORES = 16
JOBS = 4
BETWEEN_MOVES = 0.2
SEED = 20261117


@dataclass(frozen=True)
class Setting:
    """An engine, how long its calls sleep, how many do nothing, and what is demanded of it."""

    make: Callable[[], Dispatcher]
    naps: tuple[float, ...]
    idle_calls: int
    least_busy: float
    least_rate: float


SETTINGS = {
    "threads": Setting(
        lambda: ExecutorEngine(ThreadPoolExecutor(CORES)), (0.005, 0.02, 0.05), 20_000, 0.95, 5_000
    ),
    "processes": Setting(lambda: ExecutorEngine(None, CORES, extra=4), (0.02, 0.05), 5_000, 0.95, 1_000),
    "dask": Setting(lambda: DaskEngine(workers=1, threads=CORES, extra=4), (0.05, 0.5), 300, 0.95, 30),
}
DEMANDED_NAP = {"threads": 0.02, "processes": 0.05, "dask": 0.5}


@dataclass
class Report(Findings):
    """Everything that was measured: by engine, kind of job and nap busy and as told; by engine rates."""

    shares: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)


def quiet(kind: type[Event], *values: Any, then: Callable[[], None] | None = None) -> None:  # noqa: ARG001
    """Tell nobody."""
    if then is not None:
        then()


def shares_of(
    naps: Sequence[Sequence[tuple[float, float]]], told: Sequence[tuple[float, list[int]]], end: float
) -> tuple[float, float]:
    """Busy, and as told, from the naps of each job and the widths of all of them from a time on."""
    running, given = [0] * JOBS, [0] * JOBS
    changes = [
        (at, 0, job, step)
        for job, all_of in enumerate(naps)
        for pair in all_of
        for at, step in zip(pair, (1, -1), strict=True)
    ]
    changes += [(at, 1, job, cores) for at, all_of in told for job, cores in enumerate(all_of)]
    begin = told[0][0]
    busy = obedient = 0.0
    for (at, which, job, value), (until, *_) in pairwise([*sorted(changes), (end, 0, 0, 0)]):
        if which:
            given[job] = value
        else:
            running[job] += value
        lasted = max(min(until, end) - max(at, begin), 0.0)
        busy += lasted * sum(running)
        obedient += lasted * sum(map(min, running, given))
    return busy / (CORES * (end - begin)), obedient / (CORES * (end - begin))


def nap(seconds: float) -> tuple[float, float]:
    began = time.monotonic()
    time.sleep(seconds)
    return began, time.monotonic()


def nothing() -> None:
    pass


def napping_gang(job: Holding, seconds: float, end: float) -> Rounds:
    naps = []
    while time.monotonic() < end:
        naps += yield [partial(nap, seconds)] * job.cores
    return naps


def widths(rng: Random) -> list[int]:
    """Whole cores of every job, one at least, all splits alike."""
    cuts = sorted(rng.sample(range(1, CORES), JOBS - 1))
    return [high - low for low, high in pairwise([0, *cuts, CORES])]


def shares(setting: Setting, kind: str, seconds: float, lasting: float) -> tuple[float, float]:
    """Busy, and as told, of four jobs of a kind whose widths change all the time."""
    engine, rng = setting.make(), Random(SEED)
    engine.start(quiet)
    end = time.monotonic() + lasting
    futures = []
    for number in range(JOBS):
        job = napping_job(kind, Holding(str(number)), seconds, end)
        engine.submit(job)
        futures.append(job.future)
    told = []
    while time.monotonic() < end:
        told.append((time.monotonic(), widths(rng)))
        for number, cores in enumerate(told[-1][1]):
            engine.set_cores(str(number), cores)
        time.sleep(BETWEEN_MOVES)
    naps = [[pair for pair in future.result() if pair is not None] for future in futures]
    engine.close()
    settled = [row for row in told if row[0] > told[0][0] + 1.0 + 2.0 * seconds]
    return shares_of(naps, settled, end)


def napping_job(kind: str, holding: Holding, seconds: float, end: float) -> JobSpec:
    if kind == "gang":
        return Gang(holding, napping_gang(holding, seconds, end))
    enough = int(2.0 * CORES * max(end - time.monotonic(), 0.0) / seconds)
    return Bag(holding, [partial(nap_until, seconds, end)] * enough)


def nap_until(seconds: float, end: float) -> tuple[float, float] | None:
    return nap(seconds) if time.monotonic() < end else None


def rate(setting: Setting) -> tuple[float, float]:
    """Tasks a second, and milliseconds of CPU a task, of all processes."""
    engine = setting.make()
    engine.start(quiet)
    warm = Bag(Holding("warm"), [nothing] * (2 * CORES))
    engine.submit(warm)
    engine.set_cores("warm", CORES)
    warm.future.result()
    before, began = cpu(), time.perf_counter()
    bag = Bag(Holding("bag"), [nothing] * setting.idle_calls)
    engine.submit(bag)
    engine.set_cores("bag", CORES)
    bag.future.result()
    lasted, spent = time.perf_counter() - began, cpu() - before
    engine.close()
    return setting.idle_calls / lasted, 1e3 * spent / setting.idle_calls


def cpu() -> float:
    """CPU seconds of this process and of its children, which are still alive."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ticks = 0
    family = [Path("/proc/self")]
    for process in family:
        for task in process.glob("task/*/children"):
            family += [Path("/proc") / child for child in task.read_text().split()]
    for process in family[1:]:
        ticks += sum(int(field) for field in (process / "stat").read_text().rpartition(")")[2].split()[11:13])
    return own.ru_utime + own.ru_stime + ticks / 100.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(SETTINGS), choices=list(SETTINGS), metavar="ENGINE")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long to look at each row")
    parser.add_argument("--rounds", type=int, default=3, help="of each row")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report = Report()
    busy_table = table_of("Moving widths, 16 cores", ("", "nap, ms", "busy", "as told"))
    rate_table = table_of("Calls that do nothing", ("", "tasks a second", "CPU a task, ms"))
    for name in chosen.only:
        setting = SETTINGS[name]
        for kind in ("gang", "bag"):
            for seconds in setting.naps:
                busy, told = max(shares(setting, kind, seconds, chosen.seconds) for _ in range(chosen.rounds))
                report.shares.append(
                    {"engine": name, "kind": kind, "nap": seconds, "busy": busy, "as_told": told}
                )
                progress(f"{name}, {kind}, {1e3 * seconds:g} ms: busy {busy:.3f}, as told {told:.3f}")
                busy_table.add_row(f"{name}, {kind}", f"{1e3 * seconds:g}", f"{busy:.3f}", f"{told:.3f}")
                if seconds == DEMANDED_NAP[name] and kind == "bag":
                    report.targets.append(
                        Target(f"{name}: busy, {1e3 * seconds:g} ms", busy, setting.least_busy, True, "")
                    )
        tasks, each = max(rate(setting) for _ in range(chosen.rounds))
        report.tasks.append({"engine": name, "tasks_a_second": tasks, "cpu_ms": each})
        rate_table.add_row(name, f"{tasks:,.0f}", f"{each:.3f}")
        report.targets.append(Target(f"{name}: tasks", tasks, setting.least_rate, True, "a second"))
    return report.finish(chosen.json, busy_table, rate_table)


if __name__ == "__main__":
    sys.exit(main())
