"""Advice: what a log says of its jobs, and what sharing the cores otherwise would have been worth.

One question, several arcs of the ring: jobs and statistics are taken from the log, curves estimated, and the
same jobs run again under other policies and on other numbers of cores. What rests on the log has an interval;
what does not has its assumption beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from corewise.analysis.reach import Reach
from corewise.errors import InvalidInput, nearest
from corewise.estimation.estimates import Estimates
from corewise.estimation.residuals import GoodnessOfFit, goodness_of_fit
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.display import Shown, Table
from corewise.kit.frozen import FrozenMapping
from corewise.kit.progress import Progress
from corewise.kit.spoken import of_time
from corewise.model.sizes import Exponential
from corewise.model.speedup import Amdahl, SpeedUp
from corewise.model.system import JobClass, System
from corewise.model.units import require_unit
from corewise.observation.log_classes import cores_held
from corewise.observation.observed import HasPath, path_of
from corewise.observation.recent import recent_part
from corewise.observation.sample_path import SamplePath
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, bind
from corewise.studies.advice.curves import (
    ASSUMED,
    FROM_LOG,
    FROM_TABLE,
    RIGID,
    CurveFinding,
    curves_of_log,
    resized_share,
    why_not_a_curve,
)
from corewise.studies.advice.logged_jobs import Law, LoggedJobs
from corewise.studies.advice.outcomes import CoresNeeded, Outcome, Outcomes
from corewise.studies.advice.replay import Replay
from corewise.studies.advice.usage import ClassUsage, Usage

__all__ = ["Advice", "ClassAdvice", "advise"]

_LEAST_DONE = 30
"""Jobs that must have come and been done for there to be anything to say."""

_ASSUMED = Amdahl(0.9)
_RANGE: tuple[SpeedUp, ...] = (Amdahl(0.5), Amdahl(0.99))
"""What is assumed of a curve that nobody knows, and the ends of what it may be."""

_MOST_JOBS = 100_000
_FEW = 100  # jobs of a class, below which its size law and curve are a guess


@dataclass(frozen=True, eq=False, repr=False)
class ClassAdvice(Shown):
    """What a log says of one class.

    Attributes
    ----------
    name : str
        The class.
    usage : ClassUsage
        What was seen of it.
    curve : CurveFinding
        Its curve, and how sure that is.
    fit : GoodnessOfFit or None
        Whether it follows the model; None if its curve is not from the log.
    """

    _shown = ("name", "usage", "curve")

    name: str
    usage: ClassUsage
    curve: CurveFinding
    fit: GoodnessOfFit | None

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation of its sizes, NaN if not known."""
        spread = self.curve.estimate.dispersion if self.curve.estimate else None
        return spread.value if spread else self.usage.cv2


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Shown):
    """Advice from a log.

    Attributes
    ----------
    system : System
        The pool with its classes as they were found, to go on with.
    usage : Usage
        What was observed over time.
    classes : tuple of ClassAdvice
        What was found of each class.
    outcomes : tuple of Outcome
        Mean response times of the policies on the same jobs, that of the log first.
    best : str
        The policy to go on with.
    policy : BoundPolicy
        The same, made for the system.
    cores : CoresNeeded
        How many cores meet the response time had in the log, and what one more is worth.
    warnings : tuple of str
        What a reader must know before relying on it.
    assumptions : tuple of str
        What is taken to be so.
    unit : str or None
        What times are in, if that was said.
    """

    _shown = ("best", "outcomes", "warnings")

    system: System
    usage: Usage
    classes: tuple[ClassAdvice, ...]
    outcomes: tuple[Outcome, ...]
    best: str
    policy: BoundPolicy
    cores: CoresNeeded
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    unit: str | None

    def __getitem__(self, policy: str) -> Outcome:
        """Return the outcome of a policy by name."""
        for row in self.outcomes:
            if row.name == policy:
                return row
        raise KeyError(policy)

    @property
    def times_in(self) -> str:
        """What to say behind a time."""
        return self.unit or "units of time"

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        row = self[self.best]
        low, high = row.gain_interval
        rests = " It rests on curves that were assumed." if row.gains_at_ends else ""
        if self.best == "log":
            return "No other policy would clearly have been better on these jobs."
        if low > 0.0:
            sure = f"{row.gain:.0%} less time in the system, between {low:.0%} and {high:.0%} (95 %)"
            return f"Sharing by {row.label} would have paid: {sure}.{rests}"
        return (
            f"Sharing by {row.label} may have paid: {row.gain:.0%} less time in the system, "
            f"but anything from {low:.0%} to {high:.0%} is possible (95 %).{rests}"
        )

    def __str__(self) -> str:
        """Return the verdict and the policies."""
        rows = [
            f"  {row.name}: {row.mean:.6g}{of_time(self.unit)} "
            f"({row.interval[0]:.6g} to {row.interval[1]:.6g})"
            for row in self.outcomes
        ]
        return "\n".join([self.verdict, *rows, *self.warnings])

    def _table(self) -> Table:
        rows = ((row.name, row.mean, row.interval, row.gain) for row in self.outcomes)
        return Table(("policy", "mean response time", "interval", "gain"), rows)


def advise(
    log: SamplePath | HasPath,
    *,
    throughput: Mapping[str, SpeedUp] | None = None,
    unit: str | None = None,
    rng: np.random.Generator | int | None = 0,
    progress: Progress | None = None,
) -> Advice:
    """Return advice from a log: what was seen, what other policies would have done, and how sure that is.

    Parameters
    ----------
    log : SamplePath, EventLog or Run
        The log; its pool is the number of cores. Every job needs a name.
    throughput : mapping, optional
        Curves that were measured, by class; they are used wherever the log cannot tell.
    unit : str, optional
        What the times of the log are in, such as ``"hours"``; the system that is found has it too.
    rng : Generator or int, optional
        For the likely curves that are drawn, and for what is left of jobs that are there at the end.
    progress : callable, optional
        Called now and then with the share of the work that is done.

    Raises
    ------
    InvalidInput
        If there is only one class, or hardly a job was done.
    """
    if unit is not None:
        require_unit(unit)
    whole = path_of(log)
    _require_enough(whole)
    measured = _measured(throughput or {}, whole.names)
    generator = np.random.default_rng(rng)
    every = LoggedJobs.of(whole)
    _require_done(every)
    path = recent_part(whole, _MOST_JOBS)
    jobs = every if path is whole else LoggedJobs.of(path)
    _require_done(jobs)
    statistics = Statistics.of(path)
    _tell(progress, 0.1)
    findings, estimates, unfitted = _findings(path, jobs, statistics, measured, generator)
    _tell(progress, 0.4)
    work = jobs.work([finding.curve for finding in findings])
    laws = [_law(finding) for finding in findings]
    system = replace(_system(path, jobs, findings, work, laws), unit=unit)
    fits = goodness_of_fit(path, unfitted, estimates, statistics=statistics)
    usage = Usage.of(whole, every, every.work([finding.curve for finding in findings]))
    replay = Replay.of(jobs, laws, most=_MOST_JOBS, seed=int(generator.integers(2**32)))
    _tell(progress, 0.5)
    outcomes = Outcomes(system, replay, findings)
    rows, policies, notes = _compared(outcomes, system, progress)
    best = min(rows, key=lambda row: row.mean).name
    # Made anew for every number of cores, and also where they are too few to keep up: no optimum would do.
    needed = outcomes.cores_needed("equi" if best == "equi" else "whittle", rows[0].mean)
    _tell(progress, 1.0)
    classes = tuple(
        ClassAdvice(name, usage.classes[i], findings[i], fits.get(name) if findings[i].informative else None)
        for i, name in enumerate(path.names)
    )
    return Advice(
        system,
        usage,
        classes,
        rows,
        best,
        policies["whittle" if best in ("log", "residual") else best],
        needed,
        (*_warnings(path, classes, jobs), *notes),
        _assumptions(jobs, every, classes),
        unit,
    )


def _tell(progress: Progress | None, share: float) -> None:
    if progress is not None:
        progress(share)


def _require_enough(path: SamplePath) -> None:
    if len(path.names) < 2:
        raise InvalidInput(
            f"the log has one class, {path.names[0]!r}: there is nobody to share cores with; "
            f"corewise estimate and corewise plan take one class"
        )
    if path.duration <= 0.0:
        raise InvalidInput("all of the log happens at one instant")


def _require_done(jobs: LoggedJobs) -> None:
    done, failed = int(jobs.counted.sum()), int(jobs.failed.sum())
    if done < _LEAST_DONE:
        undone = f" ({failed} failed or were cancelled)" if failed else ""
        raise InvalidInput(
            f"{done} of {jobs.time.size} jobs of the log came and were done{undone}: "
            f"advice needs at least {_LEAST_DONE}"
        )


def _measured(given: Mapping[str, SpeedUp], names: tuple[str, ...]) -> Mapping[str, SpeedUp]:
    for name, curve in given.items():
        if name not in names:
            raise InvalidInput(
                f"throughput of an unknown class {checks.shown(name)}{nearest(str(name), list(names))}"
            )
        if not isinstance(curve, SpeedUp):
            raise InvalidInput(
                f"the throughput of {name!r} must be a SpeedUp curve, got {checks.shown(curve)}"
            )
    return given


def _findings(
    path: SamplePath,
    jobs: LoggedJobs,
    statistics: Statistics,
    measured: Mapping[str, SpeedUp],
    rng: np.random.Generator,
) -> tuple[list[CurveFinding], Estimates, System]:
    """Return the curve of each class, all estimates, and the system that these are for."""
    unknown = System(path.pool, [JobClass(name, speedup=Amdahl(0.5)) for name in path.names])
    found = curves_of_log(path, statistics, unknown, rng)
    findings = []
    for name, table, history in zip(path.names, statistics.classes, jobs.histories, strict=True):
        estimated, likely, ends, weights = found[name]
        reason, curve = why_not_a_curve(table, history, estimated), found[name].mean
        if not reason and curve is not None:
            finding = CurveFinding(name, curve, FROM_LOG, "", estimated, likely, ends, weights)
        elif name in measured:
            finding = CurveFinding(name, measured[name], FROM_TABLE, reason, estimated, (), (), {})
        else:
            finding = CurveFinding(name, _ASSUMED, ASSUMED, reason, estimated, (), _RANGE, {})
        findings.append(finding)
    estimates = Estimates(FrozenMapping({name: found[name].estimate for name in path.names}))
    return findings, estimates, unknown


def _law(finding: CurveFinding) -> Law:
    law = finding.estimate.size_law if finding.informative and finding.estimate else None
    return law or Exponential()


def _system(
    path: SamplePath, jobs: LoggedJobs, findings: list[CurveFinding], work: Floats, laws: list[Law]
) -> System:
    """Return the pool as it was found: departures over work done are the size rate."""
    classes = []
    for i, (finding, law) in enumerate(zip(findings, laws, strict=True)):
        own = jobs.which == i
        came, done = int((own & ~jobs.before).sum()), int((own & ~jobs.failed & ~jobs.unfinished).sum())
        if not came or not done:
            raise InvalidInput(
                f"no job of class {finding.name!r} {'came' if not came else 'was done'}: leave the class out"
            )
        size_rate = done / float(work[own].sum())
        classes.append(JobClass(finding.name, came / path.duration, size_rate, finding.curve, sizes=law))
    return System(path.pool, classes)


def _compared(
    outcomes: Outcomes, system: System, progress: Progress | None
) -> tuple[tuple[Outcome, ...], dict[str, BoundPolicy], list[str]]:
    """Return what the log and the policies achieved, the policies, and what could not be compared."""
    notes, names = [], ["equi", "whittle"]
    plain = system.as_memoryless()
    if system.load >= 1.0:
        notes.append(
            f"the work that came is {system.load:.2f} times what all cores can do: queues grow as long as it "
            f"lasts, and all means are of this log alone"
        )
    elif Reach.of(plain).exact:
        names.append("optimal")
    else:
        notes.append(f"the optimum for {Reach.of(plain).obstacle} is out of reach: Whittle stands for it")
    policies = {name: bind(name, plain) for name in names}
    if outcomes.crowded and not system.memoryless:
        policies["residual"] = bind("residual", system)
    rows = [outcomes.of_log()]
    for k, (name, policy) in enumerate(policies.items(), start=1):
        rows.append(outcomes.of(name, policy))
        _tell(progress, 0.5 + 0.4 * k / len(policies))
    return tuple(rows), policies, notes


def _warnings(path: SamplePath, classes: tuple[ClassAdvice, ...], jobs: LoggedJobs) -> list[str]:
    told = []
    for row in classes:
        if row.curve.source == ASSUMED:
            told.append(
                f"{row.name}: the log does not tell its curve ({row.curve.reason}); Amdahl's law with p = "
                f"{_ASSUMED.p:g} is assumed, and p from 0.5 to 0.99 is what intervals allow for"
            )
        elif row.curve.source == FROM_TABLE:
            told.append(f"{row.name}: its curve is the measured one ({row.curve.reason})")
        elif row.fit is not None and row.fit.p_values.get("widths", 1.0) < 0.0025:
            told.append(
                f"{row.name}: jobs do not leave at the widths that its curve foretells "
                f"(p = {row.fit.p_values['widths']:.1g}): the curve has another shape, or resizing takes time"
            )
        if row.usage.done < _FEW:
            told.append(f"{row.name}: only {row.usage.done} jobs were done")
    if any(resized_share(history) < RIGID for history in jobs.histories):
        told.append("jobs kept their cores while they ran: that they could be resized is taken for granted")
    failed = float(jobs.failed.mean())
    if failed > 0.2:
        told.append(f"{failed:.0%} of the jobs failed or were cancelled: they run for the work they did")
    quick = int(np.count_nonzero(jobs.quick))
    if quick:
        told.append(
            f"{quick} jobs waited and were then done in no time of the log's clock: their work is none"
        )
    peak = float(cores_held(path)[1].max())
    if path.pool > 4.0 * peak:
        told.append(f"at most {peak:g} of the {path.pool:g} cores were ever held at once")
    return told


def _assumptions(jobs: LoggedJobs, every: LoggedJobs, classes: tuple[ClassAdvice, ...]) -> tuple[str, ...]:
    told = [
        "The same jobs come at the same times, whatever the policy.",
        "Cores can be given out in fractions and taken back at no cost; whole cores and pauses cost some.",
        "Within a class, cores are shared equally.",
        "A job that failed would fail after the same work; its time is not counted.",
    ]
    if jobs.time.size < every.time.size:
        told.append(
            f"Curves and policies are from the last {jobs.time.size:,} of {every.time.size:,} jobs; "
            f"what was observed is of all."
        )
    if any(row.curve.source == FROM_TABLE for row in classes):
        told.append("Measured curves are taken as exact.")
    return tuple(told)
