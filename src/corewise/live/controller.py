r"""The live controller: events in, instructions out; no clock, thread, socket, file or randomness.

At every event the jobs that are there are counted, the policy in force gives cores to each class, and these
are shared out to its jobs (`corewise.live.share`). What jobs were seen to hold and do is tallied; every
window of departures teaches the learner, which asks for a policy; the answer is adopted if it passes the
gate:

- every class has been seen to leave often enough, and
- the policy beats the one in force all over the region in which the parameters lie.

Until then EQUI is in force, which needs to know nothing. In `watch` no core is ever touched, and what would
have been done is counted; in `hold` jobs keep the cores they have.

A late event is taken in at the latest time seen. An id that was seen before changes nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corewise.estimation.changes.alarms import Alarm
from corewise.estimation.estimates import Estimates
from corewise.learning.algorithms import Algorithm
from corewise.learning.learner import Learner, SolveRequest
from corewise.live import events as happened
from corewise.live.admission import require
from corewise.live.books import Book
from corewise.live.explain import Explanation, explain
from corewise.live.instructions import Alert, Instruction, Reason, SetCores, Solve
from corewise.live.report import Report, report_of
from corewise.live.roster import Roster
from corewise.live.tally import LiveTally
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.policies.equi import Equi
from corewise.policies.whole import require_whole, round_cores

__all__ = ["Controller", "Options"]

_REMEMBERED = 65_536  # ids: a sender repeats itself within seconds; the journal knows them all
_ALERTS = 100  # kept


@dataclass(frozen=True)
class Options:
    """Options of a live controller.

    Attributes
    ----------
    least_seen : int
        Departures of every class before a policy other than EQUI is adopted.
    patience : float
        How long a job may take to hold what it was told before somebody is alerted.
    checked : bool
        Whether all invariants are checked after every event.
    """

    least_seen: int = 100
    patience: float = math.inf
    checked: bool = False


class Controller:
    """Live controller: a state machine from events to instructions.

    Parameters
    ----------
    algorithm : Algorithm
        What is known of the system, and how to learn the rest.
    policies : callable
        From the digest of a policy to the policy.
    mode : str, optional
        ``"watch"``, ``"steer"`` or ``"hold"``.
    time : float, optional
        When the observation opens.
    options : Options, optional
        The rest.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        policies: Callable[[str], Policy],
        *,
        mode: happened.Mode = "watch",
        time: float = 0.0,
        options: Options | None = None,
    ) -> None:
        require_whole(algorithm.system)
        self.options = options or Options()
        self.mode: happened.Mode = mode
        self.time = time
        self.pool = int(algorithm.system.cores)
        self.roster = Roster([(1, None)] * len(algorithm.system.classes))
        self.tally = LiveTally(algorithm.system.names, time)
        self.learner = Learner(algorithm)
        self.request: tuple[str, SolveRequest] | None = None
        self.adopted: happened.Solved | None = None
        self.answer: happened.Solved | None = None
        self.since = time
        self.estimates: Estimates | None = None
        self.alarms: tuple[Alarm, ...] = ()
        self.books = [Book() for _ in algorithm.system.classes]
        self.alerts: deque[Alert] = deque(maxlen=_ALERTS)
        self.would_have_moved = 0
        self._policies = policies
        self._policy: BoundPolicy = bind(Equi(), algorithm.system)
        self._cores: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._seen: set[str] = set()
        self._order: deque[str] = deque()
        self._alerted: set[str] = set()

    @property
    def system(self) -> System:
        """What is known of the system."""
        return self.learner.algorithm.system

    @property
    def policy_name(self) -> str:
        """The policy in force."""
        return self._policy.name if self.adopted is None else f"policy {self.adopted.request}"

    def explain(self, job: str) -> Explanation:
        """Return why a job holds the cores that it holds, which prints as a sentence."""
        return explain(self, job)

    def report(self) -> Report:
        """Return what is done, what was learned and what that is worth, which prints as a table."""
        return report_of(self)

    # --- events -------------------------------------------------------------------------------------

    def require(self, event: happened.Event) -> None:
        """Raise `InvalidInput` if an event cannot have happened; nothing changes."""
        require(event, self.system, self.roster.jobs, self.pool)

    def handle(self, event: happened.Event) -> list[Instruction]:
        """Take in an event; return what is to be done now."""
        if event.id in self._seen:
            return []
        self.require(event)
        self._remember(event.id)
        self.time = max(self.time, event.time)
        self.tally.move_to(self.time)
        instructions = self._take(event)
        instructions += self._learn()
        instructions += self._act()
        self.alerts.extend(one for one in instructions if isinstance(one, Alert))
        if self.options.checked:
            self._check_invariants()
        return instructions

    def _remember(self, name: str) -> None:
        self._seen.add(name)
        self._order.append(name)
        if len(self._order) > _REMEMBERED:
            self._seen.discard(self._order.popleft())

    def _take(self, event: happened.Event) -> list[Instruction]:
        """Change what an event changes."""
        match event:
            case happened.JobArrived():
                self._add(event, event.time, 0)
            case happened.JobPresent():
                self._add(event, math.nan, event.held)
            case happened.JobFinished() | happened.JobEnded():
                self._let_go(event)
            case happened.CoresHeld():
                self._hold(event)
            case happened.Progress():
                self.tally.progress(event.job, event.amount)
                self.books[self.roster.jobs[event.job].job_class].marks += event.amount
            case happened.PoolChanged():
                self.pool = event.cores
                self._cores.clear()
            case happened.LimitsChanged():
                self.roster.limits[self._index(event.job_class)] = (event.least, event.most)
            case happened.ModeChanged():
                self.mode = event.mode
            case happened.Solved():
                return self._judge(event)
            case happened.SolveFailed():
                return self._give_up(event)
            case _:
                return self._alert_of_late_moves()
        return []

    def _add(self, event: happened.JobArrived | happened.JobPresent, arrived: float, held: int) -> None:
        i = self._index(event.job_class)
        self.roster.add(event.job, i, arrived, event.least, event.most, held)
        self.tally.arrive(event.job, i, held, counted=not math.isnan(arrived))
        self.books[i].open(counted=not math.isnan(arrived))

    def _let_go(self, event: happened.JobFinished | happened.JobEnded) -> None:
        finished = isinstance(event, happened.JobFinished)
        job = self.roster.jobs.pop(event.job)
        self.tally.leave(event.job, finished=finished)
        self.books[job.job_class].close(max(event.time - job.arrived, 0.0), finished=finished)
        self._alerted.discard(event.job)

    def _hold(self, event: happened.CoresHeld) -> None:
        job = self.roster.jobs[event.job]
        if event.time < job.held_at:  # a later one has overtaken it
            return
        job.held, job.held_at, job.told_at = event.cores, event.time, self.time
        if self.mode == "watch":
            job.told = event.cores
        self.tally.hold(event.job, event.cores, event.paused)
        if job.held == job.told:
            self._alerted.discard(job.name)

    def _index(self, name: str) -> int:
        return self.system.index(name)

    # --- what is to be done -------------------------------------------------------------------------

    def _act(self) -> list[Instruction]:
        """Return who is to hold other cores from now on."""
        counts = self.roster.counts
        given = self.given(counts)
        if self.mode == "watch":
            before = {job.name: job.target for job in self.roster}
            self.roster.aim(given, self.pool)
            self.would_have_moved += sum(
                job.target not in {job.held, before[job.name]} for job in self.roster
            )
            return []
        if self.mode == "hold":
            self.roster.keep(self.pool)
        else:
            self.roster.aim(given, self.pool)
        told = self.roster.moves(self.pool, self.time)
        reason = Reason(counts, given, self.policy_name, self.mode)
        return [SetCores(job.name, job.told, reason) for job in told]

    def given(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Return the whole cores that the policy gives to each class; of another pool in proportion."""
        known = self._cores.get(counts)
        if known is None:
            if not any(counts):
                return counts
            cores = self._policy.allocate(np.array(counts)) * (self.pool / self._policy.system.cores)
            known = tuple(int(x) for x in round_cores(cores[:, None])[:, 0])
            self._cores[counts] = known
        return known

    # --- learning -----------------------------------------------------------------------------------

    def _learn(self) -> list[Instruction]:
        """Return a request to solve, if a window is full."""
        if self.tally.departures < self.learner.wanted or not self.tally.learnable:
            return []
        window, _ = self.tally.close()
        asked = self.learner.observe(window)
        if asked is None:
            return []
        self.estimates = asked.estimates
        self.alarms += asked.alarms
        if asked.in_force is not None:
            return []
        late = [] if self.request is None else [f"no answer to request {self.request[0]} within a window"]
        name = str(asked.k)
        self.request = (name, asked)
        return [*(Alert("solve", text) for text in late), Solve(name)]

    def _judge(self, answer: happened.Solved) -> list[Instruction]:
        """Adopt what was asked for, if it passes the gate."""
        if self.request is None or self.request[0] != answer.request:
            return []
        _, asked = self.request
        self.request, self.answer = None, answer
        seen = min(row.departures for row in asked.estimates.values())
        if seen < self.options.least_seen or answer.gain[0] <= 0.0:
            return []
        policy = self._policies(answer.policy)
        self.learner.adopt(policy)
        self._policy, self.adopted, self.since = bind(policy, self.system), answer, self.time
        self._cores.clear()
        return []

    def _give_up(self, answer: happened.SolveFailed) -> list[Instruction]:
        if self.request is None or self.request[0] != answer.request:
            return []
        self.request = None
        return [Alert("solve", f"request {answer.request} came to nothing, the policy stays: {answer.why}")]

    def _alert_of_late_moves(self) -> list[Instruction]:
        """Return whoever has not come to hold what it was told, once."""
        late = [
            job
            for job in self.roster
            if job.held != job.told
            and self.time - job.told_at > self.options.patience
            and job.name not in self._alerted
        ]
        self._alerted.update(job.name for job in late)
        return [
            Alert("resize", f"job {job.name!r} was told {job.told} cores and still holds {job.held}")
            for job in late
        ]

    # --- invariants ---------------------------------------------------------------------------------

    def _check_invariants(self) -> None:
        """Raise `AssertionError` if something that must always hold does not."""
        for book, count in zip(self.books, self.roster.counts, strict=True):
            assert book.arrived + book.present - book.finished - book.ended == count
        bounds = {job.name: self.roster.bounds(job, self.pool) for job in self.roster}
        assert sum(job.target for job in self.roster) <= self.pool
        rest = self.pool - sum(job.target for job in self.roster)
        for job in self.roster:
            least, most = bounds[job.name]
            if self.mode != "hold":
                assert job.target == 0 or least <= job.target <= most
                assert not rest or job.target == most or (job.target == 0 and least > rest)
