"""What a move costs: the price rule beside its rivals, beside the exact optimum, and with learned parameters.

    python benchmarks/moving.py table [--departures 1e5] [--kinds A,B] [--cores 8,20] [--loads .3,.7,.95]
                                      [--pauses .01,.05,.2,1] [--runs FILE]
    python benchmarks/moving.py exact [--cores 4] [--most 8] [--loads .3,.5]
    python benchmarks/moving.py learned [--departures 1e5]

All numbers are mean jobs over those of the optimum in whole cores with free moves. Exits with 1 if a demand
is missed: in the table the price rule is within 2 % of the best of the others; beside the exact optimum
within 6 %, and within 3 % for pauses up to .05; with curves learned from 1000 departures within 5 % of
itself. With ``--runs`` rows of the table are added to a file as they are done, and those in it are not run
again.
"""

from __future__ import annotations

import argparse
import math
import sys
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import corewise as cw
from benchmarks.instruments.kept_runs import KeptRuns
from benchmarks.instruments.regret import accumulate_regret
from corewise.control.priced.priced import solve_priced
from corewise.errors import UnstablePolicy
from corewise.policies.base import BoundPolicy, bind
from corewise.policies.moving.held import Held
from corewise.policies.moving.rule import PriceTables, WidthRule, Widths, job_times

PAUSES = (0.01, 0.05, 0.2, 1.0)
KINDS = {"A": ((0.3, 0.8), (1.0, 1.0)), "B": ((0.1, 0.95), (4.0, 1.0))}
"""Amdahl's p and the size rates of two classes, which bring the same work."""


def system(kind: str, cores: int, load: float, pause: float) -> cw.System:
    """Return a system; the pause is in the time that a mean job of the second class takes on one core."""
    fractions, rates = KINDS[kind]
    rows = zip(("one", "two"), fractions, rates, strict=True)
    classes = [
        cw.JobClass(name, 0.5 * load * cores * rate, rate, cw.Amdahl(p), resize_pause=pause)
        for name, p, rate in rows
    ]
    return cw.System(cores, classes)


def one_event_ahead(given: cw.System) -> BoundPolicy:
    """Return the rival that weighs a move against what it gains until the next event."""
    priced = solve_priced(given)
    solution = cw.solve(given, whole_cores=True, tolerance=1e-6)
    base = priced.tables
    shape = tuple(int(n) + 1 for n in base.capacity)
    part = tuple(slice(n) for n in shape)
    values = solution.values[part]
    total = _event_rates(given, solution, part)
    price = base.idle * total
    pool = int(given.cores)
    widths = np.arange(pool + 1.0)
    running, paused = np.zeros(base.running.shape), np.zeros(base.running.shape)
    for i, known in enumerate(given.classes):
        worth = np.diff(values, axis=i, prepend=np.take(values, [0], axis=i)).ravel()
        gain = worth[:, None] * known.known_size_rate * known.speedup.rate(widths)
        offer = gain - price[:, None] * widths
        running[i] = (offer.max(axis=1, keepdims=True) - offer) / total[:, None]
        paused[i] = running[i] + known.resize_pause * gain
    tables = PriceTables(base.capacity, running, paused, running[:, :, 0].copy(), base.idle)
    pauses = np.array([known.resize_pause for known in given.classes])
    rule = WidthRule("price", pauses, job_times(given, pool), tables)
    return BoundPolicy(given, "one event ahead", Widths(priced.base.on(given).decision, rule))


def _event_rates(given: cw.System, solution: cw.results.Solution, part: tuple[slice, ...]) -> np.ndarray:
    """Return λ and the rate of departures under the free optimum, by state."""
    held = np.rint(solution.policy.cores[(slice(None), *part)]).astype(np.int64)
    total = np.full(held.shape[1:], float(given.arrival_rates.sum()))
    for n in np.ndindex(total.shape):
        for i, known in enumerate(given.classes):
            if n[i]:
                low, extra = divmod(int(held[(i, *n)]), n[i])
                slow, fast = known.speedup.rate(np.array([float(low), low + 1.0]))
                total[n] += known.known_size_rate * ((n[i] - extra) * slow + extra * fast)
    return total.ravel()


def regret(given: cw.System, departures: int, seed: int) -> float:
    """Return the mean number of jobs of the rival that accumulates regret, on jobs drawn from a seed."""
    solution = cw.solve(given, whole_cores=True, tolerance=1e-6)
    rng = np.random.default_rng(seed)
    values, pool = solution.values, int(given.cores)
    worth = np.stack(
        [
            rate * np.diff(values, axis=i, prepend=np.take(values, [0], axis=i))
            for i, rate in enumerate(given.size_rates.tolist())
        ]
    )
    share = given.arrival_rates / given.arrival_rates.sum()
    counts = [int(departures * part) for part in share]
    times = tuple(
        np.cumsum(rng.exponential(1.0 / rate, n)) for n, rate in zip(counts, given.arrival_rates, strict=True)
    )
    sizes = tuple(rng.exponential(1.0 / rate, n) for n, rate in zip(counts, given.size_rates, strict=True))
    speeds = np.stack([known.speedup.rate(np.arange(pool + 1.0)) for known in given.classes])
    pauses = np.array([known.resize_pause for known in given.classes])
    cores = np.rint(solution.policy.cores).astype(np.int64)
    rates = (given.arrival_rates, given.size_rates, pauses)
    return accumulate_regret(rates, speeds, cores, worth, times, sizes)[0]


def mean(
    given: cw.System, policy: BoundPolicy | Held | str, departures: int, seed: int
) -> tuple[float, float]:
    """Return the mean number of jobs and the resizes per event; infinite if the policy does not keep up."""
    try:
        run = cw.simulate(given, policy, moving_costs=True, departures=departures, rng=seed)
    except UnstablePolicy:
        return math.inf, math.nan
    return run.mean_jobs, run.resizes_per_event


def table(arguments: argparse.Namespace) -> bool:
    """Print the price rule beside its rivals; return whether it is within 2 % of the best of them."""
    met = True
    print(
        "system | c, load | pause | follow | regret | one event ahead | never | price rule (resizes an event)"
    )
    runs = KeptRuns(arguments.runs)
    for case in product(arguments.kinds, arguments.cores, arguments.loads, arguments.pauses):
        of = [*case, arguments.departures]
        *rivals, ratio, resizes = runs.run(of, partial(_row, *of))
        fine = ratio <= 1.02 * min(rivals)
        met &= fine
        shown = " | ".join(f"{value:.2f}" for value in rivals)
        about, verdict = "{} | {}, {} | {}".format(*case), "" if fine else " MISSED"
        print(f"{about} | {shown} | {ratio:.3f} ({resizes:.2f}){verdict}", flush=True)
    return met


def _row(kind: str, cores: int, load: float, pause: float, departures: int) -> list[float]:
    """Return the rivals and the price rule over the optimum with free moves, and its resizes per event."""
    given = system(kind, cores, load, pause)
    free = cw.solve(given, whole_cores=True, tolerance=1e-7).mean_jobs
    if load > 0.9:
        departures *= 5
    # With free moves on the same jobs, so that what is random is in both.
    base = mean(system(kind, cores, load, 0.0), "priced", departures, 1)[0]
    follow, _ = mean(given, "optimal", departures, 1)
    never = mean(given, Held(), departures, 1)[0]
    ahead = mean(given, one_event_ahead(given), departures, 1)[0]
    price, resizes = mean(given, "priced", departures, 1)
    accumulated = regret(given, departures, 1) / free
    return [follow / base, accumulated, ahead / base, never / base, price / base, resizes]


def exact(arguments: argparse.Namespace) -> bool:
    """Print the price rule beside the exact optimum with held widths; return whether it is near enough."""
    from tests.helpers.held_chain import HeldChain

    met = True
    print("system | c, load | pause | states | exact | price rule | above")
    for kind in arguments.kinds:
        for cores in arguments.cores:
            for load in arguments.loads:
                for pause in arguments.pauses:
                    given = system(kind, cores, load, pause)
                    free = cw.solve(given, whole_cores=True, tolerance=1e-7).mean_jobs
                    chain = HeldChain(given, arguments.most, arguments.stops)
                    best = chain.optimum(free, 1e-4)
                    cost = chain.cost(bind("priced", given), best, 1e-4)
                    fine = cost <= (1.03 if pause <= 0.05 else 1.06) * best
                    met &= fine
                    print(
                        f"{kind} | {cores}, {load} | {pause} | {chain.size} | {best / free:.3f} "
                        f"| {cost / free:.3f} | {cost / best - 1:.2%}{'' if fine else ' MISSED'}",
                        flush=True,
                    )
    return met


def learned(arguments: argparse.Namespace) -> bool:
    """Print the price rule with curves from 1000 departures beside itself with the true ones."""
    met = True
    print("system | c, load | pause | seeds | learned / true: mean, worst")
    for kind in KINDS:
        for cores in arguments.cores:
            for load in arguments.loads:
                for pause in PAUSES[1:3]:
                    given = system(kind, cores, load, pause)
                    truth = mean(given, "priced", arguments.departures, 99)[0]
                    ratios = []
                    for seed in range(6):
                        seen = cw.simulate(given, "held", moving_costs=True, departures=1000, rng=seed)
                        found = cw.estimate(seen.statistics, given)
                        curves = {name: row.curve for name, row in found.items() if row.curve is not None}
                        policy = bind("priced", given.with_curves(curves))
                        ratios.append(mean(given, policy, arguments.departures, 99)[0] / truth)
                    fine = float(np.mean(ratios)) <= 1.05
                    met &= fine
                    print(
                        f"{kind} | {cores}, {load} | {pause} | 6 | {np.mean(ratios):.3f}, {max(ratios):.3f}"
                        f"{'' if fine else ' MISSED'}",
                        flush=True,
                    )
    return met


def main() -> int:
    """Run what is asked for; return 1 if a demand was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["table", "exact", "learned"])
    parser.add_argument("--departures", type=lambda text: int(float(text)), default=100_000)
    parser.add_argument("--cores", type=lambda text: [int(c) for c in text.split(",")], default=[8, 20])
    parser.add_argument(
        "--loads", type=lambda text: [float(x) for x in text.split(",")], default=[0.3, 0.7, 0.95]
    )
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--pauses", type=lambda text: [float(x) for x in text.split(",")], default=PAUSES)
    parser.add_argument("--runs", type=Path, metavar="FILE", help="where rows of the table are kept")
    parser.add_argument("--most", type=int, default=8, help="jobs at which others are lost, for exact")
    parser.add_argument("--stops", action="store_true", help="whether the exact optimum may stop jobs")
    arguments = parser.parse_args()
    return 0 if {"table": table, "exact": exact, "learned": learned}[arguments.what](arguments) else 1


if __name__ == "__main__":
    raise SystemExit(main())
