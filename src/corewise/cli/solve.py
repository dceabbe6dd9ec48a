"""``corewise solve``: the optimal policy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.output import (
    box_of,
    class_rows,
    headline,
    is_weighted,
    parse_capacity,
    print_classes,
    print_facts,
    print_json,
    reporting,
    require_target,
    waiting,
)

if TYPE_CHECKING:
    from corewise.control.solution import Solution

__all__ = ["solve"]


@reporting
def solve(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="A system file, or paper:1 to paper:4.")],
    capacity: Annotated[
        str | None,
        typer.Option(
            metavar="N or N,M", help="Most jobs of each class; more are blocked. Default: chosen, ample."
        ),
    ] = None,
    whole_cores: Annotated[bool, typer.Option("--whole-cores", help="Give out whole cores only.")] = False,
    tolerance: Annotated[float, typer.Option(help="How close the certified bounds must be.")] = 1e-9,
    save: Annotated[Path | None, typer.Option(help="Save the policy to this file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw the policy of two classes as a heat map.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the optimal policy, with a certificate.

    Optimal is the policy with the least mean number of jobs, hence the least mean response time; with
    weights, the one with the least mean cost.
    """
    from corewise.control.solution import solve as solve_system
    from corewise.model.files import load_system

    problem = load_system(system)
    box = parse_capacity(capacity)
    require_target(save)
    require_target(plot)
    if plot:
        from corewise.plots.policy import require_two_classes
        from corewise.plots.style import require_format, require_matplotlib

        require_matplotlib()
        require_two_classes(problem)
        require_format(plot)
    began = time.perf_counter()
    with waiting("Solving ..."):
        solution = solve_system(problem, capacity=box, tolerance=tolerance, whole_cores=whole_cores)
    seconds = time.perf_counter() - began
    if save:
        solution.policy.save(save)
    if plot:
        from corewise.plots.policy import policy_heatmap
        from corewise.plots.style import save_figure

        save_figure(policy_heatmap(solution.policy, problem), plot)
    if as_json:
        print_json(_as_mapping(solution, seconds))
        return
    _print_solution(solution, seconds, blocking=box is not None, whole_cores=whole_cores)
    for path, what in ((save, "policy"), (plot, "heat map")):
        if path:
            print(f"Wrote the {what} to {path}.")


def _as_mapping(solution: Solution, seconds: float) -> dict[str, object]:
    return {
        "mean_jobs": solution.mean_jobs,
        "mean_response_time": solution.mean_response_time,
        "mean_cost": solution.mean_cost,
        "bounds": list(solution.bounds),
        "capacity": list(solution.capacity),
        "beyond": solution.beyond,
        "solver": solution.solver,
        "iterations": solution.iterations,
        "seconds": seconds,
        "classes": class_rows(solution.performance),
    }


def _print_solution(solution: Solution, seconds: float, *, blocking: bool, whole_cores: bool) -> None:
    weighted = is_weighted(solution.system)
    minimised = "mean cost" if weighted else "mean number of jobs"
    low, high = solution.bounds
    facts = [
        ("mean number of jobs", f"{solution.mean_jobs:.10g}"),
        ("mean response time", f"{solution.mean_response_time:.10g} (in the unit of time of the rates)"),
    ]
    if weighted:
        facts.append(
            ("mean cost", f"{solution.mean_cost:.10g} (the weighted number of jobs: what is minimised)")
        )
    facts += [
        ("certified", f"the least possible {minimised} lies in [{low:.12g}, {high:.12g}]"),
        ("counts of jobs", box_of(solution.capacity, blocking, solution.beyond)),
        ("solver", f"{solution.solver}, {solution.iterations} iterations, {seconds:.3g} s"),
    ]
    kind = "Optimal policy, whole cores" if whole_cores else "Optimal policy"
    print_facts(headline(kind, solution.system), facts)
    print_classes(solution.performance, weighted)
