"""The whole story in a minute and a half: ``make demo`` runs this.

Example 3 of the paper: twenty cores, two classes of jobs, and nobody knows how they scale. The loop learns
it; the same jobs eight times as often show what that is worth; a report has everything, many times over;
decisions per job share out a day of a GPU cluster; and in the end real jobs run on real workers.
"""

from __future__ import annotations

import corewise as cw
from corewise.cli.main import app
from corewise.experiments.reproduce import REPORT, reproduce

OUT = "build/demo"
LIVE_SECONDS, LIVE_SEED = 15, 1


def main() -> None:
    """Learn, say what it is worth, and write the report."""
    system = cw.load_system("paper:3")
    print(
        f"A pool of {system.cores:g} cores serves two classes of jobs. A job's cores may change as it runs."
    )
    print(
        "How much faster a job runs on more cores is unknown: p, the part of it that can run in parallel.\n"
    )
    learned = learn(system)
    busy = worth(system.at_load(0.8), learned)
    print("\nThe same many times over, with figures ...", flush=True)
    (result,) = reproduce("example-3", OUT, seed=1)
    conclude(system, learned, busy, result.headline)
    day()
    live()


def learn(system: cw.System) -> cw.results.Epoch:
    """Let the loop run for a hundred windows; return the last."""
    print("Watch 100 jobs leave, estimate p, solve for the best policy, adopt it, and again, 100 times:")
    for epoch in cw.learn(
        cw.SimulatedPlant(system, rng=7), cw.algorithm_1b(system, departures=100, steps=100)
    ):
        if epoch.k in {1, 2, 5, 10, 20, 50, 100}:
            found = ", ".join(
                f"{name} {row.value:.3f} ± {row.stderr:.3f}" for name, row in epoch.estimates.items()
            )
            print(f"  after {epoch.departures:6,} departures: {found}; policy {epoch.gap:.4%} above the best")
    return epoch


def worth(system: cw.System, learned: cw.results.Epoch) -> tuple[float, float]:
    """Judge what was learned where cores are scarce; return what EQUI and it cost above the optimum."""
    found = system.with_curves({name: row.curve for name, row in learned.estimates.items() if row.curve})
    best = cw.solve(system).mean_jobs
    policies: dict[str, cw.Policy] = {
        "equal shares for all (EQUI)": cw.Equi(),
        "best policy for what was learned": cw.solve(found).policy,
    }
    print(f"\nThe same jobs eight times as often, load {system.load:g}; every number exact:")
    gaps = []
    for name, policy in policies.items():
        jobs = cw.evaluate(system, policy).mean_jobs
        gaps.append(jobs / best - 1.0)
        print(f"  {name:34} {jobs:8.4f} jobs in the mean, {gaps[-1]:.4%} above the best")
    return gaps[0], gaps[1]


def conclude(system: cw.System, learned: cw.results.Epoch, busy: tuple[float, float], headline: str) -> None:
    """Say in plain words what was learned, what it was worth, and where the report is."""
    print("\nIn plain words")
    print("--------------")
    for name, row in learned.estimates.items():
        low, high = row.interval
        truth = system[name].speedup.parameters["p"]
        print(f"- Of a job of class {name}, {row.value:.0%} runs in parallel: p is between {low:.3f} and")
        print(f"  {high:.3f} (95 %), learned from {row.departures:,} departures. The truth is {truth}.")
    print(
        f"- At a load of {system.load:g} cores are plenty and equal shares cost little. At 0.8 they keep jobs"
    )
    print(f"  {busy[0]:.1%} longer than need be, and the learned policy {busy[1]:.4%}.")
    print(f"- {headline[0].upper()}{headline[1:]}.")
    print(f"- The report, with every figure: {OUT}/{REPORT}")


def day() -> None:
    """Share out a made-up day on a GPU cluster, class by class and job by job."""
    system, jobs = cw.load_system("day:gpu"), cw.Trace.gpu_day()
    hours = jobs.size.sum() / system.cores / 3600
    print(f"\nA day on a GPU cluster: {len(jobs.job_class)} training jobs within eight hours, work for")
    print(
        f"{hours:.1f} hours of {system.cores:g} GPUs. Curves change as a model trains, have a kink at every"
    )
    print(
        "node of four and fall beyond a peak; a job stands still for 30 s when its GPUs change.", flush=True
    )
    found = cw.compare(system, ["equi", "whittle", "job-index:0"], jobs=jobs, whole=True, known_sizes=True)
    names = ("equal shares (EQUI)", "a price for each class (Whittle)", "a price for each job (job-index)")
    for name, row in zip(names, found.rows, strict=True):
        assert row.mean_response_time is not None
        minutes = row.mean_response_time / 60.0
        print(f"  {name:34} {minutes:5.1f} minutes in the mean, {row.resizes_per_job:.1f} changes a job")


def live() -> None:
    """Run the same jobs on two pools of real workers, one shared equally and one steered."""
    print(f"\nAnd live, for {LIVE_SECONDS} seconds: the same jobs on two pools of 16 threads. One is shared")
    print("equally; the other knows nothing of them at first, learns, and is steered.\n", flush=True)
    arguments = ["live", "demo", "--seconds", str(LIVE_SECONDS), "--seed", str(LIVE_SEED)]
    app(arguments, standalone_mode=False)
    print("corewise live demo shows a whole minute of it; --engine dask and --engine ray need these extras.")


if __name__ == "__main__":
    main()
