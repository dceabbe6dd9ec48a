"""Advice: what a log says of its jobs, and what sharing the cores otherwise would have been worth.

One question, several stages of the loop: jobs and statistics are taken from the log, curves estimated, and
the same jobs run again under other policies and on other numbers of cores. What rests on the log has an
interval; what does not has its assumption beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from corewise.analysis.tractability import Tractability
from corewise.errors import BoxTooLarge, InvalidInput, NotConverged, UnstablePolicy, UnstableSystem, nearest
from corewise.estimation.estimates import Estimates
from corewise.estimation.residuals import goodness_of_fit
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.kit.progress import Progress
from corewise.model.job_class import JobClass
from corewise.model.sizes import Exponential
from corewise.model.speedup import Amdahl, SpeedUp
from corewise.model.system import System
from corewise.model.units import require_unit
from corewise.observation.observed import HasPath, path_of
from corewise.observation.sample_path import SamplePath
from corewise.policies.base import BoundPolicy, bind
from corewise.studies.advice.cautions import assumptions, warnings
from corewise.studies.advice.curves import (
    ASSUMED,
    ASSUMED_CURVE,
    ASSUMED_RANGE,
    FROM_LOG,
    FROM_TABLE,
    CurveFinding,
    curves_of_log,
    why_not_a_curve,
)
from corewise.studies.advice.logged_jobs import LoggedJobs, SizeDistribution
from corewise.studies.advice.outcomes import CoresNeeded, LogSimulations, PolicyOutcome
from corewise.studies.advice.replay import LogReplay
from corewise.studies.advice.results import Advice, ClassAdvice
from corewise.studies.advice.usage import Usage

__all__ = ["advise"]

_LEAST_DONE = 30
"""Jobs that must have come and been done for there to be anything to say."""

_MOST_JOBS = 100_000

_PER_JOB = "job-index"
"""The policy that goes by sizes, and not by counts of jobs alone."""

_MOST_PRESENT = 256
"""Jobs at once up to which every job is decided on by itself."""

_OUT_OF_REACH = (BoxTooLarge, NotConverged, UnstablePolicy, UnstableSystem)
"""Errors that leave one question without an answer, and the others as they are."""


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
    path = whole.recent(_MOST_JOBS)
    jobs = every if path is whole else LoggedJobs.of(path)
    _require_done(jobs)
    _tell(progress, 0.1)
    findings, estimates, unfitted = _findings(path, jobs, measured, generator)
    _tell(progress, 0.4)
    work = jobs.work([finding.curve for finding in findings])
    distributions = [_size_distribution(finding) for finding in findings]
    system = replace(_system(path, jobs, findings, work, distributions), unit=unit)
    fits = goodness_of_fit(path, unfitted, estimates)
    usage = Usage.of(whole, every, every.work([finding.curve for finding in findings]))
    replay = LogReplay.of(jobs, distributions, most=_MOST_JOBS, seed=int(generator.integers(2**32)))
    _tell(progress, 0.5)
    outcomes = LogSimulations(system, replay, findings)
    rows, policies, notes = _compared(outcomes, system, progress)
    best = min(rows, key=lambda row: row.mean).name
    # Made anew for every number of cores, and also where they are too few to keep up: no optimum would do.
    try:
        busy = usage.utilisation * usage.cores
        needed = outcomes.cores_needed("equi" if best == "equi" else "whittle", rows[0].mean, busy)
    except _OUT_OF_REACH as error:
        needed = CoresNeeded.unanswered("equi" if best == "equi" else "whittle", rows[0].mean)
        notes.append(f"how many cores are needed, and what one more is worth, cannot be determined: {error}")
    if needed.answered and needed.cores is None:
        notes.append(f"cores needed: {needed.most_tried} under {needed.label} are not enough either")
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
        policies["whittle" if best in ("log", _PER_JOB) else best],
        needed,
        (*warnings(path, classes, jobs), *notes),
        assumptions(jobs, every, classes),
        unit,
    )


def _tell(progress: Progress | None, share: float) -> None:
    if progress is not None:
        progress(share)


def _require_enough(path: SamplePath) -> None:
    if len(path.names) < 2:
        raise InvalidInput(
            f"the log has one class, {path.names[0]!r}: there is no other to share cores with; "
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
    measured: Mapping[str, SpeedUp],
    rng: np.random.Generator,
) -> tuple[list[CurveFinding], Estimates, System]:
    """Return the curve of each class, all estimates, and the system that these are for."""
    unknown = System(path.pool, [JobClass(name, speedup=Amdahl(0.5)) for name in path.names])
    found = curves_of_log(path, unknown, rng)
    findings = []
    for name, table, history in zip(path.names, path.statistics.classes, jobs.histories, strict=True):
        estimated, likely, ends, weights = found[name]
        reason, curve = why_not_a_curve(table, history, estimated), found[name].mean
        if not reason and curve is not None:
            finding = CurveFinding(name, curve, FROM_LOG, "", estimated, likely, ends, weights)
        elif name in measured:
            finding = CurveFinding(name, measured[name], FROM_TABLE, reason, estimated, (), (), {})
        else:
            finding = CurveFinding(name, ASSUMED_CURVE, ASSUMED, reason, estimated, (), ASSUMED_RANGE, {})
        findings.append(finding)
    estimates = Estimates(FrozenMapping({name: found[name].estimate for name in path.names}))
    return findings, estimates, unknown


def _size_distribution(finding: CurveFinding) -> SizeDistribution:
    found = finding.estimate.size_law if finding.informative and finding.estimate else None
    return found or Exponential()


def _system(
    path: SamplePath,
    jobs: LoggedJobs,
    findings: list[CurveFinding],
    work: Floats,
    distributions: list[SizeDistribution],
) -> System:
    """Return the pool as it was found: departures over work done are the size rate.

    A class of which no job came, or was done, counts as if one had; one that did no work has the size rate of
    all classes together.
    """
    classes = []
    ended = ~jobs.failed & ~jobs.unfinished
    for i, (finding, sizes) in enumerate(zip(findings, distributions, strict=True)):
        own = jobs.which == i
        came, done = max(int((own & ~jobs.before).sum()), 1), max(int((own & ended).sum()), 1)
        amount = float(work[own].sum())
        size_rate = done / amount if amount > 0.0 else int(ended.sum()) / float(work.sum())
        classes.append(JobClass(finding.name, came / path.duration, size_rate, finding.curve, sizes=sizes))
    return System(path.pool, classes)


def _sizes_differ(findings: Sequence[CurveFinding]) -> bool:
    """Return whether the sizes of some class are not exponential for sure, by their dispersion."""
    known = [finding.estimate for finding in findings if finding.informative and finding.estimate]
    intervals = [found.dispersion.interval for found in known if found.dispersion]
    return any(not low <= 1.0 <= high for low, high in intervals)


def _compared(
    outcomes: LogSimulations, system: System, progress: Progress | None
) -> tuple[tuple[PolicyOutcome, ...], dict[str, BoundPolicy], list[str]]:
    """Return what the log and the policies achieved, the policies, and what could not be compared."""
    notes, names = [], ["equi", "whittle"]
    plain = system.as_memoryless()
    if system.load >= 1.0:
        notes.append(
            f"the work that came is {system.load:.2f} times what all cores can do: queues grow as long as it "
            f"lasts, and all means are of this log alone"
        )
    elif Tractability.of(plain).exact:
        names.append("optimal")
    else:
        obstacle = Tractability.of(plain).obstacle
        notes.append(f"the optimum for {obstacle} is out of reach: Whittle stands for it")
    if _sizes_differ(outcomes.findings):
        present = outcomes.replay.most_present
        if present <= _MOST_PRESENT:
            names.append(_PER_JOB)
        else:
            notes.append(
                f"{_PER_JOB} is left out of the comparison: up to {present:,} jobs were there at once"
            )
    policies: dict[str, BoundPolicy] = {}
    rows = [outcomes.of_log()]
    for k, name in enumerate(names, start=1):
        try:
            policies[name] = bind(name, system if name == _PER_JOB else plain)
            rows.append(outcomes.of(name, policies[name]))
        except _OUT_OF_REACH as error:
            notes.append(f"{name} is left out of the comparison: {error}")
        _tell(progress, 0.5 + 0.4 * k / len(names))
    return tuple(rows), policies, notes
