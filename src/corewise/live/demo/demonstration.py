r"""The demonstration: the same jobs on two pools, one that shares equally and one that learns and steers.

Both arms run at once where the machine can carry that, so that other work on it affects both; else one after
the other. All that takes long, starting workers and compiling code, is done before jobs arrive.

The gain is 1 − Σ R_corewise / Σ R_EQUI over the jobs, paired: the same arrivals and sizes. Its interval comes
from batches of jobs that arrived one after the other, since jobs that meet are correlated; it says how much
other arrivals would have changed it, not what a longer run would show, in which learning is a smaller part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks
from corewise.kit import report as reports
from corewise.kit.arrays import Bools, Floats
from corewise.kit.jsonable import plain
from corewise.kit.numbers import half_width
from corewise.learning.algorithms import live_algorithm
from corewise.live.demo.backends import Backend, DemoJob, backend_named, sleeping, true_system, workload
from corewise.live.run.job import LiveJob
from corewise.live.run.pool import LivePool
from corewise.live.state.baseline import never_learning
from corewise.live.state.report import ClassReport, Report
from corewise.model.system import System
from corewise.simulation.intervals import ratio_interval

if TYPE_CHECKING:
    from corewise.plots.contest import Contest

__all__ = ["ALL", "Arm", "ArmComparison", "Demonstration", "Sample", "as_contest", "compared", "demonstrate"]

ALL = "all"
"""Names the comparison over all classes."""

_EQUI, _COREWISE = "equi", "corewise"
_EVERY = 0.25  # seconds between two samples
_BATCHES, _SMALLEST = 20, 25  # batches at most, jobs in one at least
_UNKNOWN = (np.nan, np.nan, np.nan)


def demonstrate(
    engine: str = "threads",
    seconds: float = 60.0,
    *,
    rng: np.random.Generator | int | None = None,
    say: Callable[[str], None] = lambda _text: None,
    watch: Callable[[Sample], None] = lambda _sample: None,
) -> Demonstration:
    """Run the same jobs under EQUI and under corewise on real workers, and compare their response times.

    Speed-up is emulated by sleeping, so sixteen workers need no sixteen cores; see
    `corewise.live.demo.backends`.

    Parameters
    ----------
    engine : str
        ``"threads"``, ``"dask"`` or ``"ray"``.
    seconds : float
        How long jobs arrive. Those that are there then are waited for.
    rng : numpy.random.Generator, int or None
        Of arrivals and sizes.
    say : callable, optional
        Called with a line of progress before jobs arrive.
    watch : callable, optional
        Called with a `Sample`, some times per second.
    """
    backend = backend_named(engine)
    lasting = checks.positive(seconds, "seconds")
    truth = true_system(backend.mean_size)
    jobs = workload(truth, lasting, np.random.default_rng(rng))
    if not jobs:
        raise InvalidInput(f"no job arrives within {lasting:g} seconds: give it more")
    return _Run(backend, lasting, truth, jobs, say, watch).run()


class _Run:
    """A demonstration under way."""

    def __init__(
        self,
        backend: Backend,
        seconds: float,
        truth: System,
        jobs: Sequence[DemoJob],
        say: Callable[[str], None],
        watch: Callable[[Sample], None],
    ) -> None:
        self._backend, self._seconds, self._truth, self._jobs = backend, seconds, truth, jobs
        self._say, self._watch = say, watch
        self._steered = live_algorithm(truth.without_rates())
        self._history: list[Sample] = []
        unknown = np.full(len(jobs), np.nan)
        self._times: dict[str, Floats] = {_EQUI: unknown, _COREWISE: unknown}

    def run(self) -> Demonstration:
        """Run both arms, and return the result."""
        pool = f"a pool of {self._truth.cores:g} workers (engine {self._backend.name})"
        if self._backend.at_once:
            self._say(f"Starting {pool} and another like it; the first time, code is compiled")
            with self._arm(_EQUI) as equi, self._arm(_COREWISE) as corewise:
                self._run_jobs({_EQUI: equi, _COREWISE: corewise})
        else:
            for name in (_EQUI, _COREWISE):
                self._say(f"Starting {pool} for {name}; the first time, code is compiled")
                with self._arm(name) as one:
                    self._run_jobs({name: one})
        return self._result()

    @contextmanager
    def _arm(self, name: str) -> Iterator[Arm]:
        """Give an arm whose pool is ready; jobs that are left in the end are cancelled."""
        algorithm = self._steered if name == _COREWISE else never_learning(self._steered)
        engine = self._backend.make(int(self._truth.cores))
        pool = LivePool(algorithm.system, engine, algorithm=algorithm)
        arm = Arm(pool, self._jobs, self._truth, self._backend.grain)
        try:
            yield arm
        finally:
            arm.give_up()
            pool.close(wait_for_jobs=False)

    def _run_jobs(self, running: Mapping[str, Arm]) -> None:
        """Let jobs arrive and be done, and take samples meanwhile."""
        began = time.monotonic()
        for one in running.values():
            one.start(began)
        over = False
        while not over:
            until = time.monotonic() + _EVERY
            waited = [one.wait(max(until - time.monotonic(), 0.0)) for one in running.values()]
            over = all(waited)
            self._take_sample(running, time.monotonic() - began)

    def _take_sample(self, running: Mapping[str, Arm], elapsed: float) -> None:
        self._times.update({name: one.response_times for name, one in running.items()})
        reports = {name: one.report for name, one in running.items()}
        so_far = compared(self._jobs, self._times[_EQUI], self._times[_COREWISE])
        sample = Sample(elapsed, reports.get(_EQUI), reports.get(_COREWISE), so_far)
        self._history.append(sample)
        self._watch(sample)

    def _result(self) -> Demonstration:
        last = self._history[-1]
        assert last.corewise is not None
        steered = [sample.elapsed for sample in self._history if sample.corewise and sample.corewise.in_force]
        return Demonstration(
            self._backend.name,
            self._seconds,
            self._truth,
            last.so_far,
            last.corewise,
            min(steered, default=None),
            tuple(self._history),
        )


class Arm:
    """Arm of a demonstration: a pool that is given jobs as they arrive, and their response times.

    Parameters
    ----------
    pool : LivePool
        The pool.
    jobs : sequence of DemoJob
        The jobs, in order of arrival.
    truth : System
        How they scale.
    grain : float
        The work of a round, in seconds on one core.
    """

    def __init__(self, pool: LivePool, jobs: Sequence[DemoJob], truth: System, grain: float) -> None:
        self._pool, self._jobs, self._truth, self._grain = pool, jobs, truth, grain
        self._times: list[float] = [np.nan] * len(jobs)
        self._left, self._lock = len(jobs), threading.Lock()
        self._over, self._given_up = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._feeder = threading.Thread(target=self._feed, name="corewise-demo-arrivals", daemon=True)

    @property
    def response_times(self) -> Floats:
        """Of every job, in seconds; NaN where it is not done."""
        return np.array(self._times)

    @property
    def report(self) -> Report:
        """The report of the pool."""
        return self._pool.report()

    def start(self, began: float) -> None:
        """Let jobs arrive, by a clock that stood at `began` when the first could have."""
        self._began = began
        if not self._jobs:
            self._over.set()
        self._feeder.start()

    def wait(self, timeout: float) -> bool:
        """Return whether all jobs are done within a time; raise what has gone wrong."""
        over = self._over.wait(timeout)
        if self._error is not None:
            raise CorewiseError(f"the demonstration cannot go on: {self._error}") from self._error
        return over

    def give_up(self) -> None:
        """Let no more jobs arrive."""
        self._given_up.set()
        if self._feeder.is_alive():
            self._feeder.join()

    def _feed(self) -> None:
        try:
            for number, job in enumerate(self._jobs):
                if self._given_up.wait(max(self._began + job.time - time.monotonic(), 0.0)):
                    return
                curve = self._truth[job.job_class].speedup
                handle = self._pool.run(job.job_class, sleeping, job.size, self._grain, curve)
                handle.add_done_callback(partial(self._done, number))
        except BaseException as error:
            self._fail(error)

    def _done(self, number: int, handle: LiveJob) -> None:
        """Note the response time of a job, from when it should have arrived."""
        now = time.monotonic()
        if handle.cancelled() or handle.exception() is not None:
            self._fail(handle.exception() if not handle.cancelled() else CorewiseError("it was closed"))
            return
        self._times[number] = now - self._began - self._jobs[number].time
        with self._lock:
            self._left -= 1
            if not self._left:
                self._over.set()

    def _fail(self, error: BaseException | None) -> None:
        self._error = error
        self._over.set()


# --- results ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArmComparison:
    """ArmComparison of response times of the same jobs.

    Attributes
    ----------
    jobs : int
        How many are done under both.
    equi, corewise : float
        Their mean response times, in seconds; NaN if there are none.
    interval : tuple of float
        Of 95 %, for the gain.
    """

    jobs: int
    equi: float
    corewise: float
    interval: tuple[float, float]

    @property
    def gain(self) -> float:
        """By what share jobs take less time under corewise."""
        return 1.0 - self.corewise / self.equi

    @property
    def in_words(self) -> str:
        """How much less or more time jobs take under corewise."""
        half = half_width(self.interval)
        error = f" ± {half:.1%}" if half >= 0.0 else ""
        return f"{abs(self.gain):.1%}{error} {'less' if self.gain >= 0.0 else 'more'} time"

    def _cells(self) -> list[str]:
        low, high = self.interval
        ends = f"{low:.1%} to {high:.1%}" if low <= high else ""
        return [f"{self.jobs:,}", f"{self.equi:.4f}", f"{self.corewise:.4f}", f"{self.gain:.1%}", ends]


def compared(jobs: Sequence[DemoJob], equi: Floats, corewise: Floats) -> dict[str, ArmComparison]:
    """Return the comparison of each class, over jobs that are done under both, and last that over all."""
    done = ~(np.isnan(equi) | np.isnan(corewise))
    names = np.array([job.job_class for job in jobs])
    masks: dict[str, Bools] = {name: done & (names == name) for name in dict.fromkeys(names.tolist())}
    return {name: _compared(equi[mask], corewise[mask]) for name, mask in {**masks, ALL: done}.items()}


def _compared(equi: Floats, corewise: Floats) -> ArmComparison:
    count = equi.size
    if not count:
        return ArmComparison(0, np.nan, np.nan, (np.nan, np.nan))
    batches = np.array_split(np.arange(count), min(_BATCHES, max(count // _SMALLEST, 1)))
    saved = np.array([float(np.sum(equi[batch] - corewise[batch])) for batch in batches])
    spent = np.array([float(np.sum(equi[batch])) for batch in batches])
    return ArmComparison(count, float(equi.mean()), float(corewise.mean()), ratio_interval(saved, spent))


@dataclass(frozen=True)
class Sample:
    """Sample of a demonstration in progress.

    Attributes
    ----------
    elapsed : float
        Seconds since it began.
    equi, corewise : Report or None
        The reports of the pools; None for one that does not run just now.
    so_far : mapping
        The comparison over the jobs that are done under both, by class and over `ALL`.
    """

    elapsed: float
    equi: Report | None
    corewise: Report | None
    so_far: Mapping[str, ArmComparison]


@dataclass(frozen=True)
class Demonstration:
    """Result of a demonstration.

    Attributes
    ----------
    engine : str
        The backend.
    seconds : float
        How long jobs arrived.
    truth : System
        How they really scale, and how often they came.
    comparisons : mapping
        By class, and over `ALL`.
    learned : Report
        The last report of the pool that was steered.
    adopted : float or None
        When the first policy other than EQUI came into force, in seconds; None if none did.
    history : tuple of Sample
        The samples.
    """

    engine: str
    seconds: float
    truth: System
    comparisons: Mapping[str, ArmComparison]
    learned: Report
    adopted: float | None
    history: tuple[Sample, ...]

    @property
    def whole(self) -> ArmComparison:
        """The comparison over all jobs."""
        return self.comparisons[ALL]

    def report(self) -> reports.Report:
        """Return the gain in the mean, what was learned, and a table of the classes."""
        steered = "never: it was not sure of a gain"
        if self.adopted is not None:
            steered = f"from second {self.adopted:.0f} on"
        mean = f"jobs take {self.whole.in_words} under corewise than under EQUI, learning included"
        facts = [
            ("in the mean", mean),
            *((f"p of {row.name}", self._learned(row)) for row in self.learned.classes),
            ("steered", steered),
            ("speed-up", "emulated by sleeping; arrivals, dispatch, moves and learning are real"),
        ]
        header = ["class", "jobs", "EQUI, s", "corewise, s", "gain", "95 %"]
        rows = [[name, *self.comparisons[name]._cells()] for name in (*self.truth.names, ALL)]
        pools = f"two pools of {self.truth.cores:g} workers ({self.engine})"
        title = f"The same {self.whole.jobs:,} jobs on {pools}, arriving for {self.seconds:g} s"
        return reports.Report(title, facts, [reports.Table(header, rows)])

    def _learned(self, row: ClassReport) -> str:
        truth, learned = self.truth[row.name].speedup.parameters["p"], row.learned
        if learned is None or not learned.informative:
            return f"not known; the truth is {truth:g}"
        low, high = learned.intervals["p"]
        found = f"{learned.parameters['p']:.2f}, between {low:.2f} and {high:.2f} (95 %)"
        return f"{found}; the truth is {truth:g}"

    def as_mapping(self) -> dict[str, Any]:
        """Return it as plain values, which JSON can hold."""
        whole = self.whole
        made = plain(
            {
                "engine": self.engine,
                "seconds": self.seconds,
                "jobs": whole.jobs,
                "equi": self._side("equi"),
                "corewise": {
                    **self._side("corewise"),
                    "estimates": {row.name: _parameters(row) for row in self.learned.classes},
                    "intervals": {row.name: _intervals(row) for row in self.learned.classes},
                    "adopted": self.adopted,
                },
                "gain": whole.gain,
                "gain_interval": list(whole.interval),
                "classes": [
                    {"name": name, "jobs": row.jobs, "gain": row.gain, "gain_interval": list(row.interval)}
                    for name, row in self._by_class()
                ],
                "truth": {one.name: dict(one.speedup.parameters) for one in self.truth.classes},
                "speedup": "emulated by sleeping",
            }
        )
        assert isinstance(made, dict)
        return made

    def _side(self, which: str) -> dict[str, Any]:
        return {
            "mean_response_time": getattr(self.whole, which),
            "classes": [
                {"name": name, "mean_response_time": getattr(row, which)} for name, row in self._by_class()
            ],
        }

    def _by_class(self) -> list[tuple[str, ArmComparison]]:
        return [(one.name, self.comparisons[one.name]) for one in self.truth.classes]


def _parameters(row: ClassReport) -> dict[str, float] | None:
    return None if row.learned is None else dict(row.learned.parameters)


def _intervals(row: ClassReport) -> dict[str, list[float]] | None:
    return None if row.learned is None else {name: list(e) for name, e in row.learned.intervals.items()}


def as_contest(found: Demonstration) -> Contest:
    """Return what a figure of a demonstration shows: the estimates and the gain over time."""
    from corewise.plots.contest import Contest

    samples = [sample for sample in found.history if sample.corewise is not None]
    names = found.truth.names
    shown = [*names, ALL]
    return Contest(
        np.array([sample.elapsed for sample in samples]),
        {name: _estimates(samples, i) for i, name in enumerate(names)},
        {name: found.truth[name].speedup.parameters["p"] for name in names},
        {name: np.array([sample.so_far[name].gain for sample in samples]) for name in shown},
        {name: (found.comparisons[name].equi, found.comparisons[name].corewise) for name in shown},
        found.adopted,
    )


def _estimates(samples: list[Sample], i: int) -> Floats:
    """Return the parameter of a class and the ends of its interval at each look."""
    rows = []
    for sample in samples:
        learned = None if sample.corewise is None else sample.corewise.classes[i].learned
        known = learned is not None and learned.informative
        rows.append((learned.parameters["p"], *learned.intervals["p"]) if learned and known else _UNKNOWN)
    return np.array(rows)
