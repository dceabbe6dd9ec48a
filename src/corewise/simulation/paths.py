"""Sample paths that have not begun: which engine draws them, and from which tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidInput, InvalidPolicy
from corewise.model.rates import uniformisation_constant
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Decision, Levels
from corewise.policies.fitted.rule import Fitted
from corewise.policies.jobs.levels import JobLevels
from corewise.policies.moving.rule import Widths
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
from corewise.simulation.decisions.widths import EqualWidths, IndexWidths
from corewise.simulation.loops.jobs import JobLoop
from corewise.simulation.loops.loop import Loop
from corewise.simulation.loops.sources import JobSource, RandomJobs
from corewise.simulation.state import State

__all__ = [
    "SHARES",
    "Manner",
    "another_walk",
    "draws_without_tables",
    "first_tables",
    "first_walk",
    "require_clock",
]

_WALKS: dict[type[Decision], type[LevelChain | FittedChain]] = {Levels: LevelChain, Fitted: FittedChain}
_JOB_WALKS: dict[type[Decision], type[RememberedJobs]] = {Levels: LevelJobs, Fitted: FittedJobs}


@dataclass(frozen=True)
class Manner:
    """How jobs hold cores, and what a policy sees of them.

    Attributes
    ----------
    whole : bool
        Whether every job holds whole cores, and stands still for a pause when they change.
    known_sizes : bool
        Whether the policy sees the work before every job.
    """

    whole: bool = False
    known_sizes: bool = False


SHARES = Manner()
"""Any share of a core, moves are free, and sizes are not known."""


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
    manner: Manner = SHARES,
) -> Loop:
    """Return a path that has not begun, without tables or over tables of at least a given capacity.

    Jobs are followed one by one if their sizes or arrivals have a memory, or if a source of them is given;
    with `tables` false in any case without tables. Where jobs of a class may hold different numbers of cores
    each has its own.
    """
    if _by_job(system, policy, manner):
        _require_no_hold(policy, manner)
        require_clock(system, start)
        now, jobs = system.at(start.time), source or RandomJobs(system, rng, start)
        by_job = IndexWidths if _decides_by_job(policy, manner) else EqualWidths
        return by_job(
            now,
            policy,
            jobs,
            start,
            rng,
            whole=manner.whole,
            known_sizes=manner.known_sizes,
            record=record,
            tally=tally,
        )
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


def _require_no_hold(policy: BoundPolicy, manner: Manner) -> None:
    """Raise `InvalidPolicy` for a policy that never changes cores, which whole cores per job would."""
    own = policy.decision.part(Widths)
    if manner.whole and own is not None and own.rule.kind == "hold":
        raise InvalidPolicy(
            f"{policy.name} keeps the cores of a job until it leaves, which whole=True does not follow: "
            f"moving_costs=True (--moving-costs) does"
        )


def _by_job(system: System, policy: BoundPolicy, manner: Manner) -> bool:
    """Return whether jobs of a class may hold different numbers of cores, or run at different speeds."""
    if manner.whole or any(known.changes_with_progress for known in system.classes):
        return True
    return _decides_by_job(policy, manner)


def _decides_by_job(policy: BoundPolicy, manner: Manner) -> bool:
    """Return whether a policy tells the jobs of a class apart, or gives each whole cores of its own."""
    decides = policy.decision.part(JobLevels) is not None
    return decides and (manner.whole or manner.known_sizes or not policy.by_counts)


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
    manner: Manner = SHARES,
) -> Loop:
    """Return a path that has not begun; the tables that the last one has grown serve it too."""
    if isinstance(last, TableJobs):
        tables = last.tables.under(system) if system.changes else last.tables
        return TableJobs(tables, RandomJobs(system, rng, start), start, rng, record=record)
    if not isinstance(last, TableChain):
        return first_walk(system, policy, start, rng, record=record, tally=tally, manner=manner)
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
