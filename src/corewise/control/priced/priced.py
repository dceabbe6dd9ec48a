"""The price rule as a policy, made for the system that it is bound to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.control.priced.tables import most_cells, price_tables
from corewise.control.solution import solve
from corewise.errors import BoxTooLarge
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, bind
from corewise.policies.moving.priced import PricedTabular
from corewise.policies.moving.rule import WidthRule, Widths, job_times
from corewise.policies.rounding import require_whole
from corewise.policies.whittle import Whittle
from corewise.policies.whole import WholeCores

__all__ = ["Priced", "solve_priced"]

_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Priced:
    """Price rule: jobs move where that is worth what it costs, by the `resize_pause` of their class.

    Where moves are free it is the optimum in whole cores; it differs in `simulate` with moving costs and in
    live pools. Where there are too many states for a table, a job is resized if the time that it has before
    it changes by more than four pauses, on its way to what the Whittle rule gives.

    Examples
    --------
    >>> import corewise as cw
    >>> one = cw.JobClass("one", 1.2, 1.0, cw.Amdahl(0.3), resize_pause=0.2)
    >>> two = cw.JobClass("two", 1.2, 1.0, cw.Amdahl(0.8), resize_pause=0.2)
    >>> run = cw.simulate(cw.System(8, [one, two]), "priced", moving_costs=True, departures=20_000, rng=1)
    >>> run.resizes_per_event < 0.1
    True
    """

    name: str = "priced"

    def require_fit(self, system: System) -> None:
        """Raise unless there is a whole number of cores."""
        require_system(system)
        require_whole(system)

    def on(self, system: System) -> BoundPolicy:
        """Return the price rule for that system."""
        self.require_fit(system)
        try:
            return solve_priced(system.as_memoryless()).on(system)
        except BoxTooLarge:
            bound = bind(WholeCores(Whittle()), system)
            pauses = np.array([known.resize_pause for known in system.classes])
            rule = WidthRule("steady", pauses, job_times(system, int(system.cores)))
            return BoundPolicy(bound.system, self.name, Widths(bound.decision, rule))


def solve_priced(system: System) -> PricedTabular:
    """Return the price rule of a system as a table.

    Raises
    ------
    BoxTooLarge
        If there are too many states.
    """
    solution = solve(system, whole_cores=True, tolerance=_TOLERANCE)
    cells = math.prod(solution.values.shape) * len(system.classes) * (int(system.cores) + 1)
    if cells > most_cells:
        raise BoxTooLarge(f"the price rule does not tabulate {cells:,} states and widths")
    return PricedTabular(solution.policy, price_tables(system, solution))
