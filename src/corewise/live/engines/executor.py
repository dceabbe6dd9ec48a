"""Engine over an executor of `concurrent.futures`: threads, processes, or whatever else offers one."""

from __future__ import annotations

import os
from concurrent.futures import Executor

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.workers import LocalProcesses, workers_of
from corewise.live.engines.dispatcher import Dispatcher
from corewise.live.engines.rounds import ROUND_TIMEOUT

__all__ = ["ExecutorEngine"]


class ExecutorEngine(Dispatcher):
    """Engine over an executor, which is the engine's from then on: it is shut down when the engine is closed.

    Parameters
    ----------
    executor : Executor, optional
        What carries out the calls. By default processes of this machine are started for it.
    cores : int, optional
        How many calls at once; by default as many as the executor has workers, or the machine has cores.
    extra : int, optional
        How many calls of bags to have in flight beyond that: more of the cores are busy then, and fewer of
        them with the jobs that they are assigned to. A quarter of the cores is plenty.
    round_timeout : float, optional
        Seconds that a round may last before there is an alert; by default a minute. A round that lasts twenty
        times as long as every earlier one of its job, and ten seconds, is an alert at any rate.
    """

    def __init__(
        self,
        executor: Executor | None = None,
        cores: int | None = None,
        *,
        extra: int = 0,
        round_timeout: float = ROUND_TIMEOUT,
    ) -> None:
        if executor is None:
            count = os.cpu_count() or 1 if cores is None else checks.count(cores, "cores")
            super().__init__(LocalProcesses(count), count, extra, round_timeout)
            return
        workers = workers_of(executor)
        known = getattr(executor, "_max_workers", None) if cores is None else cores
        if known is None:
            raise InvalidInput(
                f"cores must be given, as {checks.shown(executor)} does not say how many it has"
            )
        super().__init__(workers, known, extra, round_timeout)
