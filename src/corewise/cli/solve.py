"""``corewise solve``: the optimal policy."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import AsJson, Capacity, SystemName, parse_capacity
from corewise.cli.output import emit
from corewise.cli.reporting import reporting
from corewise.cli.targets import draw, print_written, require_target
from corewise.cli.waiting import progress_bar, say_if_long

if TYPE_CHECKING:
    from corewise.control.solution import Solution

__all__ = ["solve"]


@reporting
def solve(
    system: SystemName,
    capacity: Capacity = None,
    whole_cores: Annotated[bool, typer.Option("--whole-cores", help="Give out whole cores only.")] = False,
    tolerance: Annotated[
        float,
        typer.Option(
            help="Largest distance between the certified bounds on the mean cost; relative where that is "
            "above one."
        ),
    ] = 1e-9,
    save: Annotated[
        Path | None,
        typer.Option(help="Save the policy to this file (NumPy archive), for `evaluate --policy`."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw the policy of two classes as a heat map.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the optimal policy, with a certificate.

    Optimal is the policy with the least mean number of jobs, hence the least mean response time; with
    weights, the one with the least mean cost.
    """
    from corewise.control.solution import solve as solve_system
    from corewise.model.files import load_system

    problem = load_system(system)
    box = parse_capacity(capacity)
    require_target(save, system)
    require_target(plot, system)
    if plot:
        from corewise.plots.policy import require_two_classes
        from corewise.plots.style import require_format, require_matplotlib

        require_matplotlib()
        require_two_classes(problem)
        require_format(plot)
    if box is None:
        say_if_long(problem, "corewise compare does without it, and names policies that are near it")
    began = time.perf_counter()
    with progress_bar("Solving", 100.0, "%") as progress:
        solution = solve_system(
            problem, capacity=box, tolerance=tolerance, whole_cores=whole_cores, progress=progress
        )
    seconds = time.perf_counter() - began
    if save:
        solution.policy.save(save)
    if plot:
        from corewise.plots.policy import policy_heatmap

        title = f"Optimal policy, {problem.cores:g} cores, load {problem.load:.3g}"
        draw(
            plot,
            lambda: policy_heatmap(solution.policy, problem, capacity=_heatmap_range(solution), title=title),
        )
    emit(solution, as_json, ("time", f"{seconds:.3g} s"), seconds=seconds)
    if not as_json:
        print_written((save, "policy"), (plot, "heat map"))


def _heatmap_range(solution: Solution) -> list[int]:
    """Return how many jobs of each class a heat map shows: the usual range, or twice the mean if more."""
    from corewise.plots.policy import MOST_JOBS, usual_range

    means = [row.mean_jobs for row in solution.performance.classes.values()]
    usual = usual_range(solution.policy, solution.system)
    wanted = [max(least, math.ceil(2.0 * mean)) for least, mean in zip(usual, means, strict=True)]
    return [min(size, MOST_JOBS, most) for size, most in zip(wanted, solution.capacity, strict=True)]
