"""Decisions per job by asking the policy: any policy on the loop where every job has cores of its own."""

from __future__ import annotations

import math

import numpy as np

from corewise.policies.jobs.state import JobState
from corewise.simulation.loops._kernels.widths import JOBS, WidthPath, apply_widths, settle
from corewise.simulation.loops.widths import WidthLoop

__all__ = ["AskedWidths"]


class AskedWidths(WidthLoop):
    """Loop over every job under a policy that is asked about the jobs present at every decision."""

    def _follow_jobs(self, path: WidthPath, clock: float, until: float) -> float:
        due = True
        while due:
            clock, due = settle(path, clock, until)
            if due:
                apply_widths(path, self._widths(clock), clock)
        return clock

    def _widths(self, now: float) -> np.ndarray:
        """Return what the jobs present are to hold."""
        jobs, n, names = self._jobs, int(self._here[JOBS]), self.system.names
        states = []
        for j in range(n):
            left, size = max(float(jobs.left[j]), 0.0), float(jobs.sizes[j])
            waited = now - float(jobs.since[j]) if jobs.widths[j] == 0.0 else 0.0
            if now >= jobs.since[j] + self._plant.patience:
                waited = max(waited, self._plant.patience)
            states.append(
                JobState(
                    str(j),
                    names[jobs.classes[j]],
                    attained=size - left,
                    remaining=left if self.known_sizes else None,
                    held=float(jobs.widths[j]),
                    waited=waited if math.isfinite(waited) else 0.0,
                )
            )
        pause = float(self._plant.pauses.max())
        given = self.policy.allocate_jobs(states, whole=self.whole, pause=pause)
        return np.array([given[str(j)] for j in range(n)], dtype=np.float64)
