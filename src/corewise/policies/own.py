"""A policy of one's own: any function from the jobs in a state to the cores of each class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from corewise.errors import CorewiseError, InvalidPolicy
from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.policies.base import BoundPolicy

__all__ = ["OwnPolicy"]


@dataclass(frozen=True)
class OwnPolicy:
    """Policy of one's own: a function from one state to one split of the cores.

    Parameters
    ----------
    name : str
        What to call the policy in a table.
    split : callable
        ``split(jobs, system)``: the cores of each class, when so many jobs of each are present. It is not
        asked about the empty state, in which no job holds a core.
    vectorised : bool, optional
        Whether `split` takes many states at once: then jobs and cores have a row for each state and a column
        for each class, shape (states, K), as in ``allocate``.

    Examples
    --------
    >>> import corewise as cw
    >>> def by_work(jobs, system):
    ...     work = jobs / system.size_rates
    ...     return system.cores * work / work.sum()
    >>> policy = cw.OwnPolicy("by work", by_work)
    >>> policy.on(cw.load_system("paper:1")).allocate([3, 2])
    array([18., 12.])
    """

    name: str
    split: Callable[[Ints, System], ArrayLike]
    vectorised: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidPolicy(f"the name of a policy must be text, got {self.name!r}")
        if not callable(self.split):
            raise InvalidPolicy(
                f"{self.name}: split must be a function of jobs and system, got {self.split!r}"
            )

    def on(self, system: System) -> BoundPolicy:
        """Return the policy for that system."""
        return BoundPolicy(system, self.name, partial(OwnPolicy._held, self, system))

    def _held(self, system: System, counts: Ints) -> Floats:
        """Return the cores per class, counts and cores of shape (K, states)."""
        some = counts.any(axis=0)
        states = np.ascontiguousarray(counts.T[some])
        cores = np.zeros(counts.shape)
        if self.vectorised:
            cores[:, some] = self._asked(states, system).T
        else:
            cores[:, some] = np.array([self._asked(jobs, system) for jobs in states]).reshape(states.shape).T
        return cores

    def _asked(self, jobs: Ints, system: System) -> Floats:
        """Return the answer of `split`, if it has a number for every class."""
        where = f"for {jobs.tolist() if jobs.ndim == 1 else f'jobs of shape {jobs.shape}'}"
        try:
            cores = np.asarray(self.split(jobs.copy(), system))
        except CorewiseError:
            raise
        except Exception as error:
            raise InvalidPolicy(
                f"{self.name}: split fails {where} ({type(error).__name__}: {error})"
            ) from error
        if cores.dtype.kind not in "iuf" or cores.shape != jobs.shape:
            raise InvalidPolicy(
                f"{self.name}: split must give {len(system.classes)} numbers a state, "
                f"got {cores.tolist()!r:.100} {where}"
            )
        return cores.astype(np.float64, copy=False)
