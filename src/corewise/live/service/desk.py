"""The desk: everything of the service but HTTP. It takes in events, and says what came of them.

Jobs are run by a scheduler elsewhere: they outlive the service, and in ``watch`` nobody here gives them
cores. Instructions are not sent but fetched, by number, and answered by `CoresHeld`.

Times are seconds since 1970, by the clock of whoever tells: what happens while the service is down has
happened all the same. What happens here is dated a little behind that, so that an event which was under way
in the meantime does not come late.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from corewise.errors import CorewiseError, InvalidFile
from corewise.kit.workers import Workers
from corewise.learning.algorithms import Algorithm
from corewise.live.engines.base import JobSpec, Tell
from corewise.live.journal.journal import Journal
from corewise.live.journal.pool_configuration import controller_of
from corewise.live.journal.replay import replayed
from corewise.live.journal.store import is_made
from corewise.live.run.runner import Runner, Told
from corewise.live.run.solver import solving
from corewise.live.service.feed import Bell, Feed
from corewise.live.service.history import History
from corewise.live.service.pool_file import PoolFile
from corewise.live.state.configuration import Configuration
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import Alert, Instruction
from corewise.live.state.lessons import how_to_learn
from corewise.observation import events as happened
from corewise.observation.journal import JournalReader, located

__all__ = ["Desk", "open_desk"]

_UNDER_WAY = 2.0  # seconds that an event may take from where it happens to here
_BEHIND = 86_400.0  # seconds before the latest event, before which no clock can be meant


class _Elsewhere:
    """Engine of a pool that somebody else runs: whoever does fetches his instructions himself."""

    pause = None

    def __init__(self, pool: int) -> None:
        self.pool = pool

    def start(self, tell: Tell) -> None:
        """Begin: what happens is told over the wire."""

    def submit(self, job: JobSpec) -> None:
        """Leave the job to whoever runs it."""

    def set_cores(self, job: str, cores: int) -> None:
        """Leave the instruction to be fetched."""

    def end(self, job: str) -> None:
        """Leave the job to whoever runs it."""

    def close(self) -> None:
        """Leave everything as it is."""


class Desk(Runner):
    """Desk of a service: a runner for jobs that are run elsewhere.

    Parameters
    ----------
    controller : Controller
        What decides.
    solver : Workers
        Where to solve.
    journal : Journal
        Where events are kept.
    history : History
        What was, up to now.
    """

    def __init__(self, controller: Controller, solver: Workers, journal: Journal, history: History) -> None:
        super().__init__(controller, _Elsewhere(controller.pool), solver, journal)
        self.history = history
        self.bell = Bell()
        self._gathered: list[Told] = []
        self.feed = Feed(journal)
        self._heard, self._heard_at = controller.time, time.monotonic()
        self.handled = 0
        """How many events were taken in since the start."""
        self.alerted = 0
        """How many alerts came of them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The classes."""
        return tuple(self._controller.system.names)

    @property
    def broken(self) -> str | None:
        """Why events are refused, if they are: for now, or since it has `failed`."""
        return None if self._error is None else str(self._error)

    @property
    def earliest(self) -> float:
        """Before when nothing is taken in: a day before the latest event, or before now."""
        return min(self._heard, time.time()) - _BEHIND

    async def told(self, events: Sequence[happened.Event], undated: Collection[str]) -> Sequence[int]:
        """Take in events, all or none; return the numbers of those that are new, once they are safe.

        `undated` are the ids of events that their sender did not date.
        """
        future: asyncio.Future[Sequence[int]] = asyncio.get_running_loop().create_future()

        def settle(act: Callable[[Any], None], outcome: object) -> None:
            if not future.done():  # whoever asked may have gone
                act(outcome)

        def deliver(act: Callable[[Any], None], outcome: object) -> None:
            self.bell.deliver(partial(settle, act, outcome))

        done, refused = partial(deliver, future.set_result), partial(deliver, future.set_exception)
        if not self._gathered:  # all that is told in this turn of the loop is written down together
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._gathered.append(Told(events, done, refused, foreign=True, undated=undated))
        return await future

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        try:
            self._put(*gathered)
        except CorewiseError as error:
            for told in gathered:
                assert told.refused is not None
                told.refused(error)
            self.bell.ring()

    def order(self, kind: type[happened.Event], *values: Any) -> Future[Sequence[int]]:
        """Take in what somebody wants just now."""
        return self.submit([self._event(kind, values)])

    def _find_jobs(self) -> None:
        """Go on with the jobs that were there: nobody has ended them."""

    def _now(self) -> float:
        return max(self._controller.time, self._heard + time.monotonic() - self._heard_at - _UNDER_WAY)

    def _share_unsteered(self, _event: happened.Event) -> Sequence[Instruction]:
        return []

    def _take(self, number: int, event: happened.Event, *, share: bool) -> Sequence[Instruction]:
        instructions = super()._take(number, event, share=share)
        if event.time > self._heard:
            self._heard, self._heard_at = event.time, time.monotonic()
        self.handled += 1
        self.alerted += sum(isinstance(told, Alert) for told in instructions)
        self.feed.add(number, instructions)
        self.history.observe(self._controller)
        return instructions

    def _keep_snapshot(self) -> None:
        self.bell.ring()  # nobody waits for it
        super()._keep_snapshot()

    def _take_in(self, group: Sequence[Told]) -> None:
        super()._take_in(group)
        if group:
            self.bell.ring()


@contextmanager
def open_desk(
    pool: PoolFile,
    journal: Path,
    *,
    watch: bool = False,
    solver: Callable[[Algorithm], Any] = solving,
) -> Iterator[Desk]:
    """Give the desk of a pool, which goes on where its journal ends.

    Parameters
    ----------
    pool : PoolFile
        What is known of the pool.
    journal : path
        Its journal, which is made if there is none.
    watch : bool, optional
        Whether to watch only from now on; a new pool is steered otherwise, one that is there stays as it was.
    solver : callable, optional
        Gives the process to solve in, given the algorithm.
    """
    algorithm = how_to_learn(pool.system, pool.window)
    wanted = Configuration(algorithm, pool.options)
    opened = _opened(located(journal))
    with Journal.open(journal, {**wanted.mapping, "opened": opened or time.time()}) as book:
        history = History()
        controller = replayed(book, lambda snapshot: controller_of(book, snapshot), history.observe)
        with solver(algorithm) as workers:
            desk = Desk(controller, workers, book, history)
            desk.start()
            try:
                desk.configure(wanted)
                mode: happened.Mode = "watch" if watch else "steer"
                if controller.mode != mode and (watch or opened is None):
                    desk.order(happened.ModeChanged, mode).result()
                yield desk
            finally:
                desk.close()


def _opened(journal: Path) -> float | None:
    """Return when a journal was begun; None if it is yet to be."""
    if not is_made(journal):
        return None
    with JournalReader(journal) as there:
        opened = there.about.get("opened")
    if not isinstance(opened, float):
        raise InvalidFile(
            f"{journal} is the journal of a pool in Python, and has another clock than a service"
        )
    return opened
