r"""Simulation: a sample path of the system under a policy.

For exponential sizes and Poisson arrivals two engines, both exact, behind one function.

- A window that ends on a *count* of departures needs no clock while it runs: the sequence of states is a
  Markov chain of its own (the jump chain), and given how often each state was left, the time spent in it is
  one Gamma variable. No exponential variable is drawn per event.
- A window that ends at a *time*, a recorded path, and curves that change need the clock: one exponential and
  one uniform variable an event.

Both read the moves of a state from tables over a box. No job is ever blocked: tables grow with the path, and
the path does not depend on them. For more than three classes policies that are one water level, or go by
fitted values, are simulated without tables (`corewise.simulation.loops.clocked`).

For any other law, and for jobs that were recorded, every job is followed (`corewise.simulation.loops.jobs`);
where jobs of a class differ in their cores or speeds, each with its own (`corewise.simulation.loops.widths`).
Recorded jobs that come to more states than tables hold are run again without tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np

from corewise.errors import BoxTooLarge, InvalidInput
from corewise.kit.progress import Progress
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.simulation.loops.sources import RandomJobs, RecordedJobs
from corewise.simulation.paths import SHARES, Manner, first_walk, require_clock
from corewise.simulation.randomness import random_generator
from corewise.simulation.run import Run, run_of
from corewise.simulation.state import State
from corewise.simulation.trace import Trace, require_trace
from corewise.simulation.window import BATCHES, Replay, Window, start_state

__all__ = ["simulate"]

_FEW = 1000
"""Recorded jobs that may all be present at once without tables becoming large."""


def simulate(  # noqa: PLR0913  # what to simulate, how long, and what to keep
    system: System,
    policy: Policy | str,
    *,
    departures: int | None = None,
    time: float | None = None,
    rng: np.random.Generator | int | None = None,
    start: State | Sequence[int] | None = None,
    record: bool = False,
    jobs: Trace | None = None,
    progress: Progress | None = None,
    whole: bool = False,
    known_sizes: bool = False,
    moving_costs: bool = False,
) -> Run:
    """Simulate `policy` on `system` for a number of departures or a length of time.

    Where sizes or the times between arrivals are not exponential, every job is followed. Its size and its
    arrival come from streams of its class: with one seed the jobs are the same under every policy.

    Parameters
    ----------
    system : System
        The system; curves that change do so at their times.
    policy : Policy or str
        A rule, its name (``"equi"``), or a policy bound to another system with the same cores and classes.
    departures, time : int, float
        How long: exactly one of the two; with `jobs` until all of them have left, if neither is given.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    start : State or sequence of int, optional
        The state to start from: where another run ended, or the jobs of each class. Empty if not given.
    record : bool, optional
        Whether to keep every event, with the jobs' identities, in `Run.path`.
    jobs : Trace, optional
        Jobs that were recorded, which come exactly so; nothing is random then. Rates that the system does not
        know are those of the trace.
    progress : callable, optional
        Called now and then with the share of the work that is done, from 0 to 1.
    whole : bool, optional
        Whether every job holds whole cores, between `min_cores` and `max_cores` of its class or none, as
        ``allocate_jobs(…, whole=True)`` gives them. A job that has begun stands still for the `resize_pause`
        of its class when they change; if they change again during a pause, it begins anew.
    known_sizes : bool, optional
        Whether a policy that decides per job sees the work before every job.
    moving_costs : bool, optional
        Whether jobs hold whole cores, as many as their class allows, and stand still for its `resize_pause`
        when they change, but for their first ones. If cores change again during a pause, it begins anew. The
        run begins with no job and keeps no events. A policy without a rule for single jobs is followed:
        cores of a class are shared equally, the oldest jobs first.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, cw.Equi(), departures=100_000, rng=7)
    >>> round(run.mean_jobs, 3)
    0.654
    >>> low, high = run.interval
    >>> low < cw.evaluate(system, cw.Equi()).mean_jobs < high
    True
    >>> more = cw.simulate(system, cw.Equi(), departures=1_000, rng=8, start=run.state)
    >>> more.departures
    1000
    """
    require_system(system)
    manner = Manner(whole, known_sizes)
    if moving_costs and (record or start is not None or manner != SHARES):
        raise InvalidInput(
            "with moving costs a run begins empty and keeps no events: no record, no start, nor whole or "
            "known_sizes, which are another way to hold whole cores"
        )
    if jobs is None:
        window, begin = Window.of(departures, time), start_state(start, system)
    else:
        require_trace(jobs)
        system = jobs.completed(system)
        begin = _trace_start(jobs, start, system)
        window = _trace_window(jobs, begin, departures, time)
    bound = bind(policy, system)
    generator = random_generator(rng)
    if moving_costs:
        from corewise.simulation.moving_run import moving_run, require_moves

        require_moves(system, bound)
        require_clock(system, begin)
        source = RandomJobs(system, generator, begin) if jobs is None else RecordedJobs(system, jobs)
        return moving_run(system, bound, window, source, begin.time, progress, recorded=jobs is not None)
    tables = jobs is None or _keeps_up(system, jobs)
    replay = Replay(system, policy, begin, window, BATCHES, deepcopy(generator), bound, jobs, tables, manner)
    try:
        return _walked(replay, bound, generator, record, progress)
    except BoxTooLarge:  # more jobs at a time than tables hold; jobs that were recorded can come once more
        if jobs is None:
            raise
    return _walked(replace(replay, tables=False), bound, generator, record, progress)


def _keeps_up(system: System, jobs: Trace) -> bool:
    """Return whether all cores can do the work of recorded jobs about as fast as it comes.

    If not, and they are many, jobs pile up: tables of the states that they come to take longer to make than
    they save.
    """
    span = float(jobs.time[-1] - jobs.time[0])
    return jobs.time.size <= _FEW or float(jobs.size.sum()) <= system.cores * span


def _walked(
    replay: Replay,
    policy: BoundPolicy,
    rng: np.random.Generator,
    record: bool,
    progress: Progress | None,
) -> Run:
    """Return the run whose replay is given, drawn from `rng`."""
    system, window = replay.system, replay.window
    walk = first_walk(
        *(system, policy, replay.start, rng),
        record=record,
        source=replay.source,
        tables=replay.tables,
        manner=replay.manner,
    )
    if record or window.short(system):
        walk.follow_jobs()
    window.walk(walk, BATCHES, progress)
    return run_of(walk, replay)


def _trace_start(jobs: Trace, start: State | Sequence[int] | None, system: System) -> State:
    """Return the state in which a trace begins: at its first job, unless another is given."""
    begin = start_state(start, system)
    if not isinstance(start, State):
        begin = replace(begin, time=float(jobs.time[0]))
    if jobs.time[0] < begin.time:
        raise InvalidInput(
            f"job 0 of the trace comes at {jobs.time[0]:g}, before the start at {begin.time:g}"
        )
    return begin


def _trace_window(jobs: Trace, begin: State, departures: int | None, time: float | None) -> Window:
    """Return when to stop: when all jobs of a trace have left, unless something else is asked for."""
    most = len(jobs.job_class) + sum(begin.counts)
    window = Window.of(most if departures is None and time is None else departures, time)
    if window.departures is not None and window.departures > most:
        raise InvalidInput(f"the trace has {most} jobs, and departures={departures!r} are asked for")
    return window
