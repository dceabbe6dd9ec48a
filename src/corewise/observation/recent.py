"""The last part of a record, as a record of its own: what was there at its beginning is present."""

from __future__ import annotations

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats, Ints
from corewise.observation.rows import NOBODY, STEPS, Event, dense
from corewise.observation.sample_path import SamplePath

__all__ = ["recent_part"]


def recent_part(path: SamplePath, jobs: int) -> SamplePath:
    """Return the record from about the arrival of the last so many jobs on; all of it if it has no more.

    It opens at the instant before, with the jobs that are there then. All jobs need numbers.
    """
    comes = np.flatnonzero(path.event == Event.ARRIVAL)
    if comes.size <= jobs:
        return path
    moves = np.flatnonzero(STEPS[path.event])
    if np.any(path.job[moves] == NOBODY):
        raise InvalidInput("a part of a record needs the number of every job")
    cut = int(
        np.searchsorted(path.time, path.time[comes[-jobs]], side="left")
    )  # rows of one instant stay together
    if cut == 0:
        return path
    job_class, job, cores = _present(path, moves[moves < cut], cut)
    opening = job.size + 1
    time = np.concatenate([np.full(opening, path.time[cut - 1]), path.time[cut:]])
    event = np.concatenate([[Event.START], np.full(job.size, Event.PRESENT), path.event[cut:]]).astype(
        np.int8
    )
    held = cores if path.per_job else np.zeros((opening, path.cores.shape[1]))
    if not path.per_job:
        held[-1] = path.cores[cut - 1]  # what is on the way to it is held for no time
    return SamplePath(
        path.names,
        path.pool,
        time,
        event,
        np.concatenate([[NOBODY], job_class, path.job_class[cut:]]),
        np.concatenate([[NOBODY], job, path.job[cut:]]),
        np.concatenate([held, path.cores[cut:]]),
    )


def _present(path: SamplePath, moves: Ints, cut: int) -> tuple[Ints, Ints, Floats]:
    """Return class, number and cores of the jobs there before a row; cores begin with those of no job."""
    numbers, place = dense(path.job[:cut])
    there = np.zeros(numbers.size, dtype=np.int64)
    np.add.at(there, place[moves], STEPS[path.event[moves]])
    own = np.flatnonzero(there > 0)
    arrived = np.full(numbers.size, -1)
    comes = moves[STEPS[path.event[moves]] > 0]
    arrived[place[comes]] = comes
    order = np.argsort(arrived[own], kind="stable")
    own = own[order]
    last = np.full(numbers.size, -1)
    last[place[place >= 0]] = np.flatnonzero(place >= 0)  # of several the last one stays
    cores = np.append(np.nan, path.cores[last[own]]) if path.per_job else np.empty(0)
    return path.job_class[arrived[own]], numbers[own], cores
