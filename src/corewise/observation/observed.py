"""Observations: objects that have sufficient statistics or a sample path, and how to get at them.

A run of a simulation has both, the path if it was recorded; an event log has a path.
"""

from __future__ import annotations

from typing import Protocol

from corewise.errors import InvalidInput
from corewise.observation.sample_path import SamplePath
from corewise.observation.statistics import Statistics

__all__ = ["HasPath", "HasStatistics", "path_of", "record_of", "statistics_of"]


class HasStatistics(Protocol):
    """Something that was seen and counted, such as a run."""

    @property
    def statistics(self) -> Statistics:
        """What the likelihood needs of it."""
        ...


class HasPath(Protocol):
    """Something that was recorded, such as an event log, or a run if that was asked for."""

    @property
    def path(self) -> SamplePath | None:
        """The record, None if there is none."""
        ...


def statistics_of(seen: Statistics | SamplePath | HasStatistics | HasPath) -> Statistics:
    """Return the sufficient statistics of an observation."""
    if isinstance(seen, Statistics):
        return seen
    counted = None if isinstance(seen, type) else getattr(seen, "statistics", None)
    if isinstance(counted, Statistics):
        return counted
    path = record_of(seen)
    if path is None:
        raise InvalidInput(f"expected Statistics, a SamplePath, a run or an event log, got {seen!r}")
    return path.statistics


def path_of(seen: SamplePath | HasPath) -> SamplePath:
    """Return the sample path of an observation."""
    path = record_of(seen)
    if path is None:
        hint = "; simulate(…, record=True) keeps it" if hasattr(seen, "path") else ""
        raise InvalidInput(f"expected a SamplePath, or a run or log that has one, got {seen!r}{hint}")
    return path


def record_of(seen: object) -> SamplePath | None:
    """Return the sample path of an observation, or None if it has none."""
    path = seen if isinstance(seen, SamplePath) else getattr(seen, "path", None)
    return path if isinstance(path, SamplePath) else None
