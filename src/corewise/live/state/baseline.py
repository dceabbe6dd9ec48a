"""Who shares the cores of a pool that is only watched: EQUI, for as long as nobody steers.

In ``watch`` a controller touches nothing. A pool of somebody else's is shared by somebody else; in one of our
own jobs would wait for ever. So a second controller gives them their cores: it never learns, and so stays
with the policy that needs to know nothing.
"""

from __future__ import annotations

from dataclasses import replace

from corewise.learning.algorithms import Algorithm
from corewise.learning.schedules import Constant
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import SetCores
from corewise.observation import events as happened
from corewise.policies.base import Policy

__all__ = ["Unsteered", "never_learning"]

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


class Unsteered:
    """Sharing of a pool that is only watched.

    Parameters
    ----------
    watching : Controller
        What watches; this begins with the jobs that it sees.
    """

    def __init__(self, watching: Controller) -> None:
        self._sharing = Controller(
            never_learning(watching.learner.algorithm), _no_policy, mode="steer", time=watching.time
        )
        self._sharing.roster.limits[:] = watching.roster.limits
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
            for job in watching.roster
        ]
        pool = happened.PoolChanged(watching.time, "pool", watching.pool)
        self.first = [told for event in (pool, *present) for told in self.handle(event)]
        """What those jobs are to hold."""

    def handle(self, event: happened.Event) -> list[SetCores]:
        """Take in an event; return who is to hold other cores from now on."""
        if not isinstance(event, _CONCERNS):
            return []
        return [told for told in self._sharing.handle(event) if isinstance(told, SetCores)]


def never_learning(algorithm: Algorithm) -> Algorithm:
    """Return an algorithm whose first window never ends: EQUI stays in force."""
    return replace(algorithm, schedule=Constant(_NEVER))


def _no_policy(_digest: str) -> Policy:
    raise AssertionError("what never learns adopts nothing")
