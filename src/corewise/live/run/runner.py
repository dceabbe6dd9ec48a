r"""The runner: a clock, an engine, a controller, a journal and a solver, put together.

One thread owns the controller. Events are put on its queue from any thread; all that have come are taken at
once, in this order:

1. admit: events that cannot have happened are refused, and duplicates are left out;
2. journal: the rest is written to the journal, if there is one, and is on the disk;
3. handle: the controller handles it, event by event;
4. acknowledge: senders are answered, so that the result of a job is not to be had before its end is safe;
5. instruct: the instructions go out. They *set* cores, so after a crash they may be sent again.

Solving takes seconds, and Python's lock with it: it is done in a process of its own, whose answer is an event
like others.

A pool and a service each have a runner. They differ by what they give it: the engine, the clock by which
events are dated, and an observer of what was handled.

While the journal cannot be written, as on a full disk, events of callers are refused, those of the pool
itself are postponed, and writing is tried again every second. A journal that was removed and an error in the
code end the runner: from then on everything is refused. A caller that goes away, or that fails when it is
answered, is not an error of the runner.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from corewise.errors import CorewiseError, InvalidFile, InvalidInput, JournalUnavailable
from corewise.kit.workers import Workers
from corewise.learning.solving import solve_request
from corewise.live.engines.base import Engine, RemoteEngine
from corewise.live.journal.event_store import EventStore
from corewise.live.state.admission import Admission
from corewise.live.state.baseline import EquiBaseline
from corewise.live.state.configuration import Configuration
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import Alert, Instruction, SetCores, Solve
from corewise.live.state.reconcile import ListedJob, reconciling_events
from corewise.observation import events as happened

__all__ = ["Observer", "Reconciled", "Runner", "Submission"]

_ALERTS = 1000  # kept
_RETRY = 1.0  # seconds until the next try to write where that could not be done
_LOOK = 5.0  # seconds between two looks whether the journal is still there

_log = logging.getLogger("corewise.live")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """Events that are submitted together, and are taken in together or not at all.

    Attributes
    ----------
    events : sequence of Event
        The events.
    accepted : callable, optional
        Called with the numbers of the events that are new, once they are safe.
    refused : callable, optional
        Called with the error if they are refused; without it they are postponed while they cannot be written.
    foreign : bool
        Whether ids are the sender's own, so that duplicates may come.
    undated : collection of str
        The ids of events that their sender did not date.
    """

    events: Sequence[happened.Event]
    accepted: Callable[[Sequence[int]], None] | None = None
    refused: Callable[[BaseException], None] | None = None
    foreign: bool = False
    undated: Collection[str] = ()


class Observer(Protocol):
    """Observer of a runner, called in its thread."""

    def handled(
        self,
        number: int,
        event: happened.Event,
        instructions: Sequence[Instruction],
        controller: Controller,
    ) -> None:
        """Take note of an event that the controller has handled, and of the instructions that follow."""
        ...

    def answered(self) -> None:
        """Take note that the senders of a group of events have been answered."""
        ...


class _Unobserved:
    """Observer of a runner that has none."""

    def handled(self, *_: object) -> None:
        """Do nothing."""

    def answered(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Outcome of a reconciliation: the events that were taken in, and their numbers."""

    events: Sequence[happened.Event]
    numbers: Sequence[int]

    @property
    def ended(self) -> list[str]:
        """The jobs that are gone."""
        return [event.job for event in self.events if isinstance(event, happened.JobEnded)]

    @property
    def present(self) -> list[str]:
        """The jobs that were not known."""
        return [event.job for event in self.events if isinstance(event, happened.JobPresent)]

    @property
    def resized(self) -> list[str]:
        """The jobs that hold other cores than was known."""
        return [event.job for event in self.events if isinstance(event, happened.CoresHeld)]


class Runner:
    """Runner: reports events to a controller, and carries out its instructions.

    Parameters
    ----------
    controller : Controller
        The controller, which belongs to the thread of the runner from then on.
    engine : Engine
        What runs the jobs; it is started and closed with the runner. Jobs of a `RemoteEngine` outlive it.
    solver : Workers
        The process to solve in; likewise.
    store : EventStore
        Where events and policies are kept.
    on_failure : callable, optional
        Called with the error when the runner cannot go on.
    give_up : float, optional
        After how many seconds without being able to write it cannot go on; by default it waits for ever.
    clock : callable, optional
        Returns the time by which events are dated; by default it goes on from the last event.
    observer : Observer, optional
        Called after each event that was handled.

    Attributes
    ----------
    failed : bool
        Whether it cannot go on.
    error : CorewiseError or None
        Why events are refused, for now or since it has `failed`.
    """

    def __init__(
        self,
        controller: Controller,
        engine: Engine,
        solver: Workers,
        store: EventStore,
        on_failure: Callable[[CorewiseError], None] = lambda _error: None,
        *,
        give_up: float = math.inf,
        clock: Callable[[], float] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.engine = engine
        self.failed = False
        self.alerts: deque[Alert] = deque(maxlen=_ALERTS)
        self._controller, self._solver, self._store = controller, solver, store
        self._baseline: EquiBaseline | None = None
        self._remote = isinstance(engine, RemoteEngine)
        self._on_failure, self._give_up = on_failure, give_up
        self._observer: Observer = _Unobserved() if observer is None else observer
        self.error: CorewiseError | None = None
        self._refusing_since = self._tried = self._looked = time.monotonic()
        self._postponed: list[Submission | Callable[[], None]] = []
        self._inbox: SimpleQueue[Submission | Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="corewise-runner", daemon=True)
        self._gate, self._closed = threading.Lock(), False
        # Time goes on where it stood: it does not go back, and the time in between was not observed.
        self._now = partial(_going_on, controller.time - time.monotonic()) if clock is None else clock
        self._ticked = controller.time
        self._session = f"{time.time_ns():x}-{os.getpid():x}"
        self._numbers = count(1)
        self._number = self._kept = store.snapshot_at  # the last event handled, and that of the last snapshot

    # --- from any thread ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread and the engine; a request to solve that was not answered is repeated."""
        if not self._remote:  # jobs that ran here have ended with the last runner
            for name in self._controller.jobs.by_name:
                self.report(happened.JobEnded, name, "lost")
        if self._controller.pool != self.engine.pool:
            self.report(happened.PoolChanged, self.engine.pool)
        if self._controller.request is not None:
            self._inbox.put(partial(self._solve, self._controller.request))
        self._thread.start()
        self.engine.start(self.report)

    def report(
        self, kind: Callable[..., happened.Event], *values: Any, then: Callable[[], None] | None = None
    ) -> None:
        """Report an event that has happened just now; `then` is called once it is safe."""
        accepted = None if then is None else lambda _: then()
        with self._gate:  # dated and put there in one step: times do not go back
            self._inbox.put(Submission([self._event(kind, values)], accepted))

    def request(
        self, kind: type[happened.Event], *values: Any, then: Callable[[], None] | None = None
    ) -> None:
        """Request a change, and return when its event is safe; `InvalidInput` if it cannot be."""
        self.requested(kind, *values, then=then).result()

    def requested(
        self, kind: type[happened.Event], *values: Any, then: Callable[[], None] | None = None
    ) -> Future[None]:
        """Request a change; the future is done when its event is safe."""
        done: Future[None] = _promised()

        def acknowledge(_: Sequence[int]) -> None:
            try:
                if then is not None:
                    then()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        with self._gate:
            self._require_open()
            self._inbox.put(Submission([self._event(kind, values)], acknowledge, done.set_exception))
        return done

    def submit(self, events: Sequence[happened.Event]) -> Future[Sequence[int]]:
        """Take in events of a sender elsewhere, all or none.

        The answer, once they are safe, are the numbers of those that are new: one whose id is known changes
        nothing. `InvalidInput` if one of them cannot have happened. What is submitted cannot be cancelled.
        """
        done: Future[Sequence[int]] = _promised()
        self.enqueue(Submission(events, done.set_result, done.set_exception, foreign=True))
        return done

    def configure(self, wanted: Configuration) -> None:
        """Change the configuration, if it differs from that in force; `InvalidInput` if it cannot be changed.

        An algorithm that cannot be made from its name cannot be changed.
        """
        in_force = self.ask(lambda controller: controller.configuration)
        if wanted.is_described_by(in_force.mapping):
            return
        if wanted.mapping["recipe"] is None:
            raise InvalidInput(
                "a pool with an algorithm of your own goes on with the configuration that it had: "
                f"{in_force.mapping['algorithm']} of classes {', '.join(in_force.algorithm.system.names)}"
            )
        self.request(happened.PoolConfigured, wanted.mapping)

    def reconcile(self, jobs: Sequence[ListedJob], at: float) -> Future[Reconciled]:
        """Make the controller know of exactly these jobs, as they were at a time.

        The answer, once it is safe, is what was changed. `InvalidInput` if it cannot be so.
        """
        done: Future[Reconciled] = _promised()

        def act() -> None:  # no event comes between the look at the jobs and what follows from it
            ids = (f"{self._session}-{number}" for number in self._numbers)
            try:
                events = reconciling_events(self._controller, jobs, at, ids)
            except InvalidInput as error:
                done.set_exception(error)
                return
            found = partial(Reconciled, events)
            accepted = lambda numbers: done.set_result(found(numbers))  # noqa: E731
            self._take_in([Submission(events, accepted, done.set_exception)])

        self.enqueue(act)
        return done

    def ask(self, question: Callable[[Controller], _T]) -> _T:
        """Call a function with the controller in its thread, and return what it returns."""
        return self.asked(question).result()

    def asked(self, question: Callable[[Controller], _T]) -> Future[_T]:
        """Call a function with the controller in its thread; one that is cancelled is not called."""
        done: Future[_T] = Future()

        def act() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(question(self._controller))
            except Exception as error:
                done.set_exception(error)

        self.enqueue(act)
        return done

    def close(self) -> None:
        """End all jobs that run here, take in what happens until they have ended, and end the thread."""
        with self._gate:
            self._closed = True
        try:
            self.engine.close()
        finally:
            self.report(happened.Tick)  # up to here nothing has happened
            self._inbox.put(None)
            if self._thread.is_alive():
                self._thread.join()

    def enqueue(self, *items: Submission | Callable[[], None]) -> None:
        """Put submissions, and functions to call in the thread, on the queue; they are taken together."""
        with self._gate:
            self._require_open()
            for item in items:
                self._inbox.put(item)

    def _require_open(self) -> None:
        if self._closed:
            raise CorewiseError("the pool is closed")

    def _event(self, kind: Callable[..., happened.Event], values: Sequence[Any]) -> happened.Event:
        return kind(self._now(), f"{self._session}-{next(self._numbers)}", *values)

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        going = True
        while going:
            going = self._work(self._news())
        if self._postponed:
            _log.error("%d events of the pool were not written: %s", len(self._postponed), self.error)

    def _work(self, news: Sequence[Submission | Callable[[], None] | None]) -> bool:
        """Take in events and carry out actions, postponed ones first; return whether to go on."""
        postponed: list[Submission | Callable[[], None]] = []
        if any(isinstance(item, Submission) for item in news):
            postponed, self._postponed = self._postponed, []
        group: list[Submission] = []
        for item in (*postponed, *news):
            if isinstance(item, Submission):
                group.append(item)
                continue
            self._take_in(group)
            group = []
            self._carry_out(item)
        self._take_in(group)
        return None not in news

    def _carry_out(self, item: Callable[[], None] | None) -> None:
        try:
            if item is not None:
                item()
        except JournalUnavailable as error:
            self._postpone([] if item is None else [item], error)
        except BaseException as error:
            self._break_down(error)

    def _news(self) -> list[Submission | Callable[[], None] | None]:
        """Drain the inbox; add a `Tick` when one is due."""
        due = min(self._ticked + self._controller.options.patience, self._controller.due)
        waiting = self.error is not None and not self.failed
        longest = _RETRY if waiting else _LOOK if self._store.durable and not self.failed else math.inf
        left = min(due - self._now(), longest)
        news: list[Submission | Callable[[], None] | None] = []
        with suppress(Empty):
            news.append(self._inbox.get(timeout=None if math.isinf(left) else max(left, 0.0)))
        with self._gate:  # what is there is dated before the tick
            with suppress(Empty):
                while True:
                    news.append(self._inbox.get_nowait())
            if self._now() >= due or (waiting and time.monotonic() - self._tried >= _RETRY):
                self._ticked = self._now()
                news.append(Submission([self._event(happened.Tick, ())]))
        if time.monotonic() - self._looked >= _LOOK:
            self._looked = time.monotonic()
            news.insert(0, self._look)
        return news

    def _look(self) -> None:
        """See whether the journal is still there, and whether it could not be written for too long."""
        if self.failed:
            return
        self._store.require_in_place()
        if self.error is not None and time.monotonic() - self._refusing_since >= self._give_up:
            self._break_down(self.error.__cause__ or self.error)

    def _take_in(self, group: Sequence[Submission]) -> None:
        """Handle events, unless they cannot be: then senders that wait for an answer are refused."""
        if not group:
            return
        if not self.failed:
            try:
                self._handle(group)
            except JournalUnavailable as error:
                self._postpone(group, error)
                self._observer.answered()
                return
            except BaseException as error:
                self._break_down(error)
            else:
                return
        for submission in group:
            self._refuse(submission)
        self._observer.answered()

    def _refuse(self, submission: Submission) -> None:
        if submission.refused is not None:
            _answer(partial(submission.refused, self.error or CorewiseError("the pool is closed")))

    def _postpone(self, items: Sequence[Submission | Callable[[], None]], error: JournalUnavailable) -> None:
        """Refuse events of callers for now, and keep the rest until the journal can be written again."""
        if self.error is None:
            self._refusing_since = time.monotonic()
            _log.error("events are refused, and writing is tried again every %g s: %s", _RETRY, error)
        self._tried = time.monotonic()
        self.error = CorewiseError(f"events are refused for now: {error}")
        self.error.__cause__ = error
        for item in items:
            if isinstance(item, Submission) and item.refused is not None:
                self._refuse(item)
            elif not (
                isinstance(item, Submission) and all(isinstance(one, happened.Tick) for one in item.events)
            ):
                self._postponed.append(item)

    def _resume(self) -> None:
        """Take events in again: they could be written."""
        if self.error is not None:
            self.error = None
            _log.info("events are taken in again after %.0f s", time.monotonic() - self._refusing_since)

    def _break_down(self, error: BaseException) -> None:
        if self.failed:
            return
        _log.error("the pool cannot go on: %s", error, exc_info=None if _known_cause(error) else error)
        self.error = CorewiseError(f"the pool cannot go on: {error}")
        self.error.__cause__ = error
        self._postponed = []
        self.failed = True
        _answer(partial(self._on_failure, self.error))

    def _handle(self, group: Sequence[Submission]) -> None:
        """Admit first, journal second, handle third, acknowledge fourth, instruct last.

        `JournalUnavailable` is raised only before anything has changed.
        """
        answers, admitted = self._admitted(group)
        events = [event for _, batch in admitted for event in batch]
        shared = [event is batch[-1] for _, batch in admitted for event in batch]
        numbers = iter(self._store.append(events, time.time(), shared))
        if events:
            self._resume()
        instructed: list[Instruction] = []
        for submission, batch in admitted:
            pairs = [(next(numbers), event) for event in batch]
            new = [(number, event) for number, event in pairs if number is not None]
            for number, event in new:
                instructed += self._take(number, event, share=event is batch[-1])
            if submission.accepted is not None:
                answers.append(partial(submission.accepted, [number for number, _ in new]))
        for give in answers:
            _answer(give)
        self._observer.answered()
        for instruction in instructed:
            self._instruct(instruction)
        self._keep_snapshot()

    def _keep_snapshot(self) -> None:
        """Write a snapshot of the state when one is due, so that a restart need not replay all events."""
        if self._store.durable and self._number - self._kept >= self._controller.options.snapshot_every:
            try:
                self._store.put_snapshot(self._number, self._controller.snapshot())
            except JournalUnavailable as error:  # the next event tries again
                _log.warning("no snapshot was written: %s", error)
            else:
                self._kept = self._number

    def _admitted(
        self, group: Sequence[Submission]
    ) -> tuple[list[Callable[[], None]], list[tuple[Submission, Sequence[happened.Event]]]]:
        """Return the refusals to be sent, and the other submissions with their events that are new."""
        foreign = [event.id for one in group if one.foreign for event in one.events]
        state, journaled = self._controller, self._store.known(foreign) if foreign else {}
        admission = Admission(state.system, state.known_jobs, state.pool, journaled)
        refusals: list[Callable[[], None]] = []
        admitted: list[tuple[Submission, Sequence[happened.Event]]] = []
        for one in group:
            try:
                batch = admission.new(one.events, one.undated) if one.foreign else one.events
                admission.admit(batch)
            except InvalidInput as error:
                if one.refused is None:
                    raise
                refusals.append(partial(one.refused, error))
            else:
                admitted.append((one, batch))
        return refusals, admitted

    def _take(self, number: int, event: happened.Event, *, share: bool) -> Sequence[Instruction]:
        """Have the controller handle an event that is safe; return the instructions."""
        instructions = self._controller.handle(event, share=share)
        self._number = number
        self._store.record(number, instructions)
        self._observer.handled(number, event, instructions, self._controller)
        return [*instructions, *self._share_equally(event)]

    def _share_equally(self, event: happened.Event) -> Sequence[Instruction]:
        """Return the instructions that share cores equally in a pool that is only watched."""
        if self._remote or self._controller.mode != "watch":
            self._baseline = None
            return []
        if self._baseline is None or isinstance(event, happened.PoolConfigured):
            self._baseline = EquiBaseline(self._controller)
            return self._baseline.first
        return self._baseline.handle(event)

    # --- instructions -------------------------------------------------------------------------------

    def _instruct(self, instruction: Instruction) -> None:
        match instruction:
            case SetCores():
                self.engine.set_cores(instruction.job, instruction.cores)
            case Solve():
                self._carry_out(partial(self._solve, instruction.request))
            case Alert():
                self.alerts.append(instruction)
                _log.warning("%s: %s", instruction.about, instruction.text)

    def _solve(self, name: str) -> None:
        """Have the solver answer a request, unless there is a later one by now."""
        if self._controller.request != name:
            return
        adopted = self._controller.adopted
        in_force = None if adopted is None else self._store.policy(adopted.policy)
        try:
            request = self._controller.inference_request()
            future = self._solver.submit(partial(solve_request, request, in_force))
        except Exception as error:
            self._not_solved(name, error)
            return
        future.add_done_callback(lambda future: self._inbox.put(partial(self._solved, name, future)))

    def _solved(self, name: str, future: Future[Any]) -> None:
        if self._controller.request != name:  # the pool was configured otherwise in the meantime
            return
        try:
            found = self._solver.answer(future)
        except BaseException as error:  # also that the solver was cancelled
            self._not_solved(name, error)
        else:
            inference = found.inference
            remember = partial(self._controller.learner.install_memory, inference.windows, inference.memory)
            digest = self._store.put_policy(found.policy)
            self.report(found.event, name, digest, then=remember)

    def _not_solved(self, name: str, error: BaseException) -> None:
        if isinstance(error, self._solver.lost):
            try:
                self._solver.renew()
            except Exception:  # the next request tries again
                _log.exception("no other solver could be started")
        self.report(happened.SolveFailed, name, f"{type(error).__name__}: {error}")


def _going_on(began: float) -> float:
    return began + time.monotonic()


def _promised() -> Future[Any]:
    """Return a future that cannot be cancelled: it is answered also where the caller has gone away."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _answer(give: Callable[[], object]) -> None:
    """Give a caller its answer; what goes wrong there is logged, and concerns no other caller."""
    try:
        give()
    except InvalidStateError:
        pass  # it has its answer
    except BaseException:
        _log.exception("an answer could not be given")


def _known_cause(error: BaseException) -> bool:
    """Return whether an error says all there is to know: a file, and not a mistake in the code."""
    return isinstance(error, InvalidFile)
