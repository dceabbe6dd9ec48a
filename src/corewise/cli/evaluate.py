"""``corewise evaluate``: the exact performance of one policy."""

from __future__ import annotations

from typing import Annotated

import typer

from corewise.cli.options import POLICY_HELP, AsJson, Capacity, SystemName, parse_capacity
from corewise.cli.output import (
    box_of,
    class_rows,
    headline,
    is_weighted,
    print_classes,
    print_facts,
    print_json,
    time_shown,
)
from corewise.cli.reporting import reporting
from corewise.cli.waiting import progress_bar, say_how_long

__all__ = ["evaluate"]


@reporting
def evaluate(
    system: SystemName,
    policy: Annotated[str, typer.Option(metavar="P", help=POLICY_HELP)],
    capacity: Capacity = None,
    as_json: AsJson = False,
) -> None:
    """Compute the exact performance of a policy."""
    from corewise.analysis.performance import evaluate as evaluate_policy
    from corewise.analysis.performance import has_product_form
    from corewise.analysis.reach import Reach
    from corewise.model.files import load_system
    from corewise.policies.base import policy_named
    from corewise.policies.equi import Equi

    problem = load_system(system)
    box = parse_capacity(capacity)
    known = policy == Equi.name and has_product_form(problem, Equi())
    if box is None and problem.load < 1.0 and not known:
        reach = Reach.of(problem)
        told = f"an exact mean over some {reach.states:,.0f} states"
        say_how_long(told, reach.seconds_to_evaluate, "corewise compare --simulate does without it")
    with progress_bar("Evaluating", 100.0, "%") as progress:
        rule = policy_named(policy, problem, capacity=box)
        performance = evaluate_policy(problem, rule, capacity=box, progress=progress)
    if as_json:
        print_json(
            {
                "policy": performance.policy,
                "mean_jobs": performance.mean_jobs,
                "mean_response_time": performance.mean_response_time,
                "mean_cost": performance.mean_cost,
                "utilisation": performance.utilisation,
                "beyond": performance.edge_probability,
                "capacity": list(performance.capacity),
                "blocking": performance.blocking,
                "unit": performance.unit,
                "classes": class_rows(performance),
            }
        )
        return
    print_facts(
        headline(f"Policy {performance.policy}", problem),
        [
            ("mean number of jobs", f"{performance.mean_jobs:.10g}"),
            (
                "mean response time",
                time_shown(f"{performance.mean_response_time:.10g}", performance.unit),
            ),
            ("utilisation", f"{performance.utilisation:.2%} of the cores are held by some job, on average"),
            (
                "counts of jobs",
                box_of(performance.capacity, performance.blocking, performance.edge_probability),
            ),
        ],
    )
    print_classes(performance, is_weighted(problem))
