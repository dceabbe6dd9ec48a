"""``corewise compare``: all policies side by side."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from corewise.cli.options import AsJson, Capacity, SystemName
from corewise.cli.output import (
    headline,
    is_weighted,
    parse_capacity,
    print_facts,
    print_json,
    print_table,
    reporting,
    waiting,
)

if TYPE_CHECKING:
    from corewise.studies.compare import Comparison

__all__ = ["compare", "print_comparison"]


@reporting
def compare(
    system: SystemName,
    capacity: Capacity = None,
    as_json: AsJson = False,
) -> None:
    """Compare policies with the optimum and a lower bound."""
    from corewise.model.files import load_system
    from corewise.studies.compare import compare as compare_policies

    problem = load_system(system)
    with waiting("Comparing ..."):
        comparison = compare_policies(problem, capacity=parse_capacity(capacity))
    if as_json:
        print_json(
            {"policies": [asdict(row) for row in comparison.rows], "lower_bound": comparison.lower_bound}
        )
    else:
        print_comparison(comparison)


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison as a table for people."""
    system = comparison.system
    weighted = is_weighted(system)
    cost = "mean cost" if weighted else "mean number of jobs"
    bound = "none: arrivals beyond the capacity are lost, and lost jobs cost nothing"
    if comparison.lower_bound is not None:
        bound = f"{comparison.lower_bound:.8g} (proved: under no policy is the {cost} below it)"
    print_facts(headline("Policies side by side", system), [("lower bound", bound)])
    columns = [
        "policy",
        "mean number\nof jobs",
        "mean\nresponse time",
        "cost above\nthe optimum" if weighted else "above the\noptimum",
    ]
    if weighted:
        columns.insert(3, "mean\ncost")
    rows = []
    for row in comparison.rows:
        if not row.stable:
            rows.append([row.name, "unstable", *("-" for _ in columns[2:])])
            continue
        cells = [row.name, f"{row.mean_jobs:.8g}", f"{row.mean_response_time:.8g}"]
        if weighted:
            cells.append(f"{row.mean_cost:.8g}")
        rows.append([*cells, f"{row.gap:.2%}"])
    print_table(columns, rows)
