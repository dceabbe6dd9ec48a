"""The demonstration: the same jobs on two pools, one that shares equally and one that learns and steers.

Both run at once where the machine can carry that, so that whatever else happens on it happens to both; else
one after the other. All that takes long, starting workers and compiling code, is done before jobs arrive.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.learning.algorithms import live_algorithm
from corewise.live.demo.contestant import Contestant
from corewise.live.demo.outcome import Demonstration, Moment, compared
from corewise.live.demo.stages import Stage, stage_named
from corewise.live.demo.workload import DemoJob, true_system, workload
from corewise.live.run.pool import LivePool
from corewise.live.state.baseline import never_learning
from corewise.model.system import System

__all__ = ["demonstrate"]

_EQUI, _COREWISE = "equi", "corewise"
_LOOK = 0.25  # seconds between two looks


def demonstrate(
    engine: str = "threads",
    seconds: float = 60.0,
    *,
    rng: np.random.Generator | int | None = None,
    say: Callable[[str], None] = lambda _text: None,
    watch: Callable[[Moment], None] = lambda _moment: None,
) -> Demonstration:
    """Run the same jobs under EQUI and under corewise on real workers, and compare their response times.

    Speed-up is emulated by sleeping, so sixteen workers need no sixteen cores; see
    `corewise.live.demo.workload`.

    Parameters
    ----------
    engine : str
        ``"threads"``, ``"dask"`` or ``"ray"``.
    seconds : float
        How long jobs arrive. Those that are there then are waited for.
    rng : numpy.random.Generator, int or None
        Of arrivals and sizes.
    say : callable, optional
        Is told what is going on before jobs arrive, in a few words.
    watch : callable, optional
        Is told how it stands, some times a second; a `Moment`.
    """
    stage = stage_named(engine)
    lasting = checks.positive(seconds, "seconds")
    truth = true_system(stage.mean_size)
    jobs = workload(truth, lasting, np.random.default_rng(rng))
    if not jobs:
        raise InvalidInput(f"no job arrives within {lasting:g} seconds: give it more")
    return _Show(stage, lasting, truth, jobs, say, watch).run()


class _Show:
    """A demonstration under way."""

    def __init__(
        self,
        stage: Stage,
        seconds: float,
        truth: System,
        jobs: Sequence[DemoJob],
        say: Callable[[str], None],
        watch: Callable[[Moment], None],
    ) -> None:
        self._stage, self._seconds, self._truth, self._jobs = stage, seconds, truth, jobs
        self._say, self._watch = say, watch
        self._steered = live_algorithm(truth.without_rates())
        self._history: list[Moment] = []
        nobody = np.full(len(jobs), np.nan)
        self._times: dict[str, Floats] = {_EQUI: nobody, _COREWISE: nobody}

    def run(self) -> Demonstration:
        """Run both, and return what came of it."""
        pool = f"a pool of {self._truth.cores:g} workers (engine {self._stage.name})"
        if self._stage.at_once:
            self._say(f"Starting {pool} and another like it; the first time, code is compiled")
            with self._contestant(_EQUI) as equi, self._contestant(_COREWISE) as corewise:
                self._play({_EQUI: equi, _COREWISE: corewise})
        else:
            for name in (_EQUI, _COREWISE):
                self._say(f"Starting {pool} for {name}; the first time, code is compiled")
                with self._contestant(name) as one:
                    self._play({name: one})
        return self._outcome()

    @contextmanager
    def _contestant(self, name: str) -> Iterator[Contestant]:
        """Give a contestant, whose pool is ready; what is left of its jobs in the end is given up."""
        algorithm = self._steered if name == _COREWISE else never_learning(self._steered)
        engine = self._stage.make(int(self._truth.cores))
        pool = LivePool(algorithm.system, engine, algorithm=algorithm)
        contestant = Contestant(pool, self._jobs, self._truth, self._stage.grain)
        try:
            yield contestant
        finally:
            contestant.give_up()
            pool.close(wait_for_jobs=False)

    def _play(self, running: Mapping[str, Contestant]) -> None:
        """Let jobs arrive and be done, and look how it stands meanwhile."""
        began = time.monotonic()
        for one in running.values():
            one.start(began)
        over = False
        while not over:
            until = time.monotonic() + _LOOK
            waited = [one.wait(max(until - time.monotonic(), 0.0)) for one in running.values()]
            over = all(waited)
            self._look(running, time.monotonic() - began)

    def _look(self, running: Mapping[str, Contestant], elapsed: float) -> None:
        self._times.update({name: one.response_times for name, one in running.items()})
        reports = {name: one.report for name, one in running.items()}
        so_far = compared(self._jobs, self._times[_EQUI], self._times[_COREWISE])
        moment = Moment(elapsed, reports.get(_EQUI), reports.get(_COREWISE), so_far)
        self._history.append(moment)
        self._watch(moment)

    def _outcome(self) -> Demonstration:
        last = self._history[-1]
        assert last.corewise is not None
        steered = [moment.elapsed for moment in self._history if moment.corewise and moment.corewise.in_force]
        return Demonstration(
            self._stage.name,
            self._seconds,
            self._truth,
            last.so_far,
            last.corewise,
            min(steered, default=None),
            tuple(self._history),
        )
