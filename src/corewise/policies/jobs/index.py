"""The index policy for jobs: cores by what a unit of work of each job is worth."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from corewise.errors import InvalidPolicy
from corewise.kit import checks
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Rule
from corewise.policies.jobs.levels import JobLevels
from corewise.policies.jobs.weights import recursion_by_counts
from corewise.policies.whittle import Whittle

__all__ = ["JobIndex"]


@dataclass(frozen=True)
class JobIndex:
    """Index policy for jobs: a unit of a job's work is worth its cost at the price when the job completes.

    For the mathematics see `corewise.policies.jobs.weights`. It takes any size distribution, known or unknown
    remaining work, curves of single jobs, whole cores with moves that cost a pause, and any load.

    Parameters
    ----------
    load : float, optional
        The long-run load: that of a week, or a declared one, never that of the last hours; 0.0 for a batch
        or a day that ends. By default the load of the system.
    widest : float, optional
        No job holds more than so many times the equal share, or one core: 4 by default, 2 where the curves
        are very uncertain.
    longest_wait : float, optional
        A job that has held no core for so long gets one before all others; by default none does.

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.Lognormal(cv2=4.0)
    >>> system = cw.System(8, [cw.JobClass("a", 4.0, 1.0, cw.Amdahl(0.9), sizes=sizes)])
    >>> jobs = [cw.JobState("short", "a", remaining=0.1), cw.JobState("long", "a", remaining=5.0)]
    >>> cw.JobIndex().on(system).allocate_jobs(jobs, whole=True)
    {'short': 5, 'long': 3}
    """

    _: KW_ONLY
    load: float | None = None
    widest: float = 4.0
    longest_wait: float = math.inf
    name: str = "job-index"

    def __post_init__(self) -> None:
        if self.load is not None:
            checks.within(self.load, 0.0, math.inf, "load", InvalidPolicy)
        checks.positive(self.widest, "widest", InvalidPolicy)
        if not self.longest_wait > 0.0:
            raise InvalidPolicy(f"longest_wait must be positive, got {self.longest_wait!r}")

    def on(self, system: System) -> BoundPolicy:
        """Return the policy for that system."""
        require_system(system)
        if self.load is None:
            system.require_rates()
        load = system.load if self.load is None else self.load
        decision = JobLevels(Whittle().on(system).decision, system, load, self.widest, self.longest_wait)
        if decision.memoryless and not decision.alike:
            within = Rule(partial(recursion_by_counts, system, load, self.widest))
            decision = replace(decision, within=within)
        return BoundPolicy(system, self.name, decision)
