"""Sample paths that have not begun: which engine draws them, and from which tables."""

from __future__ import annotations

import numpy as np

from corewise.errors import InvalidInput
from corewise.model.rates import uniformisation_constant
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Decision, Levels
from corewise.policies.fitted.rule import Fitted
from corewise.simulation.engine import Engine
from corewise.simulation.general.box import BoxJobWalk
from corewise.simulation.general.source import JobSource, RandomJobs
from corewise.simulation.general.tableless import FittedJobWalk, LevelJobWalk, TablelessJobWalk
from corewise.simulation.general.tables import SpeedTables
from corewise.simulation.general.walk import JobWalk
from corewise.simulation.state import State
from corewise.simulation.tableless.fitted import FittedWalk
from corewise.simulation.tableless.level import LevelWalk
from corewise.simulation.tables import Tables, suits_tables
from corewise.simulation.walk import Walk

__all__ = ["another_walk", "draws_without_tables", "first_tables", "first_walk", "require_clock"]

_WALKS: dict[type[Decision], type[LevelWalk | FittedWalk]] = {Levels: LevelWalk, Fitted: FittedWalk}
_JOB_WALKS: dict[type[Decision], type[TablelessJobWalk]] = {Levels: LevelJobWalk, Fitted: FittedJobWalk}


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
) -> Engine:
    """Return a path that has not begun, without tables or over tables of at least a given capacity.

    Jobs are followed one by one if their sizes or arrivals have a memory, or if a source of them is given;
    with `tables` false in any case without tables.
    """
    if source is not None or not system.memoryless or not policy.by_counts:
        jobs = source or RandomJobs(system, rng, start)
        if tables and suits_tables(system):
            require_clock(system, start)
            made = SpeedTables.of(system.at(start.time), policy, start.counts, least)
            return BoxJobWalk(made, jobs, start, rng, record=record)
        return _tableless_job_walk(system, policy, jobs, start, rng, record=record, tally=tally)
    kind = _tableless_kind(policy)
    if kind is not None and not suits_tables(system):
        require_clock(system, start)
        return kind(system.at(start.time), policy, start, rng, record=record, tally=tally)
    return Walk(first_tables(system, policy, start, least), start, rng, record=record)


def _tableless_job_walk(
    system: System,
    policy: BoundPolicy,
    source: JobSource,
    start: State,
    rng: np.random.Generator,
    *,
    record: bool,
    tally: bool,
) -> JobWalk:
    """Return a path that has not begun and on which every job is followed without tables."""
    require_clock(system, start)
    kind = _JOB_WALKS.get(type(policy.decision.by_counts), TablelessJobWalk)
    return kind(system.at(start.time), policy, source, start, rng, record=record, tally=tally)


def _tableless_kind(policy: BoundPolicy) -> type[LevelWalk | FittedWalk] | None:
    """Return what can draw the paths of a policy without tables."""
    return _WALKS.get(type(policy.decision.by_counts))


def draws_without_tables(policy: BoundPolicy) -> bool:
    """Return whether paths of a policy can be drawn without tables."""
    return _tableless_kind(policy) is not None


def another_walk(
    last: Engine | None,
    system: System,
    policy: BoundPolicy,
    start: State,
    rng: np.random.Generator,
    *,
    record: bool = False,
    tally: bool = False,
) -> Engine:
    """Return a path that has not begun; the tables that the last one has grown serve it too."""
    if isinstance(last, BoxJobWalk):
        tables = last.tables.under(system) if system.changes else last.tables
        return BoxJobWalk(tables, RandomJobs(system, rng, start), start, rng, record=record)
    if not isinstance(last, Walk):
        return first_walk(system, policy, start, rng, record=record, tally=tally)
    grown = last.tables
    return Walk(grown.under(system) if system.changes else grown, start, rng, record=record)


def first_tables(
    system: System, policy: BoundPolicy, start: State, least: tuple[int, ...] | None = None
) -> Tables:
    """Return the tables to start a walk with, over a box of at least a given capacity."""
    require_clock(system, start)
    return Tables.of(system.at(start.time), policy, start.counts, least)


def require_clock(system: System, start: State) -> None:
    """Raise `InvalidInput` if arithmetic would break down."""
    system.require_scale()
    if np.spacing(abs(start.time)) * uniformisation_constant(system) > 1e-4:
        raise InvalidInput(
            f"the clock cannot start at {start.time!r}: events would be too close to tell apart"
        )
