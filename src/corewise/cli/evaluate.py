"""``corewise evaluate``: the exact performance of one policy."""

from __future__ import annotations

from typing import Annotated

import typer

from corewise.cli.options import POLICY_HELP, AsJson, Capacity, SystemName, parse_capacity
from corewise.cli.output import emit
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
    from corewise.analysis.tractability import Tractability
    from corewise.model.files import load_system
    from corewise.policies.base import policy_named
    from corewise.policies.equi import Equi

    problem = load_system(system)
    box = parse_capacity(capacity)
    known = policy == Equi.name and has_product_form(problem, Equi())
    if box is None and problem.load < 1.0 and not known:
        reach = Tractability.of(problem)
        what = f"an exact mean over some {reach.states:,.0f} states"
        say_how_long(what, reach.seconds_to_evaluate, "corewise compare --simulate does without it")
    with progress_bar("Evaluating", 100.0, "%") as progress:
        rule = policy_named(policy, problem, capacity=box)
        performance = evaluate_policy(problem, rule, capacity=box, progress=progress)
    emit(performance, as_json, title=f"Policy {performance.policy}: {problem.summary}")
