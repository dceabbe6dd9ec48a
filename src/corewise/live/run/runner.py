r"""The runner: a clock, an engine, a controller, a journal and a solver, put together.

One thread owns the controller. Whatever happens is put on its queue by whoever sees it; all that is there is
taken at once, in this order:

1. what cannot have happened is refused, and what was told before is left out;
2. the rest is written to the journal, if there is one, and is on the disk;
3. the controller handles it, event by event;
4. whoever told is answered: what a job has returned is not to be had before its end is safe;
5. the instructions go out. They *set* cores, so after a crash they may be sent again.

Solving takes seconds, and Python's lock with it: it is done in a process of its own, whose answer is an event
like others.

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
from typing import Any, TypeVar

from corewise.errors import CorewiseError, InvalidFile, InvalidInput, JournalUnavailable
from corewise.kit.workers import Workers
from corewise.live.engines.base import Engine
from corewise.live.journal.event_store import Ledger
from corewise.live.run.solver import answer
from corewise.live.state.admission import Admission
from corewise.live.state.baseline import Unsteered
from corewise.live.state.configuration import Configuration
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import Alert, Instruction, SetCores, Solve
from corewise.live.state.reconcile import ListedJob, reconciling_events
from corewise.observation import events as happened

__all__ = ["Reconciled", "Runner", "Told"]

_ALERTS = 1000  # kept
_RETRY = 1.0  # seconds until the next try to write where that could not be done
_LOOK = 5.0  # seconds between two looks whether the journal is still there

_log = logging.getLogger("corewise.live")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Events that somebody has told, what to do when they are taken in, and whom to tell if they are refused.

    Ids of somebody else's making may come again; `then` is given the numbers of the events that are new.
    """

    events: Sequence[happened.Event]
    then: Callable[[Sequence[int]], None] | None = None
    refused: Callable[[BaseException], None] | None = None
    foreign: bool = False
    undated: Collection[str] = ()
    """The ids of events that their sender did not date."""


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
    """Runner: carries out what a controller says, and tells it what happens.

    Parameters
    ----------
    controller : Controller
        What decides.
    engine : Engine
        What runs the jobs; it is started and closed with the runner.
    solver : Workers
        Where to solve; likewise.
    ledger : Ledger
        Where events and policies are kept.
    broken : callable, optional
        Called with the error when the runner cannot go on.
    give_up : float, optional
        After how many seconds without being able to write it cannot go on; by default it waits for ever.

    Attributes
    ----------
    failed : bool
        Whether it cannot go on.
    """

    def __init__(
        self,
        controller: Controller,
        engine: Engine,
        solver: Workers,
        ledger: Ledger,
        broken: Callable[[CorewiseError], None] = lambda _error: None,
        *,
        give_up: float = math.inf,
    ) -> None:
        self.engine = engine
        self.failed = False
        self.alerts: deque[Alert] = deque(maxlen=_ALERTS)
        self._controller, self._solver, self._ledger = controller, solver, ledger
        self._unsteered: Unsteered | None = None
        self._broken = broken
        self._give_up = give_up
        self._error: CorewiseError | None = None  # why events are refused
        self._refusing_since = self._tried = self._looked = time.monotonic()
        self._postponed: list[Told | Callable[[], None]] = []
        self._inbox: SimpleQueue[Told | Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="corewise-runner", daemon=True)
        self._gate, self._closed = threading.Lock(), False
        # Time goes on where it stood: it does not go back, and nobody saw what happened in between.
        self._began = controller.time - time.monotonic()
        self._ticked = controller.time
        self._session = f"{time.time_ns():x}-{os.getpid():x}"
        self._numbers = count(1)
        self._number = self._kept = (
            ledger.snapshot_at
        )  # the last event handled, and that of the last snapshot

    # --- from any thread ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; what was being solved for when it ended is solved for again."""
        self._find_jobs()
        if self._controller.pool != self.engine.pool:
            self.tell(happened.PoolChanged, self.engine.pool)
        if self._controller.request is not None:  # whoever was asked is gone too
            self._inbox.put(partial(self._solve, self._controller.request))
        self._thread.start()
        self.engine.start(self.tell)

    def _find_jobs(self) -> None:
        """Tell what has become of the jobs that the controller believes to be there: they are gone."""
        for name in self._controller.roster.jobs:
            self.tell(happened.JobEnded, name, "lost")

    def tell(self, kind: type[happened.Event], *values: Any, then: Callable[[], None] | None = None) -> None:
        """Take in what has happened just now."""
        with self._gate:  # dated and put there in one step: times do not go back
            self._inbox.put(Told([self._event(kind, values)], None if then is None else lambda _: then()))

    def request(
        self, kind: type[happened.Event], *values: Any, then: Callable[[], None] | None = None
    ) -> None:
        """Take in what somebody wants, and return when it is safe; `InvalidInput` if it cannot be."""
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
            self._inbox.put(Told([self._event(kind, values)], acknowledge, done.set_exception))
        done.result()

    def submit(self, events: Sequence[happened.Event]) -> Future[Sequence[int]]:
        """Take in events that somebody else has seen and named, all or none.

        The answer, once they are safe, are the numbers of those that are new: one whose id was there before
        changes nothing. `InvalidInput` if one of them cannot have happened. What is submitted cannot be
        cancelled.
        """
        done: Future[Sequence[int]] = _promised()
        self._put(Told(events, done.set_result, done.set_exception, foreign=True))
        return done

    def configure(self, wanted: Configuration) -> None:
        """Go on with another configuration than that in force, if it is another; `InvalidInput` if it cannot.

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
            self._take_in([Told(events, lambda numbers: done.set_result(found(numbers)), done.set_exception)])

        self._put(act)
        return done

    def ask(self, question: Callable[[Controller], _T]) -> _T:
        """Return what the controller answers."""
        return self.asked(question).result()

    def asked(self, question: Callable[[Controller], _T]) -> Future[_T]:
        """Return what the controller will have answered; a question that is cancelled is not asked."""
        done: Future[_T] = Future()

        def act() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(question(self._controller))
            except Exception as error:
                done.set_exception(error)

        self._put(act)
        return done

    def close(self) -> None:
        """End whatever still runs, take in what happens until it has, and end."""
        with self._gate:
            self._closed = True
        try:
            self.engine.close()
        finally:
            self.tell(happened.Tick)  # up to here nothing has happened
            self._inbox.put(None)
            if self._thread.is_alive():
                self._thread.join()

    def _put(self, *items: Told | Callable[[], None]) -> None:
        with self._gate:
            self._require_open()
            for item in items:
                self._inbox.put(item)

    def _require_open(self) -> None:
        if self._closed:
            raise CorewiseError("the pool is closed")

    def _event(self, kind: type[happened.Event], values: Sequence[Any]) -> happened.Event:
        return kind(self._now(), f"{self._session}-{next(self._numbers)}", *values)

    def _now(self) -> float:
        return self._began + time.monotonic()

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        going = True
        while going:
            going = self._work(self._news())
        if self._postponed:
            _log.error("%d events of the pool were not written: %s", len(self._postponed), self._error)

    def _work(self, news: Sequence[Told | Callable[[], None] | None]) -> bool:
        """Take in and carry out what is there, and what was postponed before it; return whether to go on."""
        postponed: list[Told | Callable[[], None]] = []
        if any(isinstance(item, Told) for item in news):
            postponed, self._postponed = self._postponed, []
        group: list[Told] = []
        for item in (*postponed, *news):
            if isinstance(item, Told):
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

    def _news(self) -> list[Told | Callable[[], None] | None]:
        """Wait for something to happen, and return all that has; add a `Tick` when one is due."""
        due = min(self._ticked + self._controller.options.patience, self._controller.due)
        waiting = self._error is not None and not self.failed
        longest = _RETRY if waiting else _LOOK if self._ledger.durable and not self.failed else math.inf
        left = min(due - self._now(), longest)
        news: list[Told | Callable[[], None] | None] = []
        with suppress(Empty):
            news.append(self._inbox.get(timeout=None if math.isinf(left) else max(left, 0.0)))
        with self._gate:  # what is there is dated before the tick
            with suppress(Empty):
                while True:
                    news.append(self._inbox.get_nowait())
            if self._now() >= due or (waiting and time.monotonic() - self._tried >= _RETRY):
                self._ticked = self._now()
                news.append(Told([self._event(happened.Tick, ())]))
        if time.monotonic() - self._looked >= _LOOK:
            self._looked = time.monotonic()
            news.insert(0, self._look)
        return news

    def _look(self) -> None:
        """See whether the journal is still there, and whether it could not be written for too long."""
        if self.failed:
            return
        self._ledger.require_in_place()
        if self._error is not None and time.monotonic() - self._refusing_since >= self._give_up:
            self._break_down(self._error.__cause__ or self._error)

    def _take_in(self, group: Sequence[Told]) -> None:
        """Handle events, unless they cannot be: then callers that wait for an answer are refused."""
        if group and not self.failed:
            try:
                self._handle(group)
            except JournalUnavailable as error:
                self._postpone(group, error)
                return
            except BaseException as error:
                self._break_down(error)
            else:
                return
        for told in group:
            self._refuse(told)

    def _refuse(self, told: Told) -> None:
        if told.refused is not None:
            _answer(partial(told.refused, self._error or CorewiseError("the pool is closed")))

    def _postpone(self, items: Sequence[Told | Callable[[], None]], error: JournalUnavailable) -> None:
        """Refuse events of callers for now, and keep the rest until the journal can be written again."""
        if self._error is None:
            self._refusing_since = time.monotonic()
            _log.error("events are refused, and writing is tried again every %g s: %s", _RETRY, error)
        self._tried = time.monotonic()
        self._error = CorewiseError(f"events are refused for now: {error}")
        self._error.__cause__ = error
        for item in items:
            if isinstance(item, Told) and item.refused is not None:
                self._refuse(item)
            elif not (isinstance(item, Told) and all(isinstance(one, happened.Tick) for one in item.events)):
                self._postponed.append(item)

    def _resume(self) -> None:
        """Take events in again: they could be written."""
        if self._error is not None:
            self._error = None
            _log.info("events are taken in again after %.0f s", time.monotonic() - self._refusing_since)

    def _break_down(self, error: BaseException) -> None:
        if self.failed:
            return
        _log.error("the pool cannot go on: %s", error, exc_info=None if _known_cause(error) else error)
        self._error = CorewiseError(f"the pool cannot go on: {error}")
        self._error.__cause__ = error
        self._postponed = []
        self.failed = True
        _answer(partial(self._broken, self._error))

    def _handle(self, group: Sequence[Told]) -> None:
        """Admit first, journal second, handle third, acknowledge fourth, instruct last.

        `JournalUnavailable` is raised only before anything has changed.
        """
        answers, admitted = self._admitted(group)
        events = [event for _, batch in admitted for event in batch]
        shared = [event is batch[-1] for _, batch in admitted for event in batch]
        numbers = iter(self._ledger.append(events, time.time(), shared))
        if events:
            self._resume()
        instructed: list[Instruction] = []
        for told, batch in admitted:
            pairs = [(next(numbers), event) for event in batch]
            new = [(number, event) for number, event in pairs if number is not None]
            for number, event in new:
                instructed += self._take(number, event, share=event is batch[-1])
            if told.then is not None:
                answers.append(partial(told.then, [number for number, _ in new]))
        for give in answers:
            _answer(give)
        for instruction in instructed:
            self._instruct(instruction)
        self._keep_snapshot()

    def _keep_snapshot(self) -> None:
        """Write down the state now and then, so that not all of a journal has to be replayed."""
        if self._ledger.durable and self._number - self._kept >= self._controller.options.snapshot_every:
            try:
                self._ledger.put_snapshot(self._number, self._controller.snapshot())
            except JournalUnavailable as error:  # the next event tries again
                _log.warning("no snapshot was written: %s", error)
            else:
                self._kept = self._number

    def _admitted(
        self, group: Sequence[Told]
    ) -> tuple[list[Callable[[], None]], list[tuple[Told, Sequence[happened.Event]]]]:
        """Return how to refuse what is refused, and the rest with those of its events that are new."""
        foreign = [event.id for told in group if told.foreign for event in told.events]
        admission = Admission(self._controller, self._ledger.known(foreign) if foreign else {})
        refusals: list[Callable[[], None]] = []
        admitted: list[tuple[Told, Sequence[happened.Event]]] = []
        for told in group:
            try:
                batch = admission.new(told.events, told.undated) if told.foreign else told.events
                admission.admit(batch)
            except InvalidInput as error:
                if told.refused is None:
                    raise
                refusals.append(partial(told.refused, error))
            else:
                admitted.append((told, batch))
        return refusals, admitted

    def _take(self, number: int, event: happened.Event, *, share: bool) -> Sequence[Instruction]:
        """Have the controller handle an event that is safe; return what is to be done."""
        instructions = self._controller.handle(event, share=share)
        self._number = number
        self._ledger.record(number, instructions)
        return [*instructions, *self._share_unsteered(event)]

    def _share_unsteered(self, event: happened.Event) -> Sequence[Instruction]:
        """Return who is to hold what in a pool that is only watched."""
        if self._controller.mode != "watch":
            self._unsteered = None
            return []
        if self._unsteered is None or isinstance(event, happened.PoolConfigured):
            self._unsteered = Unsteered(self._controller)
            return self._unsteered.first
        return self._unsteered.handle(event)

    # --- what is to be done -------------------------------------------------------------------------

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
        in_force = None if adopted is None else self._ledger.policy(adopted.policy)
        try:
            future = self._solver.submit(partial(answer, self._controller.question(), in_force))
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
            settle = partial(self._controller.learner.settle_as, found.lesson.windows, found.memory)
            digest = self._ledger.put_policy(found.policy)
            self.tell(happened.Solved, name, digest, *found.told, then=settle)

    def _not_solved(self, name: str, error: BaseException) -> None:
        if isinstance(error, self._solver.lost):
            try:
                self._solver.renew()
            except Exception:  # the next request tries again
                _log.exception("no other solver could be started")
        self.tell(happened.SolveFailed, name, f"{type(error).__name__}: {error}")


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
