"""What decisions per job are worth: against exact optima, policies of classes, wrong beliefs and long pauses.

    python benchmarks/jobs.py [--only PART …] [--quick] [--seeds N] [--jobs N] [--loads L …]
                              [--systems NAME …] [--laws NAME …] [--runs FILE]

Every part gives all policies the same jobs: a trace that is drawn from a seed, until the last job has left.
Seeds begin at 101; nothing was chosen on them. Ratios are of mean response times, pooled over seeds; their
standard errors are by the jackknife over seeds.

- ``exact``: two-stage Markov decision processes, and exponential classes of unequal mean size;
- ``grid``: eight size distributions, seven systems, loads 0.5, 0.7 and 0.9, remaining work unknown and known,
  against EQUI and the best policy of classes;
- ``learned``: size distributions from 300, 1000 and 5000 departures under EQUI, with curves known; and
  everything from data, p at the lower end of its interval;
- ``beliefs``: p believed 0.99 where it is 0.9, and hazards believed to go the wrong way;
- ``pauses``: whole cores with pauses at every change, and the same without a price of moves;
- ``fairness``: slowdown by decile of sizes, and the worst class, beside EQUI;
- ``cost``: a decision for 10 to 10 000 jobs.

``--runs FILE`` keeps every run on a line of JSON and goes on from what is there. ``--quick`` is a tenth of
the jobs, to try the script. Exits with 1 if a target was missed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from rich.console import RenderableType

import corewise as cw
from benchmarks.measure import Findings, Target, progress, table_of
from corewise.kit.arrays import Floats
from corewise.observation._kernels import ARRIVAL, DEPARTURE
from corewise.policies.base import BoundPolicy, bind
from corewise.policies.jobs.index import JobIndex
from corewise.policies.jobs.state import JobState
from corewise.sizes import Deterministic, Erlang, Hyperexponential, Lognormal, Pareto, SizeLaw, Weibull

LAWS: dict[str, SizeLaw] = {
    "det": Deterministic(),
    "Erl-4": Erlang(4),
    "h2-4": Hyperexponential(4.0),
    "ln-4": Lognormal(4.0),
    "Weib ½": Weibull(0.5),
    "par 1.5": Pareto(1.5, cut=1000.0),
    "h2-16": Hyperexponential(16.0),
    "ln-16": Lognormal(16.0),
}
SYSTEMS = ("p .5", "p .9", "p .99", "Example 1", "Example 2", "Example 3", "four")
UNKNOWN, KNOWN = "job-index", "job-index, known"
FIRST_SEED = 101

_PROTOTYPE = """
p_.5 0.892 0.913 0.908 0.895 0.902 0.868 0.872 0.872
p_.5 0.898 0.843 0.834 0.842 0.818 0.843 0.794 0.840
p_.9 0.906 0.925 0.917 0.905 0.913 0.870 0.898 0.878
p_.9 0.913 0.861 0.831 0.838 0.816 0.833 0.793 0.833
p_.99 0.859 0.900 0.832 0.788 0.847 0.669 0.787 0.702
p_.99 0.858 0.706 0.570 0.569 0.563 0.554 0.563 0.556
Example_1 0.887 0.898 0.894 0.889 0.893 0.879 0.881 0.883
Example_1 0.893 0.872 0.867 0.870 0.860 0.870 0.847 0.871
Example_2 0.795 0.837 0.825 0.807 0.828 0.758 0.789 0.771
Example_2 0.812 0.731 0.706 0.716 0.690 0.712 0.675 0.717
Example_3 0.891 0.913 0.910 0.900 0.906 0.879 0.886 0.884
Example_3 0.901 0.862 0.855 0.861 0.842 0.862 0.824 0.862
"""
PROTOTYPE = {
    line.split()[0].replace("_", " "): [
        [float(x) for x in row.split()[1:]]
        for row in _PROTOTYPE.split("\n")
        if row.startswith(line.split()[0] + " ")
    ]
    for line in _PROTOTYPE.strip().splitlines()
}
"""Mean response over EQUI at load 0.9 that a prototype reached, unknown and known remaining work, by law."""


def system_of(name: str, law: SizeLaw, load: float) -> cw.System:
    """One of the seven systems, with sizes of one distribution."""
    if name.startswith("p "):
        classes = [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(float(name[2:])))]
        cores = 16.0
    elif name == "four":
        cores = 64.0
        rows = (("a", 0.5, 1.0), ("b", 0.8, 1.0), ("c", 0.9, 0.5), ("d", 0.97, 0.25))
        classes = [cw.JobClass(one, size_rate, size_rate, cw.Amdahl(p)) for one, p, size_rate in rows]
    else:
        example = cw.load_system(f"paper:{name[-1]}")
        cores, classes = example.cores, list(example.classes)
    return cw.System(cores, [replace(one, sizes=law) for one in classes]).at_load(load)


def trace_of(system: cw.System, jobs: int, seed: int) -> cw.Trace:
    """About so many jobs, drawn from a stream for each class."""
    end = jobs / float(system.arrival_rates.sum())
    columns = []
    for rng, known in zip(
        np.random.default_rng(seed).spawn(len(system.classes)), system.classes, strict=True
    ):
        assert known.arrival_rate is not None
        count = int(rng.poisson(known.arrival_rate * end))
        sizes = known.sizes.draw(rng, count) / known.known_size_rate
        columns.append((np.sort(rng.uniform(0.0, end, count)), [known.name] * count, sizes))
    times = np.concatenate([column[0] for column in columns])
    names = np.array([name for column in columns for name in column[1]])
    order = np.argsort(times, kind="stable")
    sizes = np.concatenate([column[2] for column in columns])
    return cw.Trace(times[order], names[order].tolist(), sizes[order])


@cache
def class_rules(system: cw.System) -> dict[str, BoundPolicy]:
    """The policies of classes.

    EQUI; for several classes Whittle, the optimum for exponential sizes if there are two, and the residual
    policy on top of the better.
    """
    rules: dict[str, BoundPolicy] = {"equi": cw.Equi().on(system)}
    if len(system.classes) > 1:
        rules["whittle"] = cw.Whittle().on(system)
        base: BoundPolicy = rules["whittle"]
        if len(system.classes) == 2:
            rules["optimal"] = base = bind("optimal", system.as_memoryless())
        rules["residual"] = cw.Residual(base=base).on(system)
    return rules


# --- runs ------------------------------------------------------------------------------------------


@dataclass
class Runs:
    """Runs that were made, by what they are of; kept in a file if there is one."""

    file: Path | None
    rows: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            for line in self.file.read_text(encoding="utf-8").splitlines():
                key, value = json.loads(line)
                self.rows[key] = value

    def of(self, key: Sequence[object], work: Callable[[], Any]) -> Any:
        """What a run came to: as it was kept, or made now."""
        name = " | ".join(map(str, key))
        if name not in self.rows:
            began = process_time()
            self.rows[name] = work()
            progress(f"{name}: {process_time() - began:.1f} s of CPU")
            if self.file is not None:
                with self.file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps([name, self.rows[name]]) + "\n")
        return self.rows[name]


@dataclass(frozen=True)
class Options:
    """How much is run."""

    seeds: int
    jobs: int
    loads: tuple[float, ...]
    systems: tuple[str, ...]
    laws: tuple[str, ...]
    runs: Runs

    def numbers(self) -> range:
        return range(FIRST_SEED, FIRST_SEED + self.seeds)


def mean_time(
    system: cw.System,
    policy: BoundPolicy | cw.Policy | str,
    trace: cw.Trace,
    *,
    known: bool = False,
    whole: bool = False,
) -> float:
    """The mean response time of all jobs of a trace."""
    run = cw.simulate(system, policy, jobs=trace, known_sizes=known, whole=whole)
    return float(run.mean_response_time)


def means(
    chosen: Options,
    key: Sequence[object],
    system: cw.System,
    work: Callable[[cw.Trace, int], Mapping[str, float]],
) -> list[dict[str, float]]:
    """What `work` makes of the jobs of each seed."""

    def one(seed: int) -> dict[str, float]:
        return dict(work(trace_of(system, chosen.jobs, seed), seed))

    return [chosen.runs.of((*key, chosen.jobs, seed), partial(one, seed)) for seed in chosen.numbers()]


def ratio(rows: Sequence[Mapping[str, float]], top: str, bottom: str) -> tuple[float, float]:
    """The ratio of pooled means, and its standard error by the jackknife."""
    a, b = (np.array([row[name] for row in rows]) for name in (top, bottom))
    value = float(a.sum() / b.sum())
    if a.size < 2:
        return value, math.nan
    left = (a.sum() - a) / (b.sum() - b)
    return value, float(math.sqrt((a.size - 1) * np.mean((left - left.mean()) ** 2)))


def shown(value: tuple[float, float]) -> str:
    """A ratio with its standard error in its last digits."""
    return f"{value[0]:.3f}" if math.isnan(value[1]) else f"{value[0]:.3f} ±{1000 * value[1]:.0f}"


# --- parts -----------------------------------------------------------------------------------------


def exact(_: Options, report: Findings) -> Iterable[RenderableType]:
    """Against exact optima."""
    from tests.helpers.two_stages import Stages, decreasing_hazard
    from tests.policies.jobs.test_index import unequal
    from tests.policies.jobs.test_two_stages import SIZES, above_optimum

    grid = [
        (n, law, p, load, 8.0)
        for n, law in SIZES.items()
        for p in (0.5, 0.9, 0.99)
        for load in (0.5, 0.7, 0.85)
    ]
    others = {
        "cv2 1.8": decreasing_hazard(1.8),
        "cv2 19": decreasing_hazard(19.0),
        "rising": Stages((1.25, 5.0), 1.0),
    }
    fresh = [
        (n, law, p, load, cores)
        for (n, law), cores, p, load in product(
            others.items(), (4.0, 16.0), (0.8, 0.95, 0.99), (0.6, 0.8, 0.9)
        )
    ]
    table = table_of("Above the exact optimum, %", ["", "cells", "mean", "worst"])
    for title, cells, mean, worst in (
        ("two stages, 8 cores", grid, 0.15, 0.8),
        ("fresh cells", fresh, 0.25, 1.6),
    ):
        found = []
        for name, law, p, load, pool in cells:
            found.append(above_optimum(law, p, load, pool))
            progress(f"{name}, p {p}, load {load}, {pool:g} cores: {found[-1]:.3f} %")
        table.add_row(title, str(len(found)), f"{np.mean(found):.3f}", f"{max(found):.2f}")
        report.targets.append(Target(f"{title}: mean", float(np.mean(found)), mean, at_least=False, unit="%"))
        report.targets.append(Target(f"{title}: worst", max(found), worst, at_least=False, unit="%"))
    pairs = (
        ((0.97, 0.97), 5.0, 0.6, 4.0), ((0.8, 0.9), 20.0, 0.7, 4.0), ((0.99, 0.9), 3.0, 0.8, 4.0),
        ((0.6, 0.95), 8.0, 0.6, 12.0), ((0.98, 0.98), 2.0, 0.85, 12.0), ((0.9, 0.7), 15.0, 0.8, 6.0),
    )  # fmt: skip
    rules: tuple[cw.Policy, ...] = (JobIndex(), cw.Whittle(), cw.Equi())
    gaps = []
    for curves, times, load, cores in pairs:
        system = unequal(curves, times, load, cores)
        least = cw.solve(system).mean_jobs
        gaps.append([100.0 * (cw.evaluate(system, rule).mean_jobs / least - 1.0) for rule in rules])
    for rule, values in zip(rules, zip(*gaps, strict=True), strict=True):
        title = f"exponential classes, means 2 to 20 : 1, {rule.name}"
        table.add_row(title, str(len(values)), f"{np.mean(values):.3f}", f"{max(values):.2f}")
    yield table


def grid(chosen: Options, report: Findings) -> Iterable[RenderableType]:
    """The steady-state grid."""
    above, far = [], []
    for load in chosen.loads:
        headings = ["", *chosen.laws]
        table = table_of(f"Mean response time over EQUI, load {load}", headings)
        for name in chosen.systems:
            cells: dict[str, list[str]] = {"best of classes": [], UNKNOWN: [], KNOWN: []}
            for law_name in chosen.laws:
                system = system_of(name, LAWS[law_name], load)
                rows = means(
                    chosen,
                    ("grid", load, name, law_name),
                    system,
                    partial(everything, system),
                )
                rules = [rule for rule in rows[0] if rule not in (UNKNOWN, KNOWN)]
                best = min(rules, key=lambda rule: ratio(rows, rule, "equi")[0])
                cells["best of classes"].append(shown(ratio(rows, best, "equi")))
                for k, rule in enumerate((UNKNOWN, KNOWN)):
                    over, to_best = ratio(rows, rule, "equi"), ratio(rows, rule, best)
                    cells[rule].append(shown(over))
                    above.append((to_best[0] - 1.0, to_best[1], f"{rule}, {name}, {law_name}, load {load}"))
                    if load == 0.9 and name in PROTOTYPE:
                        far.append(over[0] - PROTOTYPE[name][k][list(LAWS).index(law_name)])
            for rule, row in cells.items():
                table.add_row(f"{name}: {rule}", *row)
        yield table
    worst = max(above)
    yield f"farthest above the best of classes: {worst[2]}: {100 * worst[0]:+.2f} ± {100 * worst[1]:.2f} %"
    beyond = [row for row in above if row[0] - 2.0 * np.nan_to_num(row[1]) > 0.005]
    report.targets.append(
        Target("cells surely 0.5 % above the best of classes", len(beyond), 0, at_least=False, unit="")
    )
    report.targets.append(
        Target("farthest above the best of classes", 100 * worst[0], 0.5, at_least=False, unit="%")
    )
    if far:
        mean = 100.0 * float(np.mean(far))
        span = f"{100 * min(far):+.1f} to {100 * max(far):+.1f} points"
        yield f"over EQUI at load 0.9, minus the prototype: mean {mean:+.2f}, {span}"
        report.targets.append(
            Target("gain at load 0.9 below the prototype's", mean, 1.0, at_least=False, unit="points")
        )


def everything(system: cw.System, trace: cw.Trace, _: int) -> dict[str, float]:
    """The mean response time under each policy of classes, and under job-index."""
    found = {name: mean_time(system, rule, trace) for name, rule in class_rules(system).items()}
    index = JobIndex().on(system)
    return found | {
        UNKNOWN: mean_time(system, index, trace),
        KNOWN: mean_time(system, index, trace, known=True),
    }


def learned(chosen: Options, report: Findings) -> Iterable[RenderableType]:
    """Learned size distributions, and everything learned."""
    counts = (300, 1000, 5000)
    headings = ["load 0.9", *(f"{n}" for n in counts), *(f"all, {n}" for n in counts)]
    table = table_of("Learned over known distribution; everything from data over EQUI", headings)
    worst = 0.0
    for name, law_name in product(
        ("p .9", "p .99", "Example 2"), ("ln-4", "h2-16", "Weib ½", "Erl-4", "exp")
    ):
        law = LAWS.get(law_name, Hyperexponential(1.0))
        system = system_of(name, law, 0.9)

        def work(trace: cw.Trace, seed: int, system: cw.System = system) -> dict[str, float]:
            found = {
                "equi": mean_time(system, cw.Equi(), trace),
                "known": mean_time(system, JobIndex(), trace),
            }
            for n in counts:
                sizes, everything_ = learned_systems(system, n, seed)
                found[f"{n}"] = mean_time(system, JobIndex().on(sizes), trace)
                found[f"all, {n}"] = mean_time(
                    system, JobIndex(load=min(everything_.load, 1.0)).on(everything_), trace
                )
            return found

        rows = means(chosen, ("learned", name, law_name), system, work)
        over = [ratio(rows, f"all, {n}", "equi") for n in counts]
        worst = max(worst, *(value[0] for value in over))
        known = [shown(ratio(rows, f"{n}", "known")) for n in counts]
        table.add_row(f"{name}, {law_name}", *known, *map(shown, over))
    yield table
    report.targets.append(Target("everything from data over EQUI", worst, 1.05, at_least=False, unit=""))


def learned_systems(system: cw.System, departures: int, seed: int) -> tuple[cw.System, cw.System]:
    """The system with size distributions learned from so many departures under EQUI, and one all learned.

    In that, rates and distributions are learned, and curves have p at the lower end of its interval.
    """
    run = cw.simulate(system, "equi", departures=departures, rng=seed + 10_000, record=True)
    assert run.path is not None
    found = cw.estimate(run.path, system, sizes="any")
    sizes, all_ = [], []
    time = float(run.time)
    for known in system.classes:
        row = found[known.name]
        law = row.size_law or cw.sizes.Exponential()
        sizes.append(replace(known, sizes=law))
        left = max(row.departures, 1)
        low = row.interval[0]
        all_.append(
            replace(
                known,
                sizes=law,
                speedup=cw.Amdahl(low if low > 0.0 else 0.5 * max(row.value, 0.1)),
                arrival_rate=left / time,
                size_rate=known.size_rate if row.size_rate is None else row.size_rate.value,
            )
        )
    return cw.System(system.cores, sizes), cw.System(system.cores, all_)


def beliefs(chosen: Options, report: Findings) -> Iterable[RenderableType]:
    """Wrong beliefs, declared without any doubt."""
    table = table_of(
        "Wrong beliefs at load 0.9: mean response time over EQUI",
        ["", "widest 4", "widest 2", "known, 4", "known, 2"],
    )
    narrow = 0.0
    cases: list[tuple[str, cw.System, cw.System]] = []
    for law_name in ("ln-4", "h2-16", "det"):
        truth = system_of("p .9", LAWS[law_name], 0.9)
        steep = replace(truth.classes[0], speedup=cw.Amdahl(0.99))
        cases.append((f"p believed .99, true .9: {law_name}", truth, cw.System(truth.cores, [steep])))
    for true, believed in (
        ("det", "ln-4"),
        ("Erl-4", "h2-16"),
        ("ln-4", "Erl-4"),
        ("h2-16", "Erl-4"),
        ("h2-16", "det"),
    ):
        truth = system_of("p .9", LAWS[true], 0.9)
        cases.append((f"{believed} believed, true {true}", truth, system_of("p .9", LAWS[believed], 0.9)))
    for title, truth, believed_system in cases:
        sees = (False, True) if title.startswith("p believed") else (False,)

        def work(
            trace: cw.Trace,
            _: int,
            truth: cw.System = truth,
            seen: cw.System = believed_system,
            sees: tuple[bool, ...] = sees,
        ) -> dict[str, float]:
            found = {"equi": mean_time(truth, cw.Equi(), trace)}
            for widest, known in product((4.0, 2.0), sees):
                policy = JobIndex(widest=widest).on(seen)
                found[f"{widest:g} {known}"] = mean_time(truth, policy, trace, known=known)
            return found

        rows = means(chosen, ("beliefs", title), truth, work)
        values = [ratio(rows, f"{widest:g} {known}", "equi") for known, widest in product(sees, (4.0, 2.0))]
        table.add_row(title, *map(shown, values), *(["–"] * (4 - len(values))))
        if title.startswith("p believed"):
            narrow = max(narrow, values[1][0], values[3][0])
    yield table
    report.targets.append(
        Target("p believed .99, true .9, widest 2", narrow, 1.2, at_least=False, unit="of EQUI")
    )


def pauses(chosen: Options, report: Findings) -> Iterable[RenderableType]:
    """Whole cores that cost a pause to change."""
    table = table_of(
        "Whole cores with pauses: over the best of EQUI and Whittle; unknown, known",
        ["", *(f"δμ {delta}" for delta in (0.01, 0.05, 0.2)), "resizes a job", "no price of moves: δμ .2"],
    )
    runaway = []
    for load, name, law_name in product((0.7, 0.9), ("p .9", "p .99", "Example 2"), ("ln-4", "h2-16", "det")):
        cells, moved, free = [], 0.0, (math.nan, math.nan)
        for delta in (0.01, 0.05, 0.2):
            system = paused(system_of(name, LAWS[law_name], load), delta)

            def work(
                trace: cw.Trace, _: int, system: cw.System = system, delta: float = delta
            ) -> dict[str, float]:
                found = {rule: mean_time(system, rule, trace, whole=True) for rule in ("equi", "whittle")}
                run = cw.simulate(system, JobIndex(), jobs=trace, whole=True)
                found |= {
                    UNKNOWN: float(run.mean_response_time),
                    "moves": float(run.resizes or 0) / run.departures,
                }
                found[KNOWN] = mean_time(system, JobIndex(), trace, known=True, whole=True)
                if delta == 0.2:
                    with unpriced():
                        found["unpriced"] = mean_time(system, JobIndex(), trace, whole=True)
                return found

            rows = means(chosen, ("pauses", load, name, law_name, delta), system, work)
            best = min(("equi", "whittle"), key=lambda rule: ratio(rows, rule, "equi")[0])
            cells.append(f"{shown(ratio(rows, UNKNOWN, best))}, {ratio(rows, KNOWN, best)[0]:.3f}")
            moved = float(np.mean([row["moves"] for row in rows]))
            if delta == 0.2:
                free = ratio(rows, "unpriced", UNKNOWN)
                runaway.append(free[0])
        table.add_row(f"load {load}, {name}, {law_name}", *cells, f"{moved:.2f}", shown(free))
    yield table
    report.targets.append(
        Target("without a price of moves over with it, worst", max(runaway), 2.0, at_least=True, unit="")
    )


def paused(system: cw.System, delta: float) -> cw.System:
    """The system with pauses of so many mean sizes."""
    return system.with_classes(
        replace(one, resize_pause=delta / one.known_size_rate) for one in system.classes
    )


@contextmanager
def unpriced() -> Iterator[None]:
    """Decisions that take moves to be free, where they are not."""
    places = [module for name, module in sys.modules.items() if name.startswith("corewise.")]
    places = [module for module in places if hasattr(module, "MOVED")]
    before = [vars(module)["MOVED"] for module in places]
    try:
        for module in places:
            vars(module)["MOVED"] = 0.0
        yield
    finally:
        for module, value in zip(places, before, strict=True):
            vars(module)["MOVED"] = value


def fairness(chosen: Options, _: Findings) -> Iterable[RenderableType]:
    """Slowdown by decile of sizes, over EQUI's."""
    headings = ["load 0.9", *(f"{k}" for k in range(1, 11)), "99 %", "worst class"]
    table = table_of(
        "Mean time over size by decile of sizes, over EQUI's; 99th percentile; worst class", headings
    )
    for name, law_name, known in product(("p .9", "p .99", "Example 2"), ("ln-4", "h2-16"), (False, True)):
        system = system_of(name, LAWS[law_name], 0.9)

        def work(
            trace: cw.Trace, _: int, system: cw.System = system, known: bool = known
        ) -> dict[str, float]:
            found: dict[str, float] = {}
            for rule, policy, sees in (("equi", cw.Equi(), False), ("index", JobIndex(), known)):
                times = response_times(system, policy, trace, known=sees)
                found |= {f"{rule} {k}": value for k, value in by_decile(trace, times).items()}
            return found

        rows = means(chosen, ("fairness", name, law_name, known), system, work)
        cells = [f"{ratio(rows, f'index {k}', f'equi {k}')[0]:.2f}" for k in [*range(10), "tail"]]
        worst = max(ratio(rows, f"index {one}", f"equi {one}")[0] for one in system.names)
        table.add_row(f"{name}, {law_name}{', known' if known else ''}", *cells, f"{worst:.2f}")
    yield table


def response_times(system: cw.System, policy: cw.Policy, trace: cw.Trace, *, known: bool) -> Floats:
    """The time that each job of a trace took."""
    path = cw.simulate(system, policy, jobs=trace, known_sizes=known, record=True).path
    assert path is not None
    began, took = {}, np.empty(len(trace.time))
    order: dict[str, list[int]] = {name: [] for name in system.names}
    for k, name in enumerate(trace.job_class):
        order[name].append(k)
    came = dict.fromkeys(system.names, 0)
    for time, event, i, job in zip(
        path.time.tolist(), path.event.tolist(), path.job_class.tolist(), path.job.tolist(), strict=True
    ):
        if event == ARRIVAL:
            name = path.names[i]
            began[job] = (order[name][came[name]], time)
            came[name] += 1
        elif event == DEPARTURE:
            k, since = began.pop(job)
            took[k] = time - since
    assert not began
    return took


def by_decile(trace: cw.Trace, times: Floats) -> dict[str, float]:
    """Mean slowdowns by decile of sizes, the 99th percentile of times, and mean times by class."""
    places = np.argsort(np.argsort(trace.size, kind="stable")) * 10 // trace.size.size
    slow = times / trace.size
    names = np.array(trace.job_class)
    return (
        {str(k): float(slow[places == k].mean()) for k in range(10)}
        | {"tail": float(np.percentile(times, 99))}
        | {name: float(times[names == name].mean()) for name in sorted(set(trace.job_class))}
    )


def cost(*__: object) -> Iterable[RenderableType]:
    """CPU time of a decision."""
    table = table_of(
        "CPU of a decision, ms (median), 64 cores",
        ["jobs", "shares", "shares, known", "whole", "whole, known"],
    )
    system = system_of("four", LAWS["ln-4"], 0.9)
    index, rng = JobIndex().on(system), np.random.default_rng(FIRST_SEED)
    for count in (10, 100, 1000, 10_000):
        cells = []
        for whole, known in product((False, True), (False, True)):
            jobs = [
                JobState(
                    f"{k}",
                    "abcd"[k % 4],
                    attained=float(done),
                    remaining=float(left) if known else None,
                    held=int(k < 64),
                )
                for k, (done, left) in enumerate(rng.lognormal(size=(count, 2)))
            ]
            taken = []
            for _ in range(12 if count < 10_000 else 4):
                began = process_time()
                index.allocate_jobs(jobs, whole=whole, pause=0.01 if whole else 0.0)
                taken.append(process_time() - began)
            cells.append(f"{1000 * float(np.median(taken)):.2f}")
        table.add_row(str(count), *cells)
    yield table


PARTS: dict[str, Callable[[Options, Findings], Iterable[RenderableType]]] = {
    part.__name__: part for part in (exact, grid, learned, beliefs, pauses, fairness, cost)
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    parser.add_argument("--seeds", type=int, default=4, help="traces of each cell (default 4)")
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs of each trace (default 10 000)")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 0.7, 0.9], help="loads of the grid")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="NAME")
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=list(LAWS), metavar="NAME")
    parser.add_argument("--runs", type=Path, metavar="FILE", help="keep runs here, and go on from there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the targets to FILE")
    given = parser.parse_args()
    jobs = given.jobs // 10 if given.quick else given.jobs
    runs = Runs(given.runs)
    chosen, report = (
        Options(given.seeds, jobs, tuple(given.loads), tuple(given.systems), tuple(given.laws), runs),
        Findings(),
    )
    shown_parts = [part for name in given.only for part in PARTS[name](chosen, report)]
    return report.finish(given.json, *shown_parts, width=160)


if __name__ == "__main__":
    sys.exit(main())
