"""Speed tables: how fast the jobs of each class run in every state of a box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from corewise.kit.arrays import Bools, Floats
from corewise.model.rates import job_speeds
from corewise.model.space import StateSpace
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.simulation.tables import BoxTables

__all__ = ["SpeedTables"]


@dataclass(frozen=True, eq=False)
class SpeedTables(BoxTables):
    """Tables of the speeds of jobs under a policy.

    Attributes
    ----------
    speeds : ndarray
        The speed of a job of each class, flat, K a state.
    inside : ndarray of bool
        Whether every class can have one job more within the box.
    """

    speeds: Floats
    inside: Bools

    @classmethod
    def filled(cls, system: System, policy: BoundPolicy, space: StateSpace, cores: Floats) -> Self:
        """Return the tables of a box in which the cores are known."""
        speeds = np.ascontiguousarray(job_speeds(system, space.jobs, cores).T).ravel()
        inside = np.all(space.counts < np.array(space.capacity)[:, None], axis=0)
        return cls(system, policy, space, cores, speeds, inside)
