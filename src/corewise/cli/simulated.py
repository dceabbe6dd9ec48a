"""What ``corewise simulate`` has found: as plain values, and as people read it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from corewise.cli.output import headline, print_facts, print_table, time_shown
from corewise.kit.numbers import value_with_interval
from corewise.kit.spoken import labelled, of_time

if TYPE_CHECKING:
    from corewise.model.system import System
    from corewise.simulation.replicate import Replications
    from corewise.simulation.run import Run

__all__ = ["as_mapping", "print_result", "times_of"]


def as_mapping(
    found: Run | Replications,
    percentiles: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    replications: int,
    state: tuple[int, ...] | None,
) -> dict[str, Any]:
    """Return a result as plain values, for JSON; `state` is where a single run ended."""
    return {
        "policy": found.policy,
        "mean_jobs": found.mean_jobs,
        "interval": found.interval,
        "mean_response_time": found.mean_response_time,
        "settled": found.settled,
        "events": found.events,
        "departures": found.departures,
        "time": found.time,
        "unit": found.unit,
        "replications": replications,
        "state": state,
        "classes": [
            {
                "name": name,
                "arrivals": row.arrivals,
                "departures": row.departures,
                "mean_jobs": row.mean_jobs,
                "interval": row.interval,
                "mean_response_time": row.mean_response_time,
                "percentiles": percentiles[name],
            }
            for name, row in found.classes.items()
        ],
    }


def times_of(run: Run) -> list[dict[str, Any]]:
    """Return the response times of each class as plain values."""
    return [
        {
            "name": name,
            "jobs": times.jobs,
            "mean": times.mean,
            "interval": times.interval,
            "sample_mean": times.sample_mean,
            "percentiles": [
                {"percent": percent, "value": value} for percent, value in times.percentiles.items()
            ],
        }
        for name, times in run.response_times.items()
    ]


def print_result(result: Mapping[str, Any], system: System, seed: int | None, seconds: float) -> None:
    """Print a result; `seed` is None where nothing is random."""
    several = result["replications"] > 1
    how = f"over {result['replications']} replications" if several else "by batch means"
    interval = f"(95 % confidence, {how})"
    if math.isnan(result["interval"][0]):
        interval = f"({_no_interval(system, recorded=seed is None)})"
    events = result["events"]
    facts = [
        ("mean number of jobs", f"{value_with_interval(result['mean_jobs'], result['interval'])} {interval}"),
        ("mean response time", time_shown(_shown(result["mean_response_time"]), system.unit)),
        ("departures", f"{result['departures']:,} in {result['time']:,.6g} {system.unit or 'units of time'}"),
        ("speed", f"{events:,} events in {seconds:.3g} s, {events / seconds:,.0f} a second"),
    ]
    if "resizes" in result:
        often = f"{result['resizes_per_event']:.3g} for each arrival or departure"
        facts.append(("resizes", f"{result['resizes']:,}, {often}"))
    if result["state"] is not None:
        jobs = ", ".join(f"{name} {n}" for n, name in zip(result["state"], system.names, strict=True))
        facts.append(("jobs at the end", jobs))
    if seed is not None:
        facts.append(("seed", f"{seed} (the same command with --seed {seed} gives the same numbers)"))
    if system.load >= 1.0:
        facts.append(("note", "the load is not below 1: under any policy the number of jobs keeps growing"))
    elif not result["settled"]:
        facts.append(("note", _unsettled(result)))
    facts += [
        ("note", f"the curve of {change.name} changed at time {change.time:g}{of_time(system.unit)}")
        for change in system.changes
        if change.time < result["time"] / result["replications"]
    ]
    print_facts(headline(f"Simulated {result['policy']}", replace(system, changes=())), facts)
    times = labelled("mean response time", system.unit)
    columns = ["class", "arrivals", "departures", "mean number of jobs", times]
    rows = [
        [
            row["name"],
            f"{row['arrivals']:,}",
            f"{row['departures']:,}",
            value_with_interval(row["mean_jobs"], row["interval"]),
            _shown(row["mean_response_time"]),
        ]
        for row in result["classes"]
    ]
    print_table(columns, rows)
    _print_percentiles(result["classes"], system.unit, together=3 if several else 6)


def _no_interval(system: System, *, recorded: bool) -> str:
    """Return in words why there is no confidence interval."""
    if recorded:
        return "of these jobs; nothing is random"
    if any(math.isinf(job_class.sizes.cv2) for job_class in system.classes):
        return "no confidence interval: the variance of sizes is infinite"
    return "too short a run for a confidence interval"


def _unsettled(result: Mapping[str, Any]) -> str:
    """Return in words that a run has not settled."""
    left = f"{result['departures']:,} have left"
    over = (
        "many jobs are left over"
        if result["state"] is None
        else f"{sum(result['state']):,} jobs are left over"
    )
    return f"not settled: {left} and {over}, so these are not the means of the long run; simulate longer"


def _print_percentiles(classes: Sequence[Mapping[str, Any]], unit: str | None, together: int) -> None:
    """Print the percentiles of the response times, so many of them beside each other in a table."""
    percents = [percentile["percent"] for percentile in classes[0]["percentiles"]]
    for first in range(0, len(percents), together):
        shown = slice(first, first + together)
        rows = [
            [
                row["name"],
                *(
                    value_with_interval(p["value"], p["interval"], digits=4)
                    for p in row["percentiles"][shown]
                ),
            ]
            for row in classes
        ]
        times = labelled("response\ntime", unit)
        print_table([times, *(f"{percent:g} %" for percent in percents[shown])], rows)


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.6g}"
