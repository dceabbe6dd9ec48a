"""The service without HTTP: a runner for jobs that run elsewhere, its instructions by number, its history.

Jobs are run by a scheduler elsewhere: they outlive the service. Instructions are not sent but fetched, by
number, and answered by `CoresHeld`. Numbers are those of the journal, and the same after a restart: decisions
are deterministic, so instructions that a crash kept from the journal are given again under the numbers that
they had.

Times are seconds since 1970, by the clock of the sender: what happens while the service is down has happened
all the same. Events that arise in the service are dated a little behind that, so that an event which is under
way in the meantime does not come late.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from corewise.errors import CorewiseError, InvalidFile
from corewise.estimation.class_estimate import ClassEstimate
from corewise.kit.workers import Workers
from corewise.learning.algorithms import Algorithm, live_algorithm
from corewise.live.engines.base import RemoteEngine
from corewise.live.journal.journal import Journal
from corewise.live.journal.pool_configuration import controller_of
from corewise.live.journal.replay import replayed
from corewise.live.journal.store import is_made
from corewise.live.run.runner import Runner, Submission
from corewise.live.run.solver import solver_process
from corewise.live.service.pool_file import PoolFile
from corewise.live.state.configuration import Configuration
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import Alert, Instruction, Solve, instruction_to_mapping
from corewise.observation import events as happened
from corewise.observation.journal import JournalReader, located

__all__ = ["InstructionLog", "Notifier", "PoolHistory", "ServiceRuntime", "open_runtime"]

_UNDER_WAY = 2.0  # seconds that an event may take from where it happens to here
_BEHIND = 86_400.0  # seconds before the latest event, before which no clock can be meant
_KEPT = 10_000  # instructions in memory; earlier ones are in the journal
_SAMPLES = 1200  # of the history
_ESTIMATES = 400  # of the history
_log = logging.getLogger("corewise.service")


class ServiceRuntime:
    """Service without HTTP: it has a runner, and observes it.

    Parameters
    ----------
    controller : Controller
        The controller, as the journal leaves it.
    solver : Workers
        The process to solve in.
    journal : Journal
        Where events are kept.
    history : PoolHistory
        The history up to now.

    Attributes
    ----------
    runner : Runner
        The runner.
    notifier : Notifier
        Wakes the event loop when something has changed.
    instructions : InstructionLog
        The instructions by number.
    cores : int
        The cores of the pool at the start.
    names : tuple of str
        The classes at the start.
    handled_events, alerts : int
        How many events were taken in since the start, and how many alerts followed.
    """

    def __init__(
        self, controller: Controller, solver: Workers, journal: Journal, history: PoolHistory
    ) -> None:
        self._controller = controller
        self._latest, self._latest_at = controller.time, time.monotonic()
        self._gathered: list[Submission] = []
        self.history = history
        self.notifier = Notifier()
        self.instructions = InstructionLog(journal)
        self.handled_events = self.alerts = 0
        self.cores, self.names = controller.pool, tuple(controller.system.names)
        engine = RemoteEngine(controller.pool)
        self.runner = Runner(controller, engine, solver, journal, clock=self._now, observer=self)

    @property
    def error(self) -> str | None:
        """Why events are refused, if they are."""
        return None if self.runner.error is None else str(self.runner.error)

    @property
    def earliest(self) -> float:
        """The time before which events are refused: a day before the latest event, or before now."""
        return min(self._latest, time.time()) - _BEHIND

    async def submit(self, events: Sequence[happened.Event], undated: Collection[str]) -> Sequence[int]:
        """Take in events, all or none; return the numbers of those that are new, once they are safe.

        `undated` are the ids of events that their sender did not date.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[int]] = loop.create_future()

        def settle(act: Callable[[Any], None], outcome: object) -> None:
            if not future.done():  # the client may have gone
                act(outcome)

        def deliver(act: Callable[[Any], None], outcome: object) -> None:
            self.notifier.deliver(partial(settle, act, outcome))

        accepted, refused = partial(deliver, future.set_result), partial(deliver, future.set_exception)
        if not self._gathered:  # all requests of this turn of the loop are written together
            loop.call_soon(self._hand_over)
        self._gathered.append(Submission(events, accepted, refused, foreign=True, undated=undated))
        return await future

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        try:
            self.runner.enqueue(*gathered)
        except CorewiseError as error:
            for submission in gathered:
                assert submission.refused is not None
                submission.refused(error)
            self.notifier.notify()

    # --- in the thread of the runner ----------------------------------------------------------------

    def _now(self) -> float:
        """Return the time by the clocks of the senders, a little behind."""
        return max(self._controller.time, self._latest + time.monotonic() - self._latest_at - _UNDER_WAY)

    def handled(
        self, number: int, event: happened.Event, instructions: Sequence[Instruction], controller: Controller
    ) -> None:
        """Number the instructions of an event, and take note of the state after it."""
        if event.time > self._latest:
            self._latest, self._latest_at = event.time, time.monotonic()
        self.handled_events += 1
        self.alerts += sum(isinstance(instruction, Alert) for instruction in instructions)
        self.instructions.add(number, instructions)
        self.history.observe(controller)

    def answered(self) -> None:
        """Wake the loop: answers are to be delivered."""
        self.notifier.notify()


@contextmanager
def open_runtime(
    pool: PoolFile,
    journal: Path,
    *,
    watch: bool = False,
    solver: Callable[[Algorithm], Any] = solver_process,
) -> Iterator[ServiceRuntime]:
    """Give the runtime of a pool, which continues where its journal ends.

    Parameters
    ----------
    pool : PoolFile
        The pool.
    journal : path
        Its journal, which is created if it is missing.
    watch : bool, optional
        Whether to watch only from now on; otherwise a new pool is steered, and another keeps its mode.
    solver : callable, optional
        Gives the process to solve in, given the algorithm.
    """
    algorithm = live_algorithm(pool.system, pool.window)
    wanted = Configuration(algorithm, pool.options)
    opened = _opened(located(journal))
    with Journal.open(journal, {**wanted.mapping, "opened": opened or time.time()}) as store:
        history = PoolHistory()
        controller = replayed(store, lambda snapshot: controller_of(store, snapshot), history.observe)
        with solver(algorithm) as workers:
            runtime = ServiceRuntime(controller, workers, store, history)
            runtime.runner.start()
            try:
                runtime.runner.configure(wanted)
                mode: happened.Mode = "watch" if watch else "steer"
                if controller.mode != mode and (watch or opened is None):
                    runtime.runner.request(happened.ModeChanged, mode)
                yield runtime
            finally:
                runtime.runner.close()


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


# --- instructions -----------------------------------------------------------------------------------


class Notifier:
    """Notifier by which any thread wakes the event loop of the service.

    The loop is woken once for all that has come until it gets there.
    """

    def __init__(self) -> None:
        self.changes = 0
        """How often it was notified."""
        self.ended = False
        """Whether the service stops, so that no change comes any more."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._answers: deque[Callable[[], None]] = deque()
        self._lock = Lock()
        self._pending = False

    def attach(self) -> None:
        """Wake the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def notify(self) -> None:
        """Wake the loop; from any thread."""
        with self._lock:
            self.changes += 1
            if self._pending or self._loop is None or self._loop.is_closed():
                return
            self._pending = True
        with suppress(RuntimeError):  # the loop was closed this very moment
            self._loop.call_soon_threadsafe(self._wake)

    def deliver(self, answer: Callable[[], None]) -> None:
        """Have an answer given in the loop at the next notification; from any thread."""
        self._answers.append(answer)

    def end(self) -> None:
        """Wake all that wait, for the last time."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            self._pending = False
        while self._answers:
            try:
                self._answers.popleft()()
            except Exception:  # it concerns no other answer
                _log.exception("an answer could not be given")
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, seen: int, seconds: float) -> None:
        """Return when there were more changes than were `seen`, or after some seconds."""
        if self.changes != seen or self.ended:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            if self.changes == seen:
                await asyncio.wait([future], timeout=seconds)
        finally:
            self._waiting.discard(future)


class InstructionLog:
    """Instructions of a journal by number.

    Parameters
    ----------
    journal : Journal
        The journal.

    Attributes
    ----------
    last : int
        The number of the last instruction.
    journal : str
        The identity of the journal: numbers of another one mean other instructions.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.journal = journal.identity or ""
        self.last = journal.last_instruction()
        self._lock = Lock()
        self._latest: deque[tuple[int, int, Instruction]] = deque(maxlen=_KEPT)

    def add(self, event: int, instructions: Sequence[Instruction]) -> None:
        """Number the instructions that follow from an event."""
        with self._lock:
            for instruction in instructions:
                self.last += 1
                self._latest.append((self.last, event, instruction))

    def of_events(self, events: Sequence[int]) -> list[dict[str, Any]]:
        """Return the instructions that follow from events that have just been handled."""
        wanted = frozenset(events)
        with self._lock:
            since = min(wanted, default=0)
            found = []
            for row in reversed(self._latest):
                if row[1] < since:
                    break
                if row[1] in wanted:
                    found.append(row)
        return [_numbered(number, what) for number, _, what in reversed(found) if not isinstance(what, Solve)]

    def after(self, number: int, most: int) -> list[dict[str, Any]]:
        """Return the instructions behind a number, the earliest first."""
        with self._lock:
            first = self._latest[0][0] if self._latest else self.last + 1
            recent = list(islice(self._latest, max(number + 1 - first, 0), None))
        found = [_numbered(seq, what) for seq, _, what in recent if not isinstance(what, Solve)]
        if number + 1 >= first:
            return found[:most]
        earlier = (
            {"number": seq, **body}
            for seq, _, body in self._journal.instruction_mappings(number)
            if seq < first and body.get("kind") != Solve.kind
        )
        return [*islice(earlier, most), *found][:most]


def _numbered(number: int, instruction: Instruction) -> dict[str, Any]:
    return {"number": number, **instruction_to_mapping(instruction)}


# --- history ----------------------------------------------------------------------------------------


class PoolHistory:
    """History of a pool: jobs and cores by class, and estimates.

    Its length is bounded: when it is full every other sample is dropped.
    """

    def __init__(self) -> None:
        self._every = 1.0  # seconds between two samples
        self._due = float("-inf")
        self._samples: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []
        self._names: list[str] = []
        self._known: Mapping[str, ClassEstimate] | None = None
        self._estimates: list[dict[str, Any]] = []

    def observe(self, controller: Controller) -> None:
        """Sample a controller that has handled an event, if a sample is due."""
        if controller.system.names != self._names:  # samples are of other classes
            self._names, self._samples, self._due = controller.system.names, [], float("-inf")
        if controller.time >= self._due:
            self._sample(controller)
        if controller.estimates is not self._known:
            self._known = controller.estimates
            self._note(controller)

    def _sample(self, controller: Controller) -> None:
        held = [0] * len(controller.counters)
        for job in controller.jobs.active:
            held[job.job_class] += job.held
        self._samples.append((controller.time, controller.jobs.counts, tuple(held)))
        if len(self._samples) > _SAMPLES:
            self._samples = self._samples[::2]
            self._every *= 2.0
        self._due = controller.time + self._every

    def _note(self, controller: Controller) -> None:
        if controller.estimates is None:
            return
        rows = {name: row.as_mapping() for name, row in controller.estimates.items()}
        self._estimates.append({"time": controller.time, "classes": rows})
        if len(self._estimates) > _ESTIMATES:
            self._estimates = [*self._estimates[:-1:2], self._estimates[-1]]

    def samples(self, names: Sequence[str]) -> dict[str, Any]:
        """Return jobs and cores by class over time."""
        return {
            "time": [time for time, _, _ in self._samples],
            "classes": [
                {
                    "name": name,
                    "jobs": [counts[i] for _, counts, _ in self._samples],
                    "held": [held[i] for _, _, held in self._samples],
                }
                for i, name in enumerate(names)
            ],
        }

    def estimates(self) -> list[dict[str, Any]]:
        """Return the estimates of each window, the latest last."""
        return list(self._estimates)
