"""Sweeps: many runs of the same kind, on one machine or many, whose rows outlive whatever happens.

What is to be done is a plan (`grid`, `file`): systems × policies × algorithms × seeds. What was done is a
file of rows (`results`). A sweep is the way from one to the other: trials that have no row yet are sent to
workers, processes of this machine or a Dask cluster, carried out there (`trial`), and every row is written
before it is yielded. So there is no difference between beginning a sweep and resuming it.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any

import numpy as np

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks
from corewise.kit.numbers import half_width
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.unit_labels import with_unit
from corewise.kit.values import ByValue
from corewise.kit.version import __version__
from corewise.kit.workers import (
    ExecutorWorkers,
    LocalProcesses,
    Outcome,
    ReliableCalls,
    WorkerCall,
    Workers,
    dask_at,
    local_dask,
)
from corewise.simulation.intervals import mean_interval
from corewise.studies.sweeps.file import load_sweep
from corewise.studies.sweeps.grid import SweepPlan, Trial
from corewise.studies.sweeps.results import SweepJournal
from corewise.studies.sweeps.trial import DONE, FAILED, SweepRow, carry_out, failed_row

__all__ = ["Sweep", "SweepMean", "sweep", "sweep_means"]

_DASK_IN_FLIGHT = 1000  # trials: enough to keep a large cluster busy between two looks at it
_LOCAL_DASK = "local"
_NAMED = 5  # failed runs that a report names


@dataclass(frozen=True, eq=False, repr=False)
class SweepMean(ByValue, Summarised):
    """Mean over trials that differ by their seeds alone, with a confidence interval.

    Attributes
    ----------
    kind, system, policy, algorithm, cores, load
        What they have in common, see `SweepRow`.
    runs, failed : int
        How many there are, and how many of them failed; the means are over the others.
    mean_jobs, mean_response_time, gap : float or None
        Means over the seeds; None where nothing is known.
    interval : tuple of float or None
        A 95 % confidence interval for the mean number of jobs: from the spread over the seeds, or if there is
        but one, from the run itself.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import corewise as cw
    >>> plan = {"systems": ["paper:1"], "loads": [0.5], "evaluate": [{"policies": ["equi"]}]}
    >>> with ThreadPoolExecutor(1) as executor, cw.sweep(plan, executor=executor) as runs:
    ...     found = list(runs)
    >>> mean = runs.means[0]
    >>> mean.policy, mean.runs, mean.failed, round(mean.mean_jobs, 3)
    ('equi', 1, 0, 8.617)
    """

    _repr_fields = ("kind", "system", "policy", "runs", "mean_jobs")

    kind: str
    system: str
    policy: str
    algorithm: str | None
    cores: float
    load: float
    runs: int
    failed: int
    mean_jobs: float | None
    interval: tuple[float, float] | None
    mean_response_time: float | None
    gap: float | None


class Sweep(Reported, Iterator[SweepRow]):
    """Sweep in progress: an iterator over the rows as they arrive, each of which is in the file by then.

    To end it early, leave the loop and `close` it, or use it in a ``with`` statement; the same call takes it
    up again.

    Attributes
    ----------
    plan : SweepPlan
        What is to be done.
    before : int
        How many rows were there when it was taken up.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import corewise as cw
    >>> plan = {"systems": ["paper:1"], "loads": [0.5], "evaluate": [{"policies": ["equi", "optimal"]}]}
    >>> with ThreadPoolExecutor(1) as executor, cw.sweep(plan, executor=executor) as runs:
    ...     found = sorted(row.policy for row in runs)
    >>> found, len(runs.rows) == len(runs.means) == 2
    (['equi', 'optimal'], True)
    """

    _json_fields = (
        *("rows", "means", "runs", "done", "failed", "resumed=before", "unit"),
        *("seed=plan.seed", "sweep=plan.fingerprint"),
    )

    def __init__(self, journal: SweepJournal, pool: AbstractContextManager[_Pool]) -> None:
        self.plan = journal.plan
        self.before = len(journal.rows)
        self._journal = journal
        self._arriving = self._carry_out(pool)

    @property
    def rows(self) -> tuple[SweepRow, ...]:
        """All rows that are there, those from before included, in the order of the plan."""
        return self._journal.in_order

    @property
    def means(self) -> tuple[SweepMean, ...]:
        """The means over the seeds of the rows that are there."""
        return sweep_means(self.rows)

    @property
    def runs(self) -> int:
        """How many rows there are in the end."""
        return len(self.plan.trials)

    @property
    def failed(self) -> int:
        """How many of the rows that are there are of failed trials."""
        return sum(row.status == FAILED for row in self._journal.rows.values())

    @property
    def done(self) -> int:
        """How many of the rows that are there are of trials that did not fail."""
        return len(self._journal.rows) - self.failed

    @property
    def unit(self) -> str | None:
        """What the times of all systems are in; None if it is not known, or differs."""
        units = {trial.system.unit for trial in self.plan.trials}
        return units.pop() if len(units) == 1 else None

    def report(self) -> Report:
        """Return the means over seeds, a table for each kind of run, and the first runs that failed."""
        means = self.means
        tables = [
            _means_table([mean for mean in means if mean.kind == kind], self.unit)
            for kind in dict.fromkeys(mean.kind for mean in means)
        ]
        failed = [str(row) for row in self.rows if row.status == FAILED]
        title = f"Sweep {self.plan.name}: {len(self._journal.rows)} of {self.runs} runs"
        return Report(title, tables=tables, notes=failed[:_NAMED])

    def __next__(self) -> SweepRow:
        """Return the next row, once it is there."""
        return next(self._arriving)

    def __enter__(self) -> Sweep:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop: end the workers that were started, and let go of the file."""
        self._arriving.close()
        self._journal.close()

    def _carry_out(self, pool: AbstractContextManager[_Pool]) -> Generator[SweepRow]:
        with self._journal as journal:
            waiting = [trial for trial in self.plan.trials if trial.key not in journal.rows]
            if waiting:
                with pool as workers:
                    for row in _Dispatch(workers, self.plan.fingerprint).rows(waiting):
                        journal.append(row)
                        yield row
            journal.finish()

    def _summary(self) -> Mapping[str, object]:
        return {"name": self.plan.name, "rows": len(self._journal.rows), "trials": len(self.plan.trials)}

    def _values(self) -> Mapping[str, object]:
        """Return the rows so far, and their means."""
        return {**self.plan._values(), "rows": self.rows, "means": self.means}


def _means_table(means: Sequence[SweepMean], unit: str | None) -> Table:
    """Return the table of means of one kind; a column in which nothing would stand is left out."""
    varied = {(mean.system, mean.cores) for mean in means}
    names = {
        "system": [mean.system for mean in means],
        "cores": [f"{mean.cores:g}" if len(varied) > len({s for s, _ in varied}) else "" for mean in means],
        "load": [f"{mean.load:.4g}" for mean in means],
        "algorithm": [f"{mean.algorithm}, {mean.policy}" if mean.algorithm else "" for mean in means],
        "policy": ["" if mean.algorithm else mean.policy for mean in means],
    }
    shown = {name: values for name, values in names.items() if any(values)}
    rows = [
        [
            *(values[i] for values in shown.values()),
            f"{mean.runs - mean.failed}" + (f" of {mean.runs}" if mean.failed else ""),
            "" if mean.mean_jobs is None else f"{mean.mean_jobs:.5g}",
            "" if mean.interval is None else f"{half_width(mean.interval):.2g}",
            "" if mean.mean_response_time is None else f"{mean.mean_response_time:.5g}",
            "" if mean.gap is None else f"{100.0 * mean.gap:.3g} %",
        ]
        for i, mean in enumerate(means)
    ]
    header = [*shown, "runs", "jobs", "± 95 %", with_unit("response\ntime", unit), "gap"]
    return Table(header, rows, len(shown), f"{means[0].kind}: means over seeds")


@dataclass(frozen=True)
class _Pool:
    """Workers of a sweep, and how many trials to send before the first of them have come back."""

    workers: Workers
    in_flight: int


@contextmanager
def _borrowed(executor: Executor) -> Iterator[_Pool]:
    """Use an executor of the caller, which stays open."""
    if not isinstance(executor, Executor):
        raise InvalidInput(f"executor must be one of concurrent.futures, got {executor!r}")
    yield _Pool(ExecutorWorkers(executor), 2 * getattr(executor, "_max_workers", os.cpu_count() or 1))


@contextmanager
def _local(workers: int | None) -> Iterator[_Pool]:
    """Start processes on this machine, by default as many as it has cores."""
    count = os.cpu_count() or 1 if workers is None else checks.whole(workers, "workers")
    with closing(LocalProcesses(count)) as processes:
        processes.open()
        yield _Pool(processes, 2 * count)


@contextmanager
def _dask(address: str, workers: int | None) -> Iterator[_Pool]:
    """Use the Dask cluster whose scheduler is at `address`, or one on this machine if that is ``local``."""
    if address != _LOCAL_DASK and workers is not None:
        raise InvalidInput(f"the Dask cluster at {address} has its own workers, got workers={workers!r}")
    with local_dask(workers) if address == _LOCAL_DASK else dask_at(address) as client:
        executor = client.get_executor(pure=False)
        try:
            yield _Pool(ExecutorWorkers(executor), _DASK_IN_FLIGHT)
        finally:
            executor.shutdown(wait=False)  # trials that are unfinished are not wanted any more


@dataclass(eq=False, slots=True)
class _TrialCall(WorkerCall):
    """Call that carries out a trial."""

    trial: Trial = field(kw_only=True)


class _Dispatch:
    """Dispatcher of trials to workers, a bounded number at a time; each comes back as a row."""

    def __init__(self, pool: _Pool, fingerprint: str) -> None:
        self._in_flight = pool.in_flight
        self._about = fingerprint, __version__
        self._done: SimpleQueue[tuple[_TrialCall, Future[SweepRow]]] = SimpleQueue()
        self._calls = ReliableCalls[_TrialCall](pool.workers, lambda *done: self._done.put(done))

    def rows(self, trials: Iterable[Trial]) -> Iterator[SweepRow]:
        """Yield the row of every trial, as they arrive."""
        waiting = deque(trials)
        under_way = 0
        while waiting or under_way:
            while waiting and under_way < self._in_flight:
                trial = waiting.popleft()
                self._calls.send(_TrialCall(partial(carry_out, trial, *self._about), trial=trial))
                under_way += 1
            task, future = self._done.get()
            outcome = self._calls.settle(task, future)
            if outcome is not None:
                under_way -= 1
                yield self._row_of(task, outcome)

    def _row_of(self, task: _TrialCall, outcome: Outcome) -> SweepRow:
        error = outcome.error
        if error is None:
            row: SweepRow = outcome.answer
            return row
        if isinstance(error, CancelledError):
            raise CorewiseError(
                f"the workers are out of reach, and {task.trial.key} with them; "
                "the rows that arrived are kept"
            ) from None
        if outcome.lost:
            error = CorewiseError(f"its worker process died {task.losses} times, the last time alone")
        elif isinstance(error.__cause__ or error, BrokenExecutor):
            raise CorewiseError("a worker has died, and all others with it; the rows that arrived are kept")
        elif not isinstance(error, Exception):
            raise error
        return failed_row(task.trial, self._about[0], error, 0.0)  # errors of the trial itself are in its row


def sweep(
    source: str | os.PathLike[str] | Mapping[str, Any] | SweepPlan,
    *,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    dask: str | None = None,
    executor: Executor | None = None,
    retry_failed: bool = False,
) -> Sweep:
    """Carry out many runs, and yield their rows as they arrive.

    Parameters
    ----------
    source : path, mapping or SweepPlan
        What to do, see `load_sweep`.
    out : path, optional
        Where rows are kept: a file ``.csv``, or ``.parquet`` with a ``.csv`` beside it. Those of the same
        sweep that are there already are not computed again. In memory only if not given.
    workers : int, optional
        How many processes to start on this machine; as many as there are cores if not given.
    dask : str, optional
        The address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``, whose workers are to do the work; or
        ``local`` for a cluster on this machine. Needs ``corewise[dask]``.
    executor : concurrent.futures.Executor, optional
        Another way to have the work done.
    retry_failed : bool, optional
        Whether runs that failed the last time are done again.

    Returns
    -------
    Sweep
        An iterator over `SweepRow`.

    Raises
    ------
    InvalidFile
        If `out` holds rows of another sweep, or is being written to by one.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import corewise as cw
    >>> plan = {"systems": ["paper:1"], "loads": [0.5], "evaluate": [{"policies": ["equi", "optimal"]}]}
    >>> with ThreadPoolExecutor(1) as executor, cw.sweep(plan, executor=executor) as runs:
    ...     found = {row.policy: round(row.mean_jobs, 3) for row in runs}
    >>> found["equi"], found["optimal"]
    (8.617, 8.031)
    """
    if executor is not None and (workers is not None or dask is not None):
        raise InvalidInput("give either an executor, or workers and dask")
    plan = source if isinstance(source, SweepPlan) else load_sweep(source)
    pool: AbstractContextManager[_Pool]
    if executor is not None:
        pool = _borrowed(executor)
    elif dask is not None:
        pool = _dask(dask, workers)
    else:
        pool = _local(workers)
    return Sweep(SweepJournal(plan, out, retry_failed=retry_failed), pool)


def sweep_means(rows: Sequence[SweepRow]) -> tuple[SweepMean, ...]:
    """Return the means over rows that differ by their seeds alone, in the order of the first of each."""
    groups: dict[str, list[SweepRow]] = {}
    for row in rows:
        groups.setdefault(row.key.removesuffix(f" seed={row.seed}"), []).append(row)
    return tuple(map(_mean, groups.values()))


def _mean(rows: list[SweepRow]) -> SweepMean:
    first, done = rows[0], [row for row in rows if row.status == DONE]
    jobs = np.array([row.mean_jobs for row in done])
    interval = done[0].interval if len(done) == 1 else (mean_interval(jobs) if len(done) > 1 else None)
    return SweepMean(
        kind=first.kind,
        system=first.system,
        policy=first.policy,
        algorithm=first.algorithm,
        cores=first.cores,
        load=first.load,
        runs=len(rows),
        failed=sum(row.status == FAILED for row in rows),
        mean_jobs=_mean_of([row.mean_jobs for row in done]),
        interval=interval,
        mean_response_time=_mean_of([row.mean_response_time for row in done]),
        gap=_mean_of([row.gap for row in done]),
    )


def _mean_of(values: list[float | None]) -> float | None:
    """Return the mean, if all are known and there is one."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None
