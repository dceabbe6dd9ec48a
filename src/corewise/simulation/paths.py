"""Sample paths that have not begun: which engine draws them, and from which tables."""

from __future__ import annotations

import numpy as np

from corewise.errors import InvalidInput, InvalidPolicy, InvalidSystem
from corewise.model.rates import uniformisation_constant
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Decision, Levels
from corewise.policies.fitted.rule import Fitted
from corewise.policies.jobs.levels import JobLevels
from corewise.simulation.decisions.fitted import FittedChain, FittedJobs
from corewise.simulation.decisions.levels import LevelChain, LevelJobs
from corewise.simulation.decisions.remembered import RememberedJobs
from corewise.simulation.decisions.table import (
    SpeedTables,
    TableChain,
    TableJobs,
    TransitionTables,
    suits_tables,
)
from corewise.simulation.loops.jobs import JobLoop
from corewise.simulation.loops.loop import Loop
from corewise.simulation.loops.sources import JobSource, RandomJobs
from corewise.simulation.state import State

__all__ = [
    "another_walk",
    "draws_without_tables",
    "first_tables",
    "first_walk",
    "require_clock",
    "require_steady_curves",
]

_WALKS: dict[type[Decision], type[LevelChain | FittedChain]] = {Levels: LevelChain, Fitted: FittedChain}
_JOB_WALKS: dict[type[Decision], type[RememberedJobs]] = {Levels: LevelJobs, Fitted: FittedJobs}


def first_walk(  # noqa: PLR0913  # a system, where its path begins, and how it is drawn
    system: System,
    policy: BoundPolicy,
    start: State,
    rng: np.random.Generator,
    *,
    record: bool = False,
    tally: bool = False,
    least: tuple[int, ...] | None = None,
    source: JobSource | None = None,
    tables: bool = True,
) -> Loop:
    """Return a path that has not begun, without tables or over tables of at least a given capacity.

    Jobs are followed one by one if their sizes or arrivals have a memory, or if a source of them is given;
    with `tables` false in any case without tables.
    """
    require_steady_curves(system)
    _require_class_policy(system, policy)
    if source is not None or not system.memoryless or not policy.by_counts:
        jobs = source or RandomJobs(system, rng, start)
        if tables and suits_tables(system):
            require_clock(system, start)
            made = SpeedTables.of(system.at(start.time), policy, start.counts, least)
            return TableJobs(made, jobs, start, rng, record=record)
        return _tableless_job_walk(system, policy, jobs, start, rng, record=record, tally=tally)
    kind = _tableless_kind(policy)
    if kind is not None and not suits_tables(system):
        require_clock(system, start)
        return kind(system.at(start.time), policy, start, rng, record=record, tally=tally)
    return TableChain(first_tables(system, policy, start, least), start, rng, record=record)


def require_steady_curves(system: System) -> None:
    """Raise `InvalidSystem` for curves by progress, which no loop here can follow."""
    for job_class in system.classes:
        if job_class.changes_with_progress:
            raise InvalidSystem(
                f"class {job_class.name!r}: its curve changes with progress, which is not simulated here: "
                f"allocate_jobs decides by it"
            )


def _require_class_policy(system: System, policy: BoundPolicy) -> None:
    """Raise `InvalidPolicy` for a policy whose decisions per job no loop here can follow."""
    if policy.decision.part(JobLevels) is not None and not (system.memoryless and policy.by_counts):
        raise InvalidPolicy(
            f"{policy.name} decides per job where sizes are not exponential, which is not simulated here: "
            f"allocate_jobs gives the cores of every job"
        )


def _tableless_job_walk(
    system: System,
    policy: BoundPolicy,
    source: JobSource,
    start: State,
    rng: np.random.Generator,
    *,
    record: bool,
    tally: bool,
) -> JobLoop:
    """Return a path that has not begun and on which every job is followed without tables."""
    require_clock(system, start)
    kind = _JOB_WALKS.get(type(policy.decision.by_counts), RememberedJobs)
    return kind(system.at(start.time), policy, source, start, rng, record=record, tally=tally)


def _tableless_kind(policy: BoundPolicy) -> type[LevelChain | FittedChain] | None:
    """Return what can draw the paths of a policy without tables."""
    return _WALKS.get(type(policy.decision.by_counts))


def draws_without_tables(policy: BoundPolicy) -> bool:
    """Return whether paths of a policy can be drawn without tables."""
    return _tableless_kind(policy) is not None


def another_walk(
    last: Loop | None,
    system: System,
    policy: BoundPolicy,
    start: State,
    rng: np.random.Generator,
    *,
    record: bool = False,
    tally: bool = False,
) -> Loop:
    """Return a path that has not begun; the tables that the last one has grown serve it too."""
    if isinstance(last, TableJobs):
        tables = last.tables.under(system) if system.changes else last.tables
        return TableJobs(tables, RandomJobs(system, rng, start), start, rng, record=record)
    if not isinstance(last, TableChain):
        return first_walk(system, policy, start, rng, record=record, tally=tally)
    grown = last.tables
    return TableChain(grown.under(system) if system.changes else grown, start, rng, record=record)


def first_tables(
    system: System, policy: BoundPolicy, start: State, least: tuple[int, ...] | None = None
) -> TransitionTables:
    """Return the tables to start a walk with, over a box of at least a given capacity."""
    require_clock(system, start)
    return TransitionTables.of(system.at(start.time), policy, start.counts, least)


def require_clock(system: System, start: State) -> None:
    """Raise `InvalidInput` if arithmetic would break down."""
    system.require_scale()
    if np.spacing(abs(start.time)) * uniformisation_constant(system) > 1e-4:
        raise InvalidInput(
            f"the clock cannot start at {start.time!r}: events would be too close to tell apart"
        )
