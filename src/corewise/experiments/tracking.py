"""Table 2 of the paper and the figure beside it: parameters that change while the loop runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from corewise.control.solution import solve
from corewise.experiments.figures.tracking import changes_figure, tracking_figure
from corewise.experiments.paper import DRIFT, Switch, tracking_algorithms
from corewise.experiments.report import Block, Heading, Picture, Result, ResultTable, Setting, epochs_table
from corewise.experiments.studies.learning import (
    Detections,
    LearningStudy,
    detections,
    learning_study,
    tracking_errors,
)
from corewise.experiments.studies.tracking import exact_mean_jobs
from corewise.kit.arrays import Floats
from corewise.learning.schedules import Growing
from corewise.plots.style import figure_bytes
from corewise.policies.equi import Equi

__all__ = ["positions", "run_table_2", "spread"]

_RUNS = {"1a": 20, "1b": 4, "adaptive": 2, "oracle": 2}
_TIMES = {"1a": 0.25, "1b": 0.05, "adaptive": 0.4, "oracle": 0.3}
"""The share of the work, for the progress."""
_SHOWN = {
    "1a": "Algorithm 1a",
    "1b": "Algorithm 1b",
    "adaptive": "adaptive",
    "oracle": "oracle",
}
_AROUND = (2e3, 2.2e4)
"""The time around a change that is shown."""
_EVERY = 10
"""Of the many checks of the adaptive algorithm and of the oracle, every so many are kept."""


def run_table_2(setting: Setting) -> Result:
    """Let all algorithms run while the parameters change as in Table 2."""
    system = DRIFT.system
    studies: dict[str, LearningStudy] = {}
    done = 0.0
    for part, (name, algorithm) in enumerate(tracking_algorithms().items()):
        studies[name] = learning_study(
            system,
            algorithm,
            n=_RUNS[name],
            rng=setting.stream(part),
            average_until=DRIFT.end,
            executor=setting.executor,
            progress=setting.part(done, done + _TIMES[name]),
        )
        done += _TIMES[name]
    errors = {name: tracking_errors(study, system).mean(axis=0) for name, study in studies.items()}
    found = {switch: positions(studies["1a"], switch.time) for switch in DRIFT.switches}
    seen, jobs = detections(studies["adaptive"], system), _mean_jobs(studies)
    numbers: dict[str, Any] = {
        "runs": {name: study.times.shape[0] for name, study in studies.items()},
        "switches": [
            {
                "time": switch.time,
                "p": [switch.p1, switch.p2],
                "printed": {"iteration": switch.iteration, "fraction": switch.fraction},
                "position": {"mean": float(at.mean()), "sd": float(at.std(ddof=1))},
                "poisson_sd": spread(switch),
                "off_in_sd": float((at.mean() - switch.position) / spread(switch)),
            }
            for switch, at in found.items()
        ],
        "mean_squared_error": {
            name: dict(zip(system.names, row.tolist(), strict=True)) for name, row in errors.items()
        },
        "mean_jobs": jobs,
        "delays": [[None if math.isnan(x) else x for x in row] for row in seen.delays.T.tolist()],
        "other_alarms": seen.others.tolist(),
        "alarms": [[alarm.as_mapping() for alarm in run] for run in studies["adaptive"].alarms],
    }
    off = max(abs(row["off_in_sd"]) for row in numbers["switches"])
    better = (errors["1a"] / errors["adaptive"]).min()
    headline = (
        f"the four changes come where the paper has them, within {off:.1f} standard deviations; "
        f"the adaptive algorithm's squared error is at least {better:.1f} times below 1a's"
    )
    blocks = [
        *_setting_of(studies),
        *_printed(found, studies),
        *_followed(studies, errors, jobs),
        *_found(studies["adaptive"], seen),
        epochs_table({name: studies[name] for name in ("1a", "1b")}),
        _checks_table({name: studies[name] for name in ("adaptive", "oracle")}),
    ]
    return Result("table-2", "Table 2: tracking parameters that change", headline, numbers, blocks)


def positions(study: LearningStudy, time: float) -> Floats:
    """Return the windows that were over at a time, and the part of the current one, run by run."""
    found = []
    for ends in study.times:
        done = int(np.searchsorted(ends, time, side="right"))
        begin = ends[done - 1] if done else 0.0
        found.append(done + (time - begin) / (ends[done] - begin))
    return np.array(found)


def spread(switch: Switch) -> float:
    """Return the standard deviation of a position: that of the Poisson count of departures, in windows."""
    rate = float(DRIFT.system.arrival_rates.sum())
    return math.sqrt(rate * switch.time) / Growing(DRIFT.first, DRIFT.power).window(switch.iteration)


def _mean_jobs(studies: dict[str, LearningStudy]) -> dict[str, float]:
    """Return the mean number of jobs up to the end: of every algorithm, of EQUI, and at best."""
    found = {name: float(study.averages.mean()) for name, study in studies.items()}
    system, end = DRIFT.system, DRIFT.end
    best = exact_mean_jobs(lambda truth: solve(truth).policy, system, end)
    return {**found, "EQUI": exact_mean_jobs(lambda _: Equi(), system, end), "optimum": best}


# --- report ---------------------------------------------------------------------------------------


def _setting_of(studies: dict[str, LearningStudy]) -> list[Block]:
    system, study = DRIFT.system, studies["1a"]
    counts = {name: row.times.shape[0] for name, row in studies.items()}
    shown = {_SHOWN[name]: row for name, row in studies.items()}
    return [
        Heading("What was run"),
        f"""{system.cores:g} cores and {float(system.arrival_rates.sum()):g} arrivals per unit of time;
        four times, unknown to the algorithms, the curve of one class changes. Window k of Algorithms
        1a and 1b has ⌈{DRIFT.first} k^{DRIFT.power:g}⌉ departures, {study.departures.size} windows in all.
        The paper shows 1a. Beside it are 1b; the adaptive algorithm, which looks for a change after every
        {DRIFT.first} departures and forgets what came before it; and, as the limit of what it could do, an
        oracle that knows of every change at the first such check after it. There are {counts["1a"]} runs
        of 1a, {counts["1b"]} of 1b, {counts["adaptive"]} of the adaptive algorithm and {counts["oracle"]} of
        the oracle.""",
        Picture(
            "tracking",
            "Estimates against time in one run of each algorithm, beside the truth.",
            figure_bytes(tracking_figure(shown, system)),
        ),
        Picture(
            "changes",
            "The same runs right after each change: the estimates of the class that changed. Triangles are "
            "alarms of the adaptive algorithm; a second one says what it was that changed.",
            figure_bytes(changes_figure(shown, system, span=_AROUND)),
        ),
    ]


def _printed(found: dict[Switch, Floats], studies: dict[str, LearningStudy]) -> list[Block]:
    rows = []
    for switch, at in found.items():
        first = float(at[0])
        rows.append(
            [
                f"{switch.time / 1e5:g}",
                f"{switch.p1:g}, {switch.p2:g}",
                f"{switch.iteration}, {switch.fraction:.1%}",
                f"{math.floor(first) + 1}, {first % 1.0:.1%}",
                f"{at.mean():.2f}",
                f"{switch.position:.2f}",
                f"{spread(switch):.2f}",
                float((at.mean() - switch.position) / spread(switch)),
            ]
        )
    return [
        Heading("What the paper says, and what came out"),
        """The paper prints at which iteration, and how far through its window, the parameters changed in
        its run. The departures up to a time are a Poisson count but for the few jobs present, so where
        the loop stands then scatters by about a tenth of a window from run to run, in the paper's run as
        in these.""",
        ResultTable(
            "switches",
            (
                "time, 10⁵",
                "p₁, p₂ from then on",
                "printed: iteration, part",
                "one run",
                "windows done, mean",
                "printed",
                "sd of one run",
                "mean − printed, in sd",
            ),
            rows,
            f"Where the loop stood when the parameters changed, over {studies['1a'].times.shape[0]} runs of "
            f"Algorithm 1a.",
        ),
    ]


def _followed(
    studies: dict[str, LearningStudy], errors: dict[str, Floats], jobs: dict[str, float]
) -> list[Block]:
    names, mine = DRIFT.system.names, errors["adaptive"]
    rows = [
        [
            _SHOWN[name],
            study.times.shape[0],
            *(f"{value:.2e}" for value in errors[name]),
            *(f"{value:.2f}" for value in errors[name] / mine),
            *_gap_cells(jobs, name),
        ]
        for name, study in studies.items()
    ]
    rows += [[name, *[""] * (1 + 2 * len(names)), *_gap_cells(jobs, name)] for name in ("EQUI", "optimum")]
    return [
        Heading("How well each follows"),
        f"""Algorithm 1a follows a change within a window or two; 1b averages over all that came before,
        and follows ever more slowly. The adaptive algorithm has all data since the last change: the squared
        error of 1a is at least {(errors["1a"] / mine).min():.1f} times its own, that of 1b at least
        {(errors["1b"] / mine).min():.0f} times; and its own is at most
        {(mine / errors["oracle"]).max():.1f} times the oracle's. What that is worth in jobs is little here:
        the load is {DRIFT.system.load:.3f}, and even EQUI is near the optimum.""",
        ResultTable(
            "followed",
            (
                "algorithm",
                "runs",
                *(f"squared error, {name}" for name in names),
                *(f"over adaptive's, {name}" for name in names),
                "mean jobs over the run",
                "above the optimum, millionths",
            ),
            rows,
            "The squared error of the estimate in force, averaged over time and runs; and the mean number of "
            "jobs, by exact evaluation of every policy in force under every truth in force. The optimum has "
            "the best policy for every truth from its first moment.",
        ),
    ]


def _gap_cells(jobs: dict[str, float], name: str) -> list[str]:
    """Return the mean number of jobs, and how far it is above the optimum."""
    return [f"{jobs[name]:.7f}", f"{1e6 * (jobs[name] / jobs['optimum'] - 1.0):.1f}"]


def _found(study: LearningStudy, seen: Detections) -> list[Block]:
    runs, system = study.times.shape[0], DRIFT.system
    rows = []
    for switch, change, delays in zip(DRIFT.switches, system.changes, seen.delays.T, strict=True):
        known = delays[~np.isnan(delays)]
        of_it = (alarm for alarm in study.alarms[0] if alarm.name == change.name)
        first = next((alarm for alarm in of_it if alarm.time_interval[1] >= change.time), None)
        place = "" if first is None else "{:.0f} to {:.0f}".format(*first.time_interval)
        sides = [] if first is None else [*first.before.values(), *first.after.values()]
        rows.append(
            [
                f"{switch.time:.0f}",
                change.name,
                f"{known.size} of {runs}",
                f"{np.median(known):.0f}" if known.size else "",
                place,
                " → ".join(f"{value:.3f}" for value in sides),
            ]
        )
    return [
        Heading("The changes that were found"),
        f"""In {runs} runs there were {int(seen.others.sum())} alarms beside those for the four changes.
        The delay is in departures of all classes, from the change to the first alarm for its class; the
        interval and the sizes are what the alarm of the first run said at that moment.""",
        ResultTable(
            "alarms",
            ("time", "class", "found in runs", "median delay, departures", "time, 95 %", "p as estimated"),
            rows,
            "When a curve changed, and what the adaptive algorithm said about it.",
        ),
    ]


def _checks_table(studies: dict[str, LearningStudy]) -> ResultTable:
    """Return some of the many checks of the first run."""
    names = DRIFT.system.names
    rows = [
        [name, k + 1, int(study.departures[k]), study.times[0, k], *study.estimates[0, :, k].tolist()]
        for name, study in studies.items()
        for k in range(_EVERY - 1, study.departures.size, _EVERY)
    ]
    return ResultTable(
        "checks", ["algorithm", "k", "departures", "time", *(f"p:{name}" for name in names)], rows
    )
