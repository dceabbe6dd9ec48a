"""Two minutes with corewise in a few seconds: ``make demo`` runs this.

It takes Example 2 of the paper, ten cores for two classes of jobs, at the paper's light load and at 0.8.
"""

from __future__ import annotations

from pathlib import Path

import corewise as cw
from corewise.plots.estimates import estimate_figure
from corewise.plots.policy import policy_heatmap
from corewise.plots.style import save_figure

FIGURE = Path("build/demo/policy.png")
CURVES = Path("build/demo/curves.png")

POLICIES = """\
optimal       the best there is, found by corewise solve
equi          every job holds the same number of cores
greedy        whatever lets jobs leave fastest right now
whittle       one price for a core; every job takes what is worth the price to it
priority:a,b  all cores to class a while it has jobs, then to b"""


def show(title: str, comparison: cw.Comparison) -> None:
    """Print a comparison under a title."""
    print(f"\n{title}\n{'-' * len(title)}\n{comparison}")


def main() -> None:
    """Solve, compare, and say what it means."""
    light = cw.load_system("paper:2")
    busy = light.at_load(0.8)
    cores = f"{light.cores:g} cores"
    print(f"A pool of {cores} serves jobs of two classes. A job's cores may change while it runs.")
    for job_class in light.classes:
        faster = float(job_class.speedup.rate(light.cores))
        print(f"- On all {cores} a job of class {job_class.name} runs {faster:.3g} times as fast as on one.")
    print("Who should hold how many? Every number in the tables is exact: computed, not simulated.\n")
    print(POLICIES)

    calm, crowd = cw.compare(light), cw.compare(busy)
    show(f"Load {light.load:.2f}, as in the paper", calm)
    show(f"Load {busy.load:.2f}, the same jobs {busy.load / light.load:g} times as often", crowd)

    best = crowd.optimum.policy
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    save_figure(policy_heatmap(best, busy, title=f"Optimal policy at load {busy.load:g}"), FIGURE)
    learn(busy, crowd)
    explain(calm, crowd)


def learn(system: cw.System, comparison: cw.Comparison) -> None:
    """Find the curves from a random log alone, and print what a policy made from them is worth."""
    title = "And if nobody knows how the jobs scale?"
    run = cw.simulate(system, cw.Equi(), departures=5_000, rng=1, record=True)
    assert run.path is not None
    found = cw.estimate(run.statistics, system)
    save_figure(estimate_figure(run.statistics, system, found, truth=system), CURVES)
    learnt = cw.evaluate(system, cw.solve(found.applied_to(system)).policy)
    print(f"\n{title}\n{'-' * len(title)}")
    print(f"Watch {run.departures} jobs leave under equi (a random log), and estimate the parallel share p:")
    for name, estimate in found.items():
        low, high = estimate.interval
        truth = system[name].speedup.parameters["p"]
        print(f"- class {name}: {estimate.value:.3f}, between {low:.3f} and {high:.3f} (95 %); it is {truth}")
    loss = learnt.mean_jobs / comparison.optimum.mean_jobs - 1.0
    print(f"The best policy for these estimates keeps jobs {loss:.4%} longer than the best there is.")


def explain(calm: cw.Comparison, crowd: cw.Comparison) -> None:
    """Print what the tables mean."""
    equi_calm, equi_crowd = (c.rows[1].gap for c in (calm, crowd))
    low, high = crowd.optimum.bounds
    print(f"""
What it means
-------------
- Equal shares for all jobs (equi) keep jobs in the system {equi_calm:.2%} longer than need be at the light
  load, and {equi_crowd:.2%} longer at the heavy one. Knowing how jobs scale is worth that much.
- 'optimal' is certified: at the heavy load the least possible mean number of jobs lies between
  {low:.10f} and {high:.10f}.
- {FIGURE} shows which share of the cores class one should hold in each state,
  {CURVES} the curves that the log speaks for.""")


if __name__ == "__main__":
    main()
