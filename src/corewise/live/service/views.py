"""What a controller knows, as plain values for the wire; each is a question that its own thread answers."""

from __future__ import annotations

from typing import Any

from corewise.kit.jsonable import plain
from corewise.live.state.controller import Controller
from corewise.live.state.explain import explain
from corewise.live.state.job_table import RosterJob

__all__ = ["allocation", "explanation", "policy", "state"]

_EXPLAINED = 200  # jobs whose reasons are told unasked
_STATES = 24  # jobs of a class in the table of a policy


def allocation(controller: Controller) -> dict[str, Any]:
    """Return what every job holds, was told to hold and should hold."""
    return {
        "time": controller.time,
        "mode": controller.mode,
        "pool": controller.pool,
        "policy": controller.policy_name,
        "jobs": [_job(controller, job) for job in controller.roster],
    }


def _job(controller: Controller, job: RosterJob) -> dict[str, Any]:
    least, most = controller.roster.bounds(job, controller.pool)
    return {
        "job": job.name,
        "job_class": controller.system.names[job.job_class],
        "held": job.held,
        "told": job.told,
        "target": job.target,
        "generation": job.generation,
        "least": least,
        "most": most,
        "arrived": plain(job.arrived),
    }


def explanation(controller: Controller, name: str) -> dict[str, Any]:
    """Return why a job holds the cores that it holds."""
    found = explain(controller, name)
    return {
        "job": found.job,
        "job_class": found.job_class,
        "held": found.held,
        "told": found.told,
        "target": found.target,
        "text": found.text,
    }


def policy(controller: Controller) -> dict[str, Any]:
    """Return the cores of the first of two classes by the jobs of both, as the policy in force gives them.

    The table has a row for each number of jobs of the first class and a column for each of the second; there
    is none for other numbers of classes.
    """
    names = controller.system.names
    table = None
    if len(names) == 2:  # what a flat table can show
        counts = range(_STATES + 1)
        table = [[controller.given((row, column))[0] for column in counts] for row in counts]
    return {"policy": controller.policy_name, "pool": controller.pool, "classes": list(names), "cores": table}


def state(controller: Controller) -> dict[str, Any]:
    """Return all that somebody who watches wants to see, with the reasons of the first jobs."""
    rows = allocation(controller)
    for row in rows["jobs"][:_EXPLAINED]:
        row["why"] = explain(controller, row["job"]).text
    return {"allocation": rows, "report": controller.report().as_mapping()}
