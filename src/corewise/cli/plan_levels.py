"""``corewise plan`` for service levels: by class and percentile, for a list of cores, with prices."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from corewise.cli.options import number, numbers
from corewise.cli.output import print_facts, print_json, print_table
from corewise.cli.waiting import progress_bar, waiting
from corewise.errors import InvalidInput
from corewise.kit.numbers import value_with_interval
from corewise.kit.unit_labels import time_suffix

if TYPE_CHECKING:
    from corewise.model.system import System
    from corewise.studies.service_levels import Attained, LevelPlan

__all__ = ["LevelOptions", "plan_by_levels"]


class LevelOptions(NamedTuple):
    """What is asked for beside the targets."""

    cores: str | None
    price: str | None
    log: Path | None
    policy: str | None
    most_cores: int | None
    seed: int


def plan_by_levels(system: System, targets: list[str], given: LevelOptions, *, as_json: bool) -> None:
    """Find the fewest cores that meet all targets, and print what others attain."""
    from corewise.studies.service_levels import parse_level, plan_levels

    levels = [parse_level(text) for text in targets]
    asked = None if given.cores is None else _whole(numbers(given.cores, "--cores"), given.cores)
    price = None if given.price is None else number(given.price, "--price")
    logged = None
    if given.log is not None:
        from corewise.observation.event_logs import load_events
        from corewise.studies.advice.logged_jobs import LoggedJobs

        with waiting(f"Reading {given.log} ..."):
            logged = LoggedJobs.of(load_events(given.log, system).path)
    limits = {} if given.most_cores is None else {"most_cores": given.most_cores}
    began = perf_counter()
    with progress_bar("Planning", 100.0, "%") as progress:
        found = plan_levels(
            system,
            levels,
            policy=given.policy or "whittle",
            cores=asked,
            price=price,
            logged=logged,
            rng=given.seed,
            progress=progress,
            **limits,
        )
    seconds = perf_counter() - began
    if as_json:
        print_json({**_as_mapping(found, given.seed, seconds), "unit": system.unit})
        return
    _print(found, seconds, given.seed, system.unit)


def _whole(values: list[float], text: str) -> list[int]:
    if not all(value == int(value) and value >= 1.0 for value in values):
        raise InvalidInput(f"--cores must be whole numbers with commas between them, got {text!r}")
    return [int(value) for value in values]


def _as_mapping(found: LevelPlan, seed: int, seconds: float) -> dict[str, object]:
    return {
        "cores": found.cores,
        "policy": found.policy,
        "curve": [
            {
                "cores": row.cores,
                "price": row.price,
                "met": row.met,
                "targets": [_attained(one) for one in row.attained],
            }
            for row in found.curve
        ],
        "log": [_attained(one) for one in found.logged],
        "seed": seed,
        "seconds": seconds,
    }


def _attained(row: Attained) -> dict[str, object]:
    return {
        "statistic": row.level.statistic,
        "target": row.level.most,
        "value": row.value,
        "interval": list(row.interval),
        "met": row.met,
    }


def _print(found: LevelPlan, seconds: float, seed: int, unit: str | None) -> None:
    answer = "none of those asked for is enough" if found.cores is None else f"{found.cores}"
    facts = [("fewest cores", f"{answer}, under policy {found.policy}")]
    for one in found.logged:
        value = value_with_interval(one.value, one.interval, 4)
        facts.append(("log", f"{one.level.statistic} {value}{time_suffix(unit)} in the log"))
    facts += [("time", f"{seconds:.3g} s"), ("seed", f"{seed} (the same one repeats it)")]
    levels = [one.level for one in found.curve[0].attained]
    wanted = ", ".join(
        f"{level.statistic} at most {level.most:g}{time_suffix(unit, level.most)}" for level in levels
    )
    print_facts(f"Cores for {wanted}", facts)
    priced = found.curve[0].price is not None
    rows = [
        [
            f"{row.cores}",
            *(value_with_interval(one.value, one.interval, 4) for one in row.attained),
            *([f"{row.price:.6g}"] if priced else []),
            "yes" if row.met else "no",
        ]
        for row in found.curve
    ]
    inside = f" ({unit})" if unit else ""
    header = [
        "cores",
        *(f"{level.statistic}{inside}" for level in levels),
        *(["price"] if priced else []),
        "meets them",
    ]
    print_table(header, rows)
