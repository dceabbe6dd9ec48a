"""The live pool: real jobs share real cores, as the curves say that are learned from them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks
from corewise.learning.algorithms import Algorithm, adaptive
from corewise.live import events as happened
from corewise.live.controller import Controller, Options
from corewise.live.engines.base import Bag, Engine, Gang, Holding, JobSpec, Rounds
from corewise.live.engines.executor import ExecutorEngine
from corewise.live.engines.workers import OwnProcesses, Workers
from corewise.live.explain import explain
from corewise.live.instructions import Alert
from corewise.live.job import LiveJob
from corewise.live.ledger import InMemory, Ledger
from corewise.live.runner import Runner
from corewise.live.solving import warm_up
from corewise.model.system import JobClass, System
from corewise.policies.tabular import Tabular
from corewise.policies.whole import require_whole

__all__ = ["LivePool"]


class LivePool:
    """Live pool: runs jobs, learns how they scale, and moves cores to where they finish sooner.

    A job works in rounds, and is told before each how many cores it holds. It is a generator function: what
    it yields is a list of calls, what it is sent are their answers, what it returns is its result. Calls are
    carried out by the engine, by default in processes of this machine; the generator itself runs in a thread
    that all jobs share, so that what it does between two rounds should be quick.

    All rates and curves may be unknown: cores are shared equally at first, and differently once enough has
    been seen to be sure of a gain.

    Parameters
    ----------
    system : System or sequence of JobClass
        What is known: the classes of jobs and the family of each curve; the parameters of curves are not
        used. Of a sequence of classes, the cores are those of the engine.
    engine : Engine, optional
        What runs the jobs; it is closed with the pool. By default an `ExecutorEngine` of processes.
    journal : path, optional
        Where to keep what happens; a journal that is there already is continued.
    mode : str, optional
        ``"steer"`` moves cores, ``"watch"`` shares them equally and counts what would be moved, ``"hold"``
        lets jobs keep what they have.
    algorithm : Algorithm, optional
        How to learn; by default `adaptive`.
    options : Options, optional
        Options of the controller.

    Examples
    --------
    Processes import the script that starts them, so a script keeps this under ``if __name__ == "__main__"``.

    >>> import corewise as cw
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from functools import partial
    >>> from corewise.live.engines.executor import ExecutorEngine
    >>> def rounds(job):
    ...     total = 0
    ...     for step in range(3):
    ...         width = job.cores
    ...         total += sum((yield [partial(sum, range(k, 100, width)) for k in range(width)]))
    ...     return total
    >>> classes = [
    ...     cw.JobClass("training", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
    ...     cw.JobClass("etl", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
    ... ]
    >>> with cw.LivePool(classes, engine=ExecutorEngine(ThreadPoolExecutor(4))) as pool:
    ...     job = pool.run("training", rounds)
    ...     squares = pool.map("etl", partial(pow, 2), range(4))
    ...     print(job.result(), squares.result())
    14850 [1, 2, 4, 8]
    """

    def __init__(
        self,
        system: System | Sequence[JobClass],
        engine: Engine | None = None,
        journal: None = None,
        mode: happened.Mode = "steer",
        *,
        algorithm: Algorithm | None = None,
        options: Options | None = None,
    ) -> None:
        self._engine = engine or ExecutorEngine(cores=_cores_of(system))
        known = _known(system, self._engine.pool)
        self._ledger: Ledger = InMemory()
        controller = Controller(
            algorithm or adaptive(known),
            lambda digest: Tabular.from_bytes(self._ledger.policy(digest)),
            mode=mode,
            options=options,
        )
        self._solver: Workers = solving_workers()
        self._runner = Runner(controller, self._engine, self._solver, self._ledger, self._break_down)
        self._jobs: dict[str, Future[Any]] = {}
        self._numbers = count(1)
        self._lock, self._closed = threading.Lock(), False
        try:
            self._solver.open()
            self._solver.answer(self._solver.submit(warm_up))
            self._runner.start()
        except BaseException:
            self.close()
            raise
