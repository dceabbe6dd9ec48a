"""The EQUI baseline of a pool that is only watched: a second controller that never learns.

In ``watch`` a controller assigns no cores. Where a scheduler outside runs the jobs, it shares the cores; in a
pool that runs them itself, jobs would wait for ever. There a second controller assigns them: it never learns,
and so stays with EQUI, the policy that needs no estimates.
"""

from __future__ import annotations

from dataclasses import replace

from corewise.learning.algorithms import Algorithm
from corewise.learning.schedules import Constant
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import SetCores
from corewise.observation import events as happened
from corewise.policies.base import Policy

__all__ = ["EquiBaseline", "never_learning"]

_NEVER = 10**15  # departures
_CONCERNS = (
    happened.JobArrived,
    happened.JobPresent,
    happened.JobFinished,
    happened.JobEnded,
    happened.MoveRefused,
    happened.CoresHeld,
    happened.PoolChanged,
    happened.LimitsChanged,
)


class EquiBaseline:
    """EQUI baseline (shadow) controller of a pool that is only watched.

    Parameters
    ----------
    watching : Controller
        The controller that watches; the baseline begins with the jobs that are present in it.

    Attributes
    ----------
    first : list of SetCores
        The cores of those jobs.
    """

    def __init__(self, watching: Controller) -> None:
        self._sharing = Controller(
            never_learning(watching.learner.algorithm), _no_policy, mode="steer", time=watching.time
        )
        self._sharing.jobs.limits[:] = watching.jobs.limits
        present = [
            happened.JobPresent(
                watching.time,
                f"job {job.age}",
                job.name,
                watching.system.names[job.job_class],
                job.held,
                job.least,
                job.most,
            )
            for job in watching.jobs
        ]
        pool = happened.PoolChanged(watching.time, "pool", watching.pool)
        self.first = [one for event in (pool, *present) for one in self.handle(event)]

    def handle(self, event: happened.Event) -> list[SetCores]:
        """Handle an event; return the cores of the jobs that are to hold others from now on."""
        if not isinstance(event, _CONCERNS):
            return []
        return [one for one in self._sharing.handle(event) if isinstance(one, SetCores)]


def never_learning(algorithm: Algorithm) -> Algorithm:
    """Return an algorithm whose first window never ends: EQUI stays in force."""
    return replace(algorithm, schedule=Constant(_NEVER))


def _no_policy(_digest: str) -> Policy:
    raise AssertionError("what never learns adopts nothing")
