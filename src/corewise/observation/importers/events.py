"""Events of jobs in order of time: stretches become arrivals, resizes, departures and cancellations.

A job arrives when it is submitted, with no cores until it starts. Its rows of one instant come in the order
in which they can happen: kinds of events are put one after another, and sorted by time without changing the
order of equals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Bools, Floats, Ints
from corewise.observation.importers.outcomes import Outcome
from corewise.observation.importers.stretches import Stretches
from corewise.observation.rows import Event

__all__ = ["Timeline", "Window", "timeline_of"]

_DIGITS = 15  # of a time: so many are read back as they were written
_MOST_DECIMALS = 9


@dataclass(frozen=True)
class Window:
    """Window of observation in seconds, and the length of the unit that times are written in."""

    opens: float
    closes: float
    unit: float

    @property
    def decimals(self) -> int:
        """How many decimals times have."""
        whole = len(str(int((self.closes - self.opens) / self.unit)))
        return max(0, min(_MOST_DECIMALS, _DIGITS - whole))


@dataclass(frozen=True, eq=False)
class Timeline:
    """Events in order of time.

    Attributes
    ----------
    ticks : ndarray of int
        When, in units of 10^−decimals since the observation opened.
    kind : ndarray of int8
        What, an `Event`.
    job : ndarray of int
        Whose, −1 for nobody.
    cores : ndarray
        What the job holds from then on, NaN where it leaves.
    """

    ticks: Ints
    kind: NDArray[np.int8]
    job: Ints
    cores: Floats


def timeline_of(seen: Stretches, job: Ints, window: Window) -> Timeline:
    """Return the events of stretches; `job` is the number of each one's job, −1 if it is left out."""
    opens, closes = window.opens, window.closes
    first, last = seen.first & (job >= 0), seen.last & (job >= 0)
    held = ~np.isnan(seen.start) & (job >= 0) & (seen.start <= closes)
    # A stretch that is over before the observation opens does not count; of one that is not, the rest does.
    held &= ~(seen.end <= opens) | (seen.start >= opens)
    begins = np.maximum(seen.start, opens)
    arrives = np.maximum(_of_first(seen.arrival, seen.first), opens)
    at_once = held & (begins == arrives)
    follows = np.append(held[1:] & ~seen.first[1:] & (seen.start[1:] == seen.end[:-1]), False)[: held.size]
    leaves_at = np.fmax(np.where(np.isnan(seen.end), -np.inf, seen.end), _of_first(seen.arrival, seen.first))
    over = np.isin(seen.outcome, (Outcome.DONE, Outcome.UNFINISHED))
    still = seen.end == seen.start
    parts = [_edge(Event.START, opens)]
    there = _of_first(seen.arrival, seen.first) < opens
    opening = _held_at_once(seen, at_once)
    for kind, some in ((Event.PRESENT, first & there), (Event.ARRIVAL, first & ~there)):
        parts.append(_rows(kind, job[some], arrives[some], opening[some]))
    gap = held & ~seen.last & ~follows & ~still & (seen.end <= closes)
    parts.append(_rows(Event.RESIZE, job[gap], seen.end[gap], np.zeros(int(gap.sum()))))
    grows = held & ~at_once & ~(still & ~seen.last)
    parts.append(_rows(Event.RESIZE, job[grows], begins[grows], seen.cores[grows]))
    ends = last & over & (leaves_at <= closes)
    kinds = np.where(seen.outcome[ends] == Outcome.DONE, Event.DEPARTURE, Event.CANCEL)
    parts.append(_rows(kinds, job[ends], leaves_at[ends], np.full(int(ends.sum()), np.nan)))
    parts.append(_edge(Event.END, closes))
    return _sorted(parts, window)


Part = tuple[NDArray[np.int8], Ints, Floats, Floats]


def _rows(kind: Event | Ints, job: Ints, at: Floats, cores: Floats) -> Part:
    return np.broadcast_to(np.asarray(kind, dtype=np.int8), job.shape), job, at, cores


def _edge(kind: Event, at: float) -> Part:
    return _rows(kind, np.array([-1]), np.array([at]), np.array([np.nan]))


def _of_first(values: Floats, first: Bools) -> Floats:
    """Return for each stretch the value of the first one of its job."""
    return np.asarray(values[first][np.cumsum(first) - 1]) if first.any() else values


def _held_at_once(seen: Stretches, at_once: Bools) -> Floats:
    """Return what a job holds when it arrives, at its first stretch: that of whichever begins then."""
    opening = np.zeros(seen.row.size)
    opens = np.flatnonzero(seen.first)
    which = np.flatnonzero(at_once)
    opening[opens[np.cumsum(seen.first)[which] - 1]] = seen.cores[which]  # the last of them counts
    return opening


def _sorted(parts: list[Part], window: Window) -> Timeline:
    scale = 10.0**window.decimals / window.unit
    ticks = np.concatenate([np.rint((at - window.opens) * scale).astype(np.int64) for _, _, at, _ in parts])
    # The end comes last of its instant, whatever else happens then.
    order = np.argsort(ticks, kind="stable")
    kind = np.concatenate([part[0] for part in parts])[order]
    job = np.concatenate([part[1] for part in parts])[order]
    cores = np.concatenate([part[3] for part in parts])[order]
    return Timeline(ticks[order], kind, job, cores)
