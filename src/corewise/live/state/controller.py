r"""The live controller: events in, instructions out; no clock, thread, socket, file or randomness.

At every event the jobs that are present are counted, the policy in force gives cores to each class, and these
are shared out to its jobs (`corewise.policies.moving.share`). What jobs were seen to hold and do is tallied.
At the end of every window of departures the learner (`corewise.learning.learner`) requests an inference,
which another process makes; the policy that comes with it is adopted if it passes the gate
(`corewise.learning.gate`):

- the classes that it is for, two or more, have been seen to leave often enough,
- given what was seen, the policy beats EQUI with a probability of nine tenths, and
- the one in force in the mean.

Until then EQUI is in force, which needs to know nothing; classes that the policy is not for share equally
beside it. In `watch` no core is ever touched, and what would have been done is counted; in `hold` jobs keep
the cores they have.

An event counts at its time or not at all, whenever it is reported (`corewise.observation.event_tally`). An
id that was seen before changes nothing.

A snapshot is an archive of plain values and arrays, as saved policies are: no code is run to read one, and
the same state has the same bytes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Any

import numpy as np

from corewise.errors import InvalidFile
from corewise.estimation.changes.alarms import Alarm
from corewise.estimation.class_estimate import ClassEstimate
from corewise.kit.archive import packed, unpacked, usable
from corewise.kit.frozen import FrozenMapping
from corewise.kit.jsonable import plain
from corewise.learning.algorithms import Algorithm
from corewise.learning.checkpoint import packed_parts, unpacked_parts
from corewise.learning.gate import CautiousGate, Evidence, ExpectedImprovement
from corewise.learning.learner import Inference, InferenceRequest, Learner, LearnerState
from corewise.learning.memories import Latest
from corewise.live.state.admission import require
from corewise.live.state.configuration import Configuration, Options
from corewise.live.state.counters import JobCounters
from corewise.live.state.explain import Explanation, explain, in_cores, round_overdue
from corewise.live.state.instructions import Alert, Instruction, Reason, SetCores, Solve
from corewise.live.state.invariants import check
from corewise.live.state.job_table import JobTable, PoolJob
from corewise.live.state.moving import Moving
from corewise.live.state.pool_state import PoolState
from corewise.live.state.report import ClassReport, Expected, Report, ResponseSummary
from corewise.live.state.reported_jobs import ReportedJobs
from corewise.model.files import RATES, system_from_mapping, system_to_mapping
from corewise.model.system import System
from corewise.observation import events as happened
from corewise.observation.admission import (
    JobEnd,
    KnownJobs,
    has_overtaken,
    is_overtaken,
    keep_latest,
    nearest_job,
)
from corewise.observation.event_tally import EventTally
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.policies.equi import Equi
from corewise.policies.rounding import require_whole
from corewise.policies.scaled import integer_allocation, rebind

__all__ = ["Controller", "Options", "configuration_in"]

_REMEMBERED = 65_536  # ids: a sender repeats itself within seconds; the journal knows them all
_KEPT = 100  # alarms and alerts, the latest
_QUIET = 3600.0  # seconds between two alerts that more cores are held than there are

_FORMAT, _WHAT = "corewise live 2", "snapshot of a live pool"


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

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.observation.events import JobArrived
    >>> classes = [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.5)) for name in ("etl", "query")]
    >>> system = cw.System(8, classes)
    >>> controller = cw.live.Controller(cw.algorithm_1b(system), lambda digest: cw.Equi(), mode="steer")
    >>> for instruction in controller.handle(JobArrived(0.0, "event 1", "job 1", "etl")):
    ...     print(type(instruction).__name__, instruction.job, instruction.cores)
    SetCores job 1 8
    >>> for instruction in controller.handle(JobArrived(1.0, "event 2", "job 2", "query")):
    ...     print(type(instruction).__name__, instruction.job, instruction.cores)
    SetCores job 1 4
    SetCores job 2 4
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
        self.configuration = Configuration(algorithm, self.options)
        self.reconfigured = 0
        self.mode: happened.Mode = mode
        self.time = time
        self.pool = int(algorithm.system.cores)
        self.jobs = JobTable(
            [(known.min_cores, known.max_cores) for known in algorithm.system.classes],
            late_moves=self.options.late_moves,
        )
        self.moving = Moving(algorithm.system)
        self.by_reports = self._by_reports() if self.options.decide == "jobs" else None
        self.tally = EventTally(algorithm.system.names, time, self.options.lateness)
        self.learner = Learner(algorithm)
        self.request: str | None = None
        self.asked_for = self.pool
        self.adopted: happened.Solved | None = None
        self.answer: happened.Solved | None = None
        self.since = time
        self.estimates: Mapping[str, ClassEstimate] | None = None
        self.alarms: tuple[Alarm, ...] = ()
        self.counters = [JobCounters() for _ in algorithm.system.classes]
        self.alerts: deque[Alert] = deque(maxlen=_KEPT)
        self.would_have_moved = 0
        self._policies = policies
        self._policy: BoundPolicy = bind(Equi(), algorithm.system)
        self._cores: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._seen: set[str] = set()
        self.ids: deque[str] = deque()
        self.alerted: set[str] = set()
        self.late = False
        self.overheld = -math.inf
        self._to_share = False  # something has changed since cores were shared
        self._to_aim = False  # and it is not only that a job holds what it was assigned
        self.left: dict[str, float] = {}
        """When jobs left, by their names, the latest last."""
        self.early: dict[str, JobEnd] = {}
        """The ends of jobs whose arrivals have not been reported yet, by their names."""

    def _by_reports(self, snapshot: Mapping[str, Any] | None = None) -> ReportedJobs:
        """Return decisions per job from reports, new or from a snapshot."""
        return ReportedJobs.of(self.configuration.algorithm.system, snapshot)

    @property
    def system(self) -> System:
        """What is known of the system."""
        return self.learner.algorithm.system

    @property
    def policy_name(self) -> str:
        """The policy in force."""
        return self._policy.name if self.adopted is None else f"policy {self.adopted.request}"

    @property
    def policy_classes(self) -> list[str]:
        """The classes that the policy in force is for; jobs of others share equally."""
        return self._policy.system.names

    @classmethod
    def of(
        cls,
        snapshot: bytes | None,
        algorithm: Algorithm,
        policies: Callable[[str], Policy],
        options: Options | None = None,
    ) -> Controller:
        """Return the controller that goes on from a snapshot; a new one if there is none."""
        controller = cls(algorithm, policies, options=options)
        if snapshot is not None:
            controller._restore(snapshot)
        return controller

    # --- what others may see ------------------------------------------------------------------------

    @property
    def known_jobs(self) -> KnownJobs[PoolJob]:
        """The jobs that are present and those that have left, by which events are admitted."""
        return KnownJobs(self.jobs.by_name, self.left, self.early)

    @property
    def state(self) -> PoolState:
        """The state of the pool, to be explained and checked."""
        return PoolState(
            self.time,
            self.mode,
            self.pool,
            self.jobs,
            self.counters,
            self.moving.free and (self.by_reports is None or not self.by_reports.decided),
            self.policy_name,
            self.policy_classes,
            self.estimates,
            self.learner.state.estimated,
        )

    def explain(self, job: str) -> Explanation:
        """Return why a job holds the cores that it holds, which prints as a sentence."""
        found = explain(self.state, job)
        text = None if self.by_reports is None else self.by_reports.explained(job)
        return found if text is None else replace(found, text=text)

    def report(self) -> Report:
        """Return the state, the estimates and the expected improvement, which prints as a table."""
        last = self.answer
        expected = {} if last is None else Expected.by_class(last, self.system.names)
        return Report(
            self.time,
            self.mode,
            self.pool,
            self.policy_name,
            self.since,
            self.learner.state.k,
            None if last is None else last.gain_over_equi,
            last is not None and last == self.adopted,
            ResponseSummary.of(JobCounters.total(self.counters)),
            tuple(self._class_report(i, expected.get(name)) for i, name in enumerate(self.system.names)),
            self.alarms,
            tuple(self.alerts),
            self.would_have_moved,
            self.adopted is not None,
            self.reason,
            self.tally.late,
        )

    def _class_report(self, i: int, expected: Expected | None) -> ClassReport:
        name, counters, count = self.system.names[i], self.counters[i], self.jobs.counts[i]
        jobs = [job for job in self.jobs.active if job.job_class == i]
        return ClassReport(
            name,
            count,
            count - sum(bool(job.held) for job in jobs),
            sum(job.held for job in jobs),
            sum(job.assigned for job in jobs),
            sum(job.target for job in jobs),
            counters.arrived,
            counters.present,
            counters.finished,
            counters.ended,
            ResponseSummary.of(counters),
            None if self.estimates is None else self.estimates.get(name),
            counters.marks,
            expected,
            self.evidence.departures_of(name),
            self.options.least_seen,
        )

    # --- snapshots ----------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return all of the state, from which `of` goes on."""
        learner, state, found = self.learner, self.learner.state, self.estimates
        parts, arrays = packed_parts((*state.memory.parts, *learner.covered, *learner.pending))
        about = {
            "configuration": self.configuration.mapping,
            "time": self.time,
            "mode": self.mode,
            "pool": self.pool,
            "since": self.since,
            "request": self.request,
            "late": self.late,
            "asked_for": self.asked_for,
            "would_have_moved": self.would_have_moved,
            "reconfigured": self.reconfigured,
            "overheld": self.overheld,
            "adopted": None if self.adopted is None else happened.event_to_mapping(self.adopted),
            "answer": None if self.answer is None else happened.event_to_mapping(self.answer),
            "estimates": None if found is None else plain([row.as_mapping() for row in found.values()]),
            "alarms": [alarm.as_mapping() for alarm in self.alarms],
            "alerts": [asdict(alert) for alert in self.alerts],
            "alerted": sorted(self.alerted),
            "left": list(self.left.items()),
            "early": [happened.event_to_mapping(event) for event in self.early.values()],
            "books": [asdict(row) for row in self.counters],
            "roster": self.jobs.snapshot(),
            "moving": self.moving.snapshot(),
            **({} if self.by_reports is None else {"by_reports": self.by_reports.snapshot()}),
            "tally": self.tally.snapshot(),
            "k": state.k,
            "departures": state.departures,
            "observed": state.time,
            "estimated": system_to_mapping(state.estimated),
            "believed": system_to_mapping(state.plug_in),
            "memory": parts,
            "taken": len(learner.covered),
            "new": len(learner.pending),
        }
        ids = np.frombuffer("\n".join(self.ids).encode(), dtype=np.uint8)
        return packed("snapshot", _FORMAT, about, {**arrays, "ids": ids})

    def _restore(self, content: bytes) -> None:
        """Go on from the state of a snapshot."""
        about, arrays = unpacked("snapshot", content, _FORMAT, _WHAT)
        with usable("snapshot", _WHAT):
            self.time, self.mode, self.pool = about["time"], about["mode"], about["pool"]
            self.since, self.request, self.late = about["since"], about["request"], about["late"]
            self.asked_for, self.would_have_moved = about["asked_for"], about["would_have_moved"]
            self.reconfigured, self.overheld = about["reconfigured"], about["overheld"]
            self.adopted, self.answer = _solved(about["adopted"]), _solved(about["answer"])
            rows = about["estimates"]
            if rows is not None:
                found = [ClassEstimate.from_mapping(row) for row in rows]
                self.estimates = FrozenMapping({row.name: row for row in found})
            self.alarms = tuple(map(Alarm.from_mapping, about["alarms"]))
            self.alerts = deque((Alert(**values) for values in about["alerts"]), self.alerts.maxlen)
            self.alerted = set(about["alerted"])
            self.left = dict(about["left"])
            self.early = {values["job"]: _end(values) for values in about["early"]}
            self.counters = [JobCounters(**values) for values in about["books"]]
            self.jobs = JobTable.of(about["roster"], late_moves=self.options.late_moves)
            if "moving" in about:
                self.moving = Moving.of(self.system, about["moving"])
            if self.by_reports is not None:
                self.by_reports = self._by_reports(about["by_reports"])
            self.tally = EventTally.of(self.system.names, about["tally"], self.options.lateness)
            ids = arrays.pop("ids").tobytes().decode()
            self.learner = _restored_learner(self.learner.algorithm, about, arrays)
            self.remember_ids(ids.split("\n") if ids else [])
        if self.adopted is not None:
            self._policy = rebind(self._policies(self.adopted.policy), self.system)

    # --- events -------------------------------------------------------------------------------------

    def require(self, event: happened.Event) -> None:
        """Raise `InvalidInput` if an event cannot have happened; nothing changes."""
        require(event, self.system, self.known_jobs, self.pool)

    def handle(self, event: happened.Event, *, share: bool = True) -> list[Instruction]:
        """Handle an event; return the instructions that follow.

        Of a batch, cores are shared once, behind its last event: with `share` false they are not yet.
        """
        if event.id in self._seen:
            return []
        self.require(event)
        before, late = self.time, self.tally.late
        assigned = {job.name: job.assigned for job in self.jobs} if self.options.checked else {}
        self.remember_ids((event.id,))
        self.time = max(self.time, event.time)
        self.tally.move_to(self.time)
        instructions = self._take(event)
        moves_cores = not isinstance(event, happened.Progress | happened.ShortRounds)
        self._to_share = self._to_share or moves_cores
        self._to_aim = self._to_aim or (moves_cores and not self._follows(event))
        if self._to_share:
            instructions += self._learn()
        if self._to_share and share:
            instructions += self._act()
            self._to_share = self._to_aim = False
        if self.tally.late > late:
            instructions += self._alert_of_late_events(late)
        if instructions:
            self.alerts.extend(one for one in instructions if isinstance(one, Alert))
        if self.options.checked and share:
            check(self.state, before, assigned, instructions, self.tally.accounted)
        return instructions

    def remember_ids(self, names: Iterable[str]) -> None:
        """Remember ids: events that have one of them change nothing."""
        for name in names:
            self._seen.add(name)
            self.ids.append(name)
            if len(self.ids) > _REMEMBERED:
                self._seen.discard(self.ids.popleft())

    def _take(self, event: happened.Event) -> list[Instruction]:
        """Update the state by an event; return alerts and requests."""
        match event:
            case happened.PoolChanged():
                return self._resize(event.cores)
            case happened.PoolConfigured():
                return self._configure(Configuration.from_mapping(event.configuration))
            case happened.LimitsChanged():
                self.jobs.limits[self._index(event.job_class)] = (event.least, event.most)
            case happened.ModeChanged():
                self.mode = event.mode
            case happened.Solved():
                return self._install(event)
            case happened.SolveFailed():
                return self._give_up(event)
            case happened.Tick():
                return self._alert_of_late_moves()
            case _:
                return self._take_of_job(event)
        return []

    def _take_of_job(self, event: happened.Event) -> list[Instruction]:
        """Update the state by an event of a job; return alerts."""
        match event:
            case happened.JobArrived():
                self._add(event, event.time, 0)
            case happened.JobPresent():
                self._add(event, math.nan, event.held)
            case happened.JobFinished() | happened.JobEnded():
                return self._let_go(event)
            case happened.CoresHeld():
                return self._hold(event)
            case happened.MoveRefused():
                return self._refuse(event)
            case happened.Progress() | happened.RoundOverdue() | happened.ShortRounds():
                return self._take_rounds(event)
        return []

    def _add(self, event: happened.JobArrived | happened.JobPresent, arrived: float, held: int) -> None:
        i = self._index(event.job_class)
        job = self.jobs.add(event.job, i, arrived, event.least, event.most, held, event.time)
        self.tally.arrive(job.age, i, held, event.time, counted=not math.isnan(arrived))
        self.counters[i].open(counted=not math.isnan(arrived))
        if self.by_reports is not None:
            self.by_reports.arrive(job.name, event.job_class, event.time, held)
        end = self.early.pop(event.job, None)
        if end is not None and has_overtaken(end.time, event.time):
            self._let_go(end, max(end.time, event.time))

    def _let_go(self, event: JobEnd, at: float | None = None) -> list[Instruction]:
        """Remove a job, whose time in the pool ends `at`, by default the time of the event."""
        if event.job not in self.jobs.by_name:
            keep_latest(self.early, event.job, event)
            missing = f"no job {event.job!r} is there yet{nearest_job(event.job, self.jobs.by_name)}"
            return [Alert("job", f"{event.kind}: {missing} (it counts once its arrival is reported)")]
        finished = isinstance(event, happened.JobFinished)
        job = self.jobs.remove(event.job)
        if self.by_reports is not None:
            self.by_reports.jobs.leave(event.job, event.time, finished=finished)
        self.tally.leave(job.age, event.time if at is None else at, finished=finished)
        self.counters[job.job_class].close(event.time - job.arrived, finished=finished)
        self.alerted.discard(event.job)
        keep_latest(self.left, event.job, event.time)
        return []

    def _hold(self, event: happened.CoresHeld) -> list[Instruction]:
        job = self.jobs.by_name[event.job]
        if is_overtaken(event.time, job.held_at, self.options.lateness):
            return []
        before = job.held
        self.jobs.hold(job, event.cores, event.generation)
        job.held_at, job.assigned_at = event.time, self.time
        if self.mode == "watch":
            job.assigned = event.cores
        self.moving.report(job.job_class, event.paused)
        self.tally.hold(job.age, event.cores, event.time, event.paused)
        if self.by_reports is not None:
            self.by_reports.jobs.hold(job.name, event.cores, event.time)
        if job.held == job.assigned:
            self.alerted.discard(job.name)
        return self._alert_of_too_many_held(job, before)

    def _alert_of_too_many_held(self, job: PoolJob, before: int) -> list[Instruction]:
        """Alert that jobs hold more cores than the pool has, if they do since this job holds more.

        Not again within some time: a pool that is only watched may really have more.
        """
        if job.held <= before or self.time < self.overheld + _QUIET:
            return []
        held = sum(other.held for other in self.jobs.active)
        if held <= self.pool:
            return []
        self.overheld = self.time
        text = f"{held} cores are held, and the pool has {self.pool}"
        return [Alert("resize", f"{text}: job {job.name!r} reports that it holds {job.held}")]

    def _take_rounds(
        self, event: happened.Progress | happened.RoundOverdue | happened.ShortRounds
    ) -> list[Instruction]:
        """Count the progress and the durations of rounds."""
        job = self.jobs.by_name[event.job]
        match event:
            case happened.RoundOverdue():
                return [Alert("round", round_overdue(event))]
            case happened.ShortRounds():
                self.tally.marks.add_short(job.job_class, event.rounds, event.working, event.dispatching)
            case happened.Progress():
                self.tally.progress(job.age, event.amount, event.time)
                if self.by_reports is not None:
                    self.by_reports.jobs.progress(job.name, event.time, event.amount, event.fraction)
                self.counters[job.job_class].marks += event.amount
        return []

    def _refuse(self, event: happened.MoveRefused) -> list[Instruction]:
        """Record the cores that a job cannot hold, and alert."""
        job = self.jobs.by_name[event.job]
        self.jobs.refuse(job, event.cores, event.fits, event.generation, self.time, self.options.retry)
        return [Alert("resize", f"job {event.job!r} cannot hold {in_cores(event.cores)}: {event.why}")]

    @property
    def due(self) -> float:
        """The time of the next step without an event: a start to be retried; infinite if there is none."""
        return self.jobs.retry_at(self.time)

    def _index(self, name: str) -> int:
        return self.system.index(name)

    def _configure(self, new: Configuration) -> list[Instruction]:
        """Install another configuration; what was learned is carried over."""
        before, system = self.configuration, new.algorithm.system
        self.options = new.options.like(self.options)
        self._configure_reports()
        self.configuration = Configuration(new.algorithm, self.options)
        self.reconfigured += 1
        self.tally.lateness = self.options.lateness
        self.jobs.late_moves = self.options.late_moves
        same = [before.mapping[name] == new.mapping[name] for name in ("system", "recipe")]
        if all(same):
            return []
        old = self.system
        if old.cores != system.cores:
            self.pool = int(system.cores)
        self.jobs.change_classes(old, system)
        if self.by_reports is not None:
            self.by_reports.change_classes(system)
        self.moving = self.moving.on(old, system)
        self.tally.change_classes(system.names)
        counters = dict(zip(old.names, self.counters, strict=True))
        self.counters = [counters.get(name) or JobCounters() for name in system.names]
        self.answer, self.adopted = (_for_classes(one, old) for one in (self.answer, self.adopted))
        self.learner = self.learner.with_algorithm(new.algorithm)
        if self.estimates is not None:
            kept = {name: row for name, row in self.estimates.items() if name in system.names}
            self.estimates = FrozenMapping(kept)
        if self.adopted is None:
            self._policy = bind(Equi(), system)
        self._cores.clear()
        windows = self.learner.state.k
        return self._ask(f"{windows} for configuration {self.reconfigured}") if windows else []

    def _configure_reports(self) -> None:
        """Begin or cease to decide per job; jobs that are present are taken in as they are."""
        if self.options.decide != "jobs":
            self.by_reports = None
        elif self.by_reports is None:
            self.by_reports = self._by_reports()
            for job in self.jobs:
                self.by_reports.arrive(job.name, self.system.names[job.job_class], job.came, job.held)

    # --- instructions -------------------------------------------------------------------------------

    def _act(self) -> list[Instruction]:
        """Return the instructions to jobs that are to hold other cores from now on."""
        counts = self.jobs.counts
        given = self.given(counts)
        if self.mode == "watch":
            before = {job.name: job.target for job in self.jobs.active}
            self._aim(given)
            self.would_have_moved += sum(
                job.target not in {job.held, before.get(job.name, 0)} for job in self.jobs.active
            )
            return []
        if self.mode == "hold":
            self.jobs.keep(self.pool, self.time)
        else:
            self._aim(given)
        moved = self.jobs.moves(self.pool, self.time)
        reason = Reason(counts, given, self.policy_name, self.mode)
        return [SetCores(job.name, job.assigned, reason, job.generation) for job in moved]

    def _aim(self, given: tuple[int, ...]) -> None:
        """Set the target of every job: by reports, an equal share, or by the width rule where moves cost."""
        if self.by_reports is not None and self.by_reports.decided and not self._to_aim:
            return
        by_reports = None if self.by_reports is None else self._targets_by_reports(self.by_reports)
        if by_reports is not None:
            self.jobs.assign(by_reports)
        elif self.moving.free:
            self.jobs.aim(given, self.pool, self.time)
        else:
            kept = self.jobs.pinned
            left, pool = self.jobs.beside(kept, given, self.pool)
            jobs = [job for job in self.jobs if job.retry_at <= self.time and not job.pinned]
            limits = [self.jobs.bounds(job, pool) for job in jobs]
            plug_in = self.learner.state.plug_in
            targets = self.moving.targets(jobs, limits, self._policy, left, pool, plug_in) if pool else {}
            self.jobs.assign({**targets, **{job.name: job.held for job in kept}})

    def _follows(self, event: happened.Event) -> bool:
        """Return whether an event only says that a job holds what it was assigned."""
        if not isinstance(event, happened.CoresHeld) or event.job not in self.jobs.by_name:
            return False
        job = self.jobs.by_name[event.job]
        return job.held == job.assigned

    def _targets_by_reports(self, by_reports: ReportedJobs) -> dict[str, int] | None:
        """Return the cores of every job by what jobs report; None where none of the classes does.

        Jobs that have refused to give up cores keep them; one whose start was refused waits.
        """
        kept = {job.name: job.held for job in self.jobs.pinned}
        pool = max(self.pool - sum(kept.values()), 0)
        limits = {
            job.name: self.jobs.bounds(job, max(pool, 1))
            for job in self.jobs
            if job.retry_at <= self.time and job.name not in kept
        }
        targets = by_reports.targets(self.time, pool, limits, max(self.moving.pauses, default=0.0))
        return None if targets is None else targets | kept

    def given(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Return the whole cores of each class: what the policy gives it, or an equal share."""
        known = self._cores.get(counts)
        if known is None:
            if not any(counts):
                return counts
            self._cores[counts] = known = integer_allocation(
                self._policy, self.system.names, counts, self.pool
            )
        return known

    # --- learning -----------------------------------------------------------------------------------

    def inference_request(self) -> InferenceRequest:
        """Return the request to infer from all that was seen up to now, which a `Solved` answers."""
        marks = self.tally.marks
        return self.learner.request(
            marks.seen(),
            too_short=marks.too_short(),
            pauses=tuple(self.moving.pauses),
            cores=self.pool,
            min_departures=self.options.least_seen,
        )

    @property
    def evidence(self) -> Evidence:
        """What is known of the classes, by which the gate decides."""
        departures = self.learner.state.departures
        return Evidence(self.system.names, self.estimates, departures, self.options.least_seen)

    @property
    def reason(self) -> str:
        """Why EQUI or an earlier policy is in force, and which classes share equally; else nothing."""
        adopted, answer, evidence = self.adopted, self.answer, self.evidence
        if answer is None:
            return f"not adopted: {self._nothing_yet()}"
        refusal = evidence.refusal(self._classes_of(answer), answer.gain_over_equi)
        if adopted is None:
            return f"not adopted: {refusal}"
        kept = "" if answer == adopted else f"policy {adopted.request} stays: {refusal}"
        return "; ".join(filter(None, [kept, evidence.equal_shares(self.policy_classes)]))

    def _nothing_yet(self) -> str:
        """Return why no request was answered yet."""
        if self.request is not None:
            return f"request {self.request} to solve is not answered yet"
        if self.learner.state.k:
            return "no request to solve was answered"
        wanted = self.learner.wanted
        seen = f"{self.tally.departures} of {wanted} departures of the first window"
        waiting = self.tally.departures >= wanted
        return f"{seen}, and their jobs held cores for no time" if waiting else seen

    def _classes_of(self, answer: happened.Solved) -> Sequence[str]:
        """Return the classes that an answer is for."""
        return self.system.names if answer.classes is None else answer.classes

    def _learn(self) -> list[Instruction]:
        """Close a window if it is full, and request an inference from it."""
        if self.tally.departures < self.learner.wanted or not self.tally.learnable:
            return []
        self.learner.observe(self.tally.close())
        if self.request is not None:
            late, self.late = self.late, True
            text = f"no answer to request {self.request} within a window"
            return [] if late else [Alert("solve", text)]
        return self._ask(str(self.learner.state.k))

    def _resize(self, cores: int) -> list[Instruction]:
        """Set the cores of the pool: the policy is scaled to them, and one for them is requested."""
        self.pool = cores
        self._cores.clear()
        return self._ask_for_pool() if self.request is None else []

    def _ask_for_pool(self) -> list[Instruction]:
        """Request a policy for the cores of the pool, if the last request was for others."""
        windows = self.learner.state.k
        return (
            self._ask(f"{windows} for {self.pool} cores") if windows and self.pool != self.asked_for else []
        )

    def _ask(self, request: str) -> list[Instruction]:
        """Request an inference and a policy from all that was seen."""
        self.request, self.late, self.asked_for = request, False, self.pool
        return [Solve(request)]

    def _install(self, answer: happened.Solved) -> list[Instruction]:
        """Install an inference, and adopt the policy that was solved for if it passes the gate."""
        if self.request != answer.request:
            return []
        alerts = [] if answer.learned is None else self._infer(Inference.from_mapping(answer.learned))
        self.request, self.answer = None, answer
        improvement = ExpectedImprovement(answer.gain, answer.gain_over_equi, answer.in_force_over_equi)
        unknown = self.evidence.unknown_of_policy(self._classes_of(answer))
        match CautiousGate().decide(improvement, unknown):
            case "adopt":
                self._adopt(answer, self._policies(answer.policy))
            case "equi":
                self._adopt(None, Equi())
            case "keep":
                pass
        return [*alerts, *self._ask_for_pool()]

    def _adopt(self, answer: happened.Solved | None, policy: Policy) -> None:
        self._policy, self.adopted, self.since = rebind(policy, self.system), answer, self.time
        self._cores.clear()

    def _infer(self, inference: Inference) -> list[Instruction]:
        """Install an inference; return the alerts about it."""
        before = {} if self.estimates is None else self.estimates
        self.estimates = FrozenMapping({row.name: row for row in inference.classes})
        self.learner.install(inference)
        self.alarms = (*self.alarms, *inference.alarms)[-_KEPT:]
        latest_only = isinstance(self.learner.algorithm.memory, Latest)
        for i, name in enumerate(self.system.names):
            if latest_only or name in inference.changed:
                self.tally.marks.forget(i)
        return [
            Alert("progress", f"class {row.name}: {row.note}")
            for row in inference.classes
            for is_so in (attrgetter("contradicted"), attrgetter("too_short"))
            if is_so(row) and not (row.name in before and is_so(before[row.name]))
        ]

    def _give_up(self, answer: happened.SolveFailed) -> list[Instruction]:
        if self.request != answer.request:
            return []
        self.request = None
        text = f"request {answer.request} came to nothing, the policy stays: {answer.why}"
        return [Alert("solve", text), *self._ask_for_pool()]

    def _alert_of_late_events(self, before: int) -> list[Instruction]:
        """Alert of events that came too late to be learned from: the first, the tenth, the hundredth, …."""
        count, behind = self.tally.late, self.tally.behind
        if before and len(str(count)) == len(str(before)):
            return []
        events = "one event" if count == 1 else f"{count} events"
        text = f"{events} came too late to be learned from, the last one by {behind:.3g} s"
        return [Alert("time", f"{text}: dated before what counts already")]

    def _alert_of_late_moves(self) -> list[Instruction]:
        """Alert, once, of jobs that do not hold the cores they were assigned."""
        late = [
            job
            for job in self.jobs.active
            if (job.held != job.assigned or job.withdrawn)
            and self.time - job.assigned_at > self.options.patience
            and job.name not in self.alerted
        ]
        self.alerted.update(job.name for job in late)
        for job in self.jobs.active:
            job.forget_unanswered(self.time - 2.0 * self.options.patience)
        return [
            Alert(
                "resize",
                f"job {job.name!r} was told {in_cores(job.assigned)} and "
                + (
                    f"still holds {job.held}"
                    if job.held != job.assigned
                    else "has not said that it holds them"
                ),
            )
            for job in late
        ]


def _for_classes(answer: happened.Solved | None, system: System) -> happened.Solved | None:
    """Return an answer that names the classes it is for."""
    if answer is None or answer.classes is not None:
        return answer
    return replace(answer, classes=tuple(system.names))


def configuration_in(snapshot: bytes) -> Mapping[str, Any]:
    """Return the configuration that was in force when a snapshot was made, as plain values."""
    about, _ = unpacked("snapshot", snapshot, _FORMAT, _WHAT)
    with usable("snapshot", _WHAT):
        found = about["configuration"]
        if not isinstance(found, dict):
            raise InvalidFile(f"its configuration is {found!r}")
    return found


def _restored_learner(algorithm: Algorithm, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> Learner:
    """Return the learner of a snapshot; its memory comes first, then the windows behind it."""
    parts = unpacked_parts(about["memory"], arrays)
    taken, remembered = about["taken"], len(parts) - about["taken"] - about["new"]
    windows = tuple(part for part in parts[remembered:] if isinstance(part, Statistics))
    state = LearnerState(
        about["k"],
        about["departures"],
        about["observed"],
        system_from_mapping(about["estimated"], optional=RATES),
        system_from_mapping(about["believed"], optional=RATES),
        None,
        algorithm.memory.of_parts(parts[:remembered]),
    )
    return Learner(algorithm, state, windows[:taken], windows[taken:])


def _solved(values: Mapping[str, Any] | None) -> happened.Solved | None:
    if values is None:
        return None
    event = happened.event_from_mapping(values)
    assert isinstance(event, happened.Solved)
    return event


def _end(values: Mapping[str, Any]) -> JobEnd:
    event = happened.event_from_mapping(values)
    assert isinstance(event, JobEnd)
    return event
