"""What a reader of advice must know before relying on it, and what is taken to be so."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corewise.model.speedup import Amdahl
from corewise.observation.log_classes import cores_held
from corewise.observation.sample_path import SamplePath
from corewise.studies.advice.curves import ASSUMED, FROM_LOG, FROM_TABLE, RIGID, resized_share
from corewise.studies.advice.logged_jobs import LoggedJobs
from corewise.studies.advice.results import ClassAdvice

__all__ = ["ASSUMED_CURVE", "DOUBTFUL", "assumptions", "warnings"]

ASSUMED_CURVE = Amdahl(0.9)
"""What is assumed of a curve that nobody knows."""

_FEW = 100  # jobs of a class, below which its size law and curve are a guess
DOUBTFUL = 0.0025
"""What a single test of four must be below for all together to be doubtful."""


def warnings(path: SamplePath, classes: tuple[ClassAdvice, ...], jobs: LoggedJobs) -> list[str]:
    """Return what a reader must know before relying on advice; classes of which the same is true together."""
    told = [*_about_curves(classes)]
    for row in classes:
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


def assumptions(jobs: LoggedJobs, every: LoggedJobs, classes: tuple[ClassAdvice, ...]) -> tuple[str, ...]:
    """Return what is taken to be so."""
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


def _about_curves(classes: tuple[ClassAdvice, ...]) -> Iterator[str]:
    """Yield where curves do not come from the log, and where jobs do not follow them."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for row in classes:
        if row.curve.source != FROM_LOG:
            by_reason.setdefault((row.curve.source, row.curve.reason), []).append(row.name)
        elif row.fit is not None and row.fit.p_values.get("widths", 1.0) < DOUBTFUL:
            yield (
                f"{row.name}: jobs do not leave at the widths that its curve foretells "
                f"(p = {row.fit.p_values['widths']:.1g}): the curve has another shape, or resizing takes time"
            )
    for (source, reason), names in by_reason.items():
        if source == ASSUMED:
            yield (
                f"{', '.join(names)}: the log does not tell {_their(names, 'curve')} ({reason}); Amdahl's "
                f"law with p = {ASSUMED_CURVE.p:g} is assumed, and p from 0.5 to 0.99 is what intervals "
                f"allow for"
            )
        else:
            is_measured = f"{_their(names, 'curve')} {'is' if len(names) == 1 else 'are'} as measured"
            yield f"{', '.join(names)}: {is_measured} ({reason})"


def _their(names: list[str], what: str) -> str:
    return f"its {what}" if len(names) == 1 else f"their {what}s"
