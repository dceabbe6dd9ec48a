r"""The cost of moves in a live pool, and which jobs are worth moving.

The pause of a class is the one given, or the mean of what the engine has reported. Where no
class pauses, nothing is decided here. Otherwise jobs are given their cores by the width rule of the policy in
force, the price rule once one was solved for, and until then by the steady one: a job is resized if the time
that it has before it changes by more than four pauses, and where jobs wait. The steady rule also holds while
there are jobs of a class that the policy does not know, as it has no prices for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from corewise.kit.arrays import Floats
from corewise.live.state.job_table import PoolJob
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.policies.moving._kernels import Jobs
from corewise.policies.moving.rule import WidthRule, Widths
from corewise.policies.scaled import positions

__all__ = ["Moving"]


class Moving:
    """Moving costs of a live pool, by class.

    Parameters
    ----------
    system : System
        What is known: a `resize_pause` counts until one was reported.
    """

    def __init__(self, system: System) -> None:
        self._given = [known.resize_pause for known in system.classes]
        self._reported = [(0, 0.0) for _ in system.classes]
        if not self.free:
            _warm_up(system)

    @property
    def free(self) -> bool:
        """Whether no class is known to pause."""
        return not any(self.pauses)

    @property
    def pauses(self) -> list[float]:
        """The pause of each class."""
        rows = zip(self._given, self._reported, strict=True)
        return [total / count if count else given for given, (count, total) in rows]

    def report(self, job_class: int, paused: float) -> None:
        """Take in how long a job stood still for a move."""
        if paused > 0.0:
            count, total = self._reported[job_class]
            self._reported[job_class] = (count + 1, total + paused)

    def targets(
        self,
        jobs: Sequence[PoolJob],
        limits: Sequence[tuple[int, int]],
        policy: BoundPolicy,
        given: Sequence[int],
        pool: int,
        plug_in: System,
    ) -> Mapping[str, int]:
        """Return the cores that every job is to hold, within its limits; `given` are those of each class."""
        pauses, cores = np.array(self.pauses), np.array(given, dtype=np.int64)
        listed = _listed(jobs, limits, pauses)
        classes, at = listed[0], positions(policy, plug_in.names)
        own_rule = policy.decision.part(Widths)
        if own_rule is None or np.any(at[classes] < 0):
            widths = WidthRule("steady", pauses, _times(plug_in, pool)).widths(listed, cores, pool)
        else:
            known = at >= 0
            own = np.zeros(len(policy.system.classes), dtype=np.int64)
            own[at[known]] = cores[known]
            widths = own_rule.rule.widths((at[classes], *listed[1:]), own, pool)
        return {job.name: int(width) for job, width in zip(jobs, widths, strict=True)}

    def on(self, old: System, new: System) -> Moving:
        """Return the costs for other classes, with what was reported of those that stay."""
        made, before = Moving(new), dict(zip(old.names, self._reported, strict=True))
        made._reported = [before.get(name, (0, 0.0)) for name in new.names]
        return made

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {"given": self._given, "reported": [list(row) for row in self._reported]}

    @classmethod
    def of(cls, system: System, snapshot: Mapping[str, Any]) -> Moving:
        """Return what goes on from a snapshot."""
        moving = cls(system)
        moving._given = list(snapshot["given"])
        moving._reported = [(int(count), float(total)) for count, total in snapshot["reported"]]
        return moving


def _warm_up(system: System) -> None:
    """Choose for a job that is not there: the first choice compiles code or loads it, for seconds."""
    jobs = [PoolJob("warm-up", 0, 0, 0.0, None, None)]
    pool, nothing = int(system.cores), np.zeros(len(system.classes))
    given = np.zeros(len(system.classes), dtype=np.int64)
    listed = _listed(jobs, [(1, pool)], nothing)
    WidthRule("steady", nothing, _times(system, pool)).widths(listed, given, pool)


def _listed(jobs: Sequence[PoolJob], limits: Sequence[tuple[int, int]], pauses: Floats) -> Jobs:
    """Return jobs as a width rule takes them; one that is on its way pauses."""
    moving = [pauses[job.job_class] if job.held != job.assigned and job.held else 0.0 for job in jobs]
    return (
        np.array([job.job_class for job in jobs], dtype=np.int64),
        np.array([job.assigned for job in jobs], dtype=np.int64),
        np.array([not (job.assigned or job.held or job.begun) for job in jobs], dtype=np.bool_),
        np.array(moving, dtype=np.float64),
        np.array([least for least, _ in limits], dtype=np.int64),
        np.array([most for _, most in limits], dtype=np.int64),
    )


def _times(system: System, pool: int) -> Floats:
    """Return how long a mean job of each class takes by its cores; a size that is not known counts as one."""
    speeds = np.stack([known.curve.rate(np.arange(pool + 1.0)) for known in system.classes])
    rates = np.array([known.size_rate or 1.0 for known in system.classes])
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (rates[:, None] * speeds))
