r"""The learner: what was learned so far, and what to solve next.

The `Learner` decides, and has neither clock nor randomness nor plant: windows go in, requests come out, and
somebody else carries them out.

    observe(window)  ->  SolveRequest or None       after N_k departures: the estimates, and what to solve
    adopt(answer)                                   the policy of the next window

`corewise.learning.loop.learn` is the loop around it. Policy π_{k+1} uses the data that the memory holds after
window k.

Rates that are not known are estimated with the curves: arrivals over time, and the size rate that is most
likely at the posterior mean of the curve (`corewise.estimation.posterior`). Nothing is spent on exploration:
under every policy that idles no core a class is alone with one job, with two, with three, and so seen at
several widths, which tells its curve from its size rate in time.

Paper: Algorithms 1, 1a and 1b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from corewise.control.solution import Solution
from corewise.errors import InvalidInput
from corewise.estimation.changes.detector import Alarm
from corewise.estimation.estimates import Estimates
from corewise.kit.arrays import Floats
from corewise.learning.algorithms import Algorithm
from corewise.learning.checkpoint import LearnerState
from corewise.learning.conclusions import kept, learned, to_solve_for
from corewise.learning.memories import Watchful
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import Policy, checked_policy

_SAME_RATE = 0.01
"""Rates that differ by less ask for no new policy."""

__all__ = ["Learner", "SolveRequest"]


@dataclass(frozen=True, eq=False)
class SolveRequest:
    """Request to solve: the estimated system for which a learner wants a policy.

    Attributes
    ----------
    k : int
        The window that led to it.
    estimates : Estimates
        What the memory says.
    system : System
        What to solve for: the system as it is believed to be.
    algorithm : Algorithm
        How.
    warm_start : ndarray or None
        The warm start that the last solution gives.
    alarms : tuple of Alarm
        The changes that were found at the end of the window.
    in_force : Solution, Policy or None
        What was adopted last, if it will do.
    """

    k: int
    estimates: Estimates
    system: System
    algorithm: Algorithm
    warm_start: Floats | None
    alarms: tuple[Alarm, ...] = ()
    in_force: Solution | Policy | None = None

    def carry_out(self) -> Solution | Policy:
        """Return what to adopt."""
        return self.algorithm.answer(self.system, self.warm_start) if self.in_force is None else self.in_force


class Learner:
    """Learner: a state machine without clock or randomness, from windows of statistics to the next policy.

    Attributes
    ----------
    algorithm : Algorithm
        How to learn.
    policy : Policy
        The policy to run now.
    standing : LearnerState
        What has been learned from the windows closed so far.
    """

    def __init__(self, algorithm: Algorithm, standing: LearnerState | None = None) -> None:
        if not isinstance(algorithm, Algorithm):
            raise InvalidInput(f"expected an algorithm such as algorithm_1a(…), got {algorithm!r}")
        self.algorithm = algorithm
        self._watches = isinstance(algorithm.memory, Watchful)  # to ask that of a protocol is slow
        self._warm_start: Floats | None = None
        self._answer: Solution | Policy | None = None
        if standing is None:
            guess, self.policy = algorithm.beginning()
            self.standing = LearnerState(0, 0, 0.0, guess, guess, None, algorithm.memory)
        else:
            self.standing = standing
            self.adopt(algorithm.answer(standing.believed, standing.warm_start))
        self._window: Statistics | None = None

    @property
    def done(self) -> bool:
        """Whether all windows are closed."""
        return self.algorithm.steps is not None and self.standing.k >= self.algorithm.steps

    @property
    def wanted(self) -> int:
        """How many departures the current window still lacks."""
        seen = 0 if self._window is None else self._window.departures
        return self.algorithm.schedule.window(self.standing.k + 1) - seen

    def observe(self, seen: Statistics) -> SolveRequest | None:
        """Take in the statistics of a stretch; return what to solve once the window is full.

        Parts of a window may come one by one. What comes after a request belongs to the next window, whether
        or not an answer has been adopted by then.
        """
        names = self.algorithm.system.names
        if not isinstance(seen, Statistics):
            raise InvalidInput(f"expected Statistics, such as those of a run, got {seen!r}")
        if list(seen.names) != names:
            raise InvalidInput(
                f"the plant has classes {', '.join(seen.names)}, the algorithm is for {', '.join(names)}"
            )
        self._window = window = seen if self._window is None else self._window + seen
        if self.wanted > 0:
            return None
        self._window = None
        before = self.standing
        memory = before.memory.remember(window)
        watchful = cast(Watchful, memory) if self._watches else None
        found, estimated, known = learned(self.algorithm, before, memory.recall(), watchful)
        alarms = () if watchful is None else watchful.alarms
        in_force = None if alarms else self._in_force(found, known)
        if in_force is not None:
            believed, warm_start = before.believed, before.warm_start
        else:
            believed, warm_start = to_solve_for(self.algorithm, found, known), self._warm_start
        self._answer = in_force
        self.standing = now = LearnerState(
            before.k + 1,
            before.departures + window.departures,
            before.time + window.time,
            estimated,
            believed,
            warm_start,
            memory,
        )
        rows = kept(found, now.estimated)
        return SolveRequest(now.k, rows, now.believed, self.algorithm, now.warm_start, alarms, in_force)

    def _in_force(self, found: Estimates, known: System) -> Solution | Policy | None:
        """Return what was adopted last, if it will do: no estimate is far from what it was made for."""
        inertia, made_for = self.algorithm.inertia, self.standing.believed
        if inertia == 0.0 or self._answer is None or not _same_rates(known, made_for):
            return None
        for name, row in found.items():
            last = made_for[name].speedup.parameters
            for parameter, value in row.parameters.items():
                if row.informative and not abs(value - last[parameter]) <= inertia * row.stderrs[parameter]:
                    return None
        return self._answer

    def adopt(self, answer: Solution | Policy) -> None:
        """Run what was asked for from now on."""
        if answer is not None and answer is self._answer:
            return
        policy = answer.policy if isinstance(answer, Solution) else answer
        self.policy = checked_policy(policy, self.algorithm.system)
        self._answer = answer
        self._warm_start = answer.warm_start if isinstance(answer, Solution) else None


def _same_rates(one: System, other: System) -> bool:
    """Return whether all rates differ too little to ask for a new policy."""
    if one is other:
        return True
    pairs = ((one.arrival_rates, other.arrival_rates), (one.size_rates, other.size_rates))
    return all(bool(np.all(np.abs(a - b) <= _SAME_RATE * b)) for a, b in pairs)
