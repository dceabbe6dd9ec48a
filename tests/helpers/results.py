"""One of every public result, small."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import corewise as cw
from corewise.control.improve.improved import improve
from corewise.studies.allocation import allocate
from corewise.studies.service_levels import parse_level, plan_levels


def system_of(names: tuple[str, ...]) -> cw.System:
    classes = [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.3 + 0.4 * (i % 2))) for i, name in enumerate(names)]
    return cw.System(4 * len(names), classes)


def few_of(system: cw.System, folder: Any) -> Iterator[object]:
    """One of every public result, of a system of two classes."""
    name = system.names[0]
    solution = cw.solve(system, capacity=12)
    run = cw.simulate(system, cw.Equi(), departures=300, rng=1, record=True)
    assert run.path is not None
    runs = cw.replicate(system, cw.Equi(), n=3, departures=50, rng=1, percentiles=[50])
    estimates = cw.estimate(run, system)
    yield from (system, system.classes[0], cw.Change(3.0, name, cw.Amdahl(0.5)))
    yield from (solution, solution.policy, solution.performance, *solution.performance.classes.values())
    yield solution.performance.classes
    yield from (cw.Equi().on(system), cw.Priority(system.names).on(system))
    yield from (run, run.classes, *run.classes.values(), run.state, run.statistics, run.statistics.classes[0])
    yield from (run.response_times, *run.response_times.values())
    yield from (run.path, run.path.response_times)
    lognormal = [replace(known, sizes=cw.sizes.Lognormal(2.0)) for known in system.classes]
    slowdowns = cw.simulate(cw.System(system.cores, lognormal), cw.Equi(), departures=300, rng=1).slowdowns
    assert slowdowns is not None
    yield from (slowdowns, slowdowns.overall)
    yield from (runs, runs.classes, runs.classes[name], runs.classes[name].percentiles[0])
    yield from (estimates, *estimates.values(), estimates[name].arrival_rate, estimates[name].parameters)
    yield from cw.estimate(run, system, family="auto")[name].candidates
    band = cw.estimate(run, system, family="free")[name].band
    assert band is not None
    yield band
    fit = cw.goodness_of_fit(run, system, estimates)
    yield from (fit, *fit.values())
    information = cw.fisher_information(system, cw.Equi(), capacity=12)
    yield from (information, *information.values(), cw.lower_bounds(system))
    comparison = cw.compare(system, [cw.Equi(), cw.Priority(system.names)], capacity=12)
    yield from (comparison, *comparison.rows)
    plan = cw.plan(system, target=0.9, policy="equi", rng=1)
    yield from (plan, plan.point)
    improvement = improve(system, rng=1, steps=1, events=2000)
    yield from (improvement, *improvement.rounds)
    levels = plan_levels(system, [parse_level("p95=9")], cores=[8, 12], rng=1)
    yield from (levels, levels.curve[0], levels.curve[0].attained[0], levels.curve[0].attained[0].level)
    shares = allocate(system, "equi", dict.fromkeys(system.names, 2))
    yield from (shares, *shares.classes)
    yield from _learned(system)
    yield cw.ReplayPlant(run.path)
    sweep = {"systems": {name: system}, "seeds": 2, "simulate": [{"policies": ["equi"], "departures": 250}]}
    if name.isprintable():
        with ThreadPoolExecutor(1) as executor, cw.sweep(sweep, executor=executor) as rows:
            yield from (*rows, rows, rows.plan, *rows.means)
    if "\u2028" not in name and "\u202e" not in name:
        cw.save_events(run.path, folder / "log.csv")
        yield cw.load_events(folder / "log.csv", system)


def _learned(system: cw.System) -> Iterator[object]:
    plant = cw.SimulatedPlant(system, rng=1)
    algorithm = cw.adaptive(system, departures=100, steps=2, policy=cw.Whittle())
    learning = cw.learn(plant, algorithm, diagnose=False)
    epochs = [*learning]
    yield from (plant, algorithm, learning, *epochs, epochs[0].seconds)
    yield cw.ChangeDetector(system, between_alarms=1e5)
    yield alarm(system.names[0])


def alarm(name: str) -> cw.results.Alarm:
    rates = {"arrival_rate": 1.0}
    return cw.results.Alarm(
        name, "curve", 900, 812.3, (790.0, 850.0), 3.0, (2.0, 4.0), rates, rates, 9.0, 8.0, 1e7
    )
