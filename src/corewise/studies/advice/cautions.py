"""Warnings and assumptions of advice, with classes of which the same is true named together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from corewise.observation.sample_path import SamplePath
from corewise.studies.advice.curves import (
    ASSUMED,
    ASSUMED_CURVE,
    ASSUMED_RANGE,
    FROM_LOG,
    FROM_TABLE,
    RIGID,
    resized_share,
)
from corewise.studies.advice.logged_jobs import LoggedJobs
from corewise.studies.advice.results import DOUBTFUL, ClassAdvice

__all__ = ["assumptions", "listed", "warnings"]

_FEW = 100  # jobs of a class, below which its size distribution and curve are a guess
_MOST_NAMES, _FIRST_NAMES = 10, 8  # classes of which the same is said: all of them, or the first


def warnings(path: SamplePath, classes: tuple[ClassAdvice, ...], jobs: LoggedJobs) -> list[str]:
    """Return what a reader must know before relying on advice; classes of which the same is true together."""
    largest = sorted(classes, key=lambda row: -row.usage.jobs)
    lines = [*_about_curves(largest), *_about_few(largest)]
    if any(resized_share(history) < RIGID for history in jobs.histories):
        lines.append("jobs kept their cores while they ran: that they could be resized is taken for granted")
    failed = float(jobs.failed.mean())
    if failed > 0.2:
        lines.append(f"{failed:.0%} of the jobs failed or were cancelled: they run for the work they did")
    quick = int(np.count_nonzero(jobs.quick))
    if quick:
        lines.append(
            f"{quick} jobs waited and were then done in no time of the log's clock: their work is none"
        )
    peak = float(path.total_cores()[1].max())
    if path.pool > 4.0 * peak:
        lines.append(f"at most {peak:g} of the {path.pool:g} cores were ever held at once")
    return lines


def assumptions(jobs: LoggedJobs, every: LoggedJobs, classes: tuple[ClassAdvice, ...]) -> tuple[str, ...]:
    """Return the assumptions."""
    lines = [
        "The same jobs come at the same times, whatever the policy.",
        "Cores can be given out in fractions and taken back at no cost; whole cores and pauses cost some.",
        "Within a class, cores are shared equally.",
        "A job that failed would fail after the same work; its time is not counted.",
    ]
    if jobs.time.size < every.time.size:
        lines.append(
            f"Curves and policies are from the last {jobs.time.size:,} of {every.time.size:,} jobs; "
            f"what was observed is of all."
        )
    if any(row.curve.source == FROM_TABLE for row in classes):
        lines.append("Measured curves are taken as exact.")
    return tuple(lines)


def listed(names: Sequence[str]) -> str:
    """Return names in a row, the first few of them if they are many."""
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:_FIRST_NAMES])} and {len(names) - _FIRST_NAMES} more"


def _about_few(classes: Sequence[ClassAdvice]) -> Iterator[str]:
    """Yield which classes have so few jobs that their sizes and curves are a guess."""
    few = [row for row in classes if row.usage.done < _FEW]
    if len(few) == 1:
        yield f"{few[0].name}: only {few[0].usage.done} jobs were done"
    elif few:
        names = listed([f"{row.name} ({row.usage.done})" for row in few])
        yield f"{len(few)} classes have fewer than {_FEW} jobs that were done: {names}"


def _about_curves(classes: Sequence[ClassAdvice]) -> Iterator[str]:
    """Yield where curves do not come from the log, and where jobs do not follow them."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    doubtful: dict[str, float] = {}
    for row in classes:
        if row.curve.source != FROM_LOG:
            by_reason.setdefault((row.curve.source, row.curve.reason), []).append(row.name)
        elif row.fit is not None and row.fit.p_values.get("widths", 1.0) < DOUBTFUL:
            doubtful[row.name] = row.fit.p_values["widths"]
    if doubtful:
        one, names = len(doubtful) == 1, listed(list(doubtful))
        p = f"p = {min(doubtful.values()):.1g}" + ("" if one else " or more")
        predicted = "its curve predicts" if one else "their curves predict"
        yield (
            f"{names}: jobs do not leave at the widths that {predicted} ({p}): the curve has another shape, "
            f"or resizing takes time"
        )
    for (source, reason), names_of_reason in by_reason.items():
        whose = f"{listed(names_of_reason)}: "
        if source == ASSUMED:
            yield f"{whose}the log does not tell {_their(names_of_reason, 'curve')} ({reason})"
        else:
            verb = "is" if len(names_of_reason) == 1 else "are"
            yield f"{whose}{_their(names_of_reason, 'curve')} {verb} as measured ({reason})"
    if any(source == ASSUMED for source, _ in by_reason):
        low, high = (curve.p for curve in ASSUMED_RANGE)
        yield (
            f"where the log does not tell the curve, Amdahl's law with p = {ASSUMED_CURVE.p:g} is assumed, "
            f"and ranges are for p from {low:g} to {high:g}"
        )


def _their(names: Sequence[str], what: str) -> str:
    return f"its {what}" if len(names) == 1 else f"their {what}s"
