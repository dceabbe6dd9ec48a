r"""What came of a demonstration: response times of the same jobs under EQUI and under corewise.

The gain is 1 − Σ R_corewise / Σ R_EQUI over the jobs, paired: the same arrivals and sizes. Its interval comes
from batches of jobs that arrived one after the other, since jobs that meet share their fate; it says how much
other arrivals would have changed it, not what a longer run would show, in which learning is a smaller part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corewise.kit.arrays import Bools, Floats
from corewise.kit.jsonable import plain
from corewise.live.demo.workload import DemoJob
from corewise.live.state.report import ClassReport, Report
from corewise.model.system import System
from corewise.simulation.intervals import ratio_interval

__all__ = ["ALL", "Comparison", "Demonstration", "Moment", "compared"]

ALL = "all"
"""Names the comparison over all classes."""

_BATCHES, _SMALLEST = 20, 25  # batches at most, jobs in one at least


@dataclass(frozen=True)
class Comparison:
    """Comparison of response times of the same jobs.

    Attributes
    ----------
    jobs : int
        How many are done under both.
    equi, corewise : float
        Their mean response times, in seconds; NaN if there are none.
    interval : tuple of float
        Of 95 %, for the gain.
    """

    jobs: int
    equi: float
    corewise: float
    interval: tuple[float, float]

    @property
    def gain(self) -> float:
        """By what share jobs take less time under corewise."""
        return 1.0 - self.corewise / self.equi


def compared(jobs: Sequence[DemoJob], equi: Floats, corewise: Floats) -> dict[str, Comparison]:
    """Return the comparison of each class, over jobs that are done under both, and last that over all."""
    done = ~(np.isnan(equi) | np.isnan(corewise))
    names = np.array([job.job_class for job in jobs])
    masks: dict[str, Bools] = {name: done & (names == name) for name in dict.fromkeys(names.tolist())}
    return {name: _compared(equi[mask], corewise[mask]) for name, mask in {**masks, ALL: done}.items()}


def _compared(equi: Floats, corewise: Floats) -> Comparison:
    count = equi.size
    if not count:
        return Comparison(0, np.nan, np.nan, (np.nan, np.nan))
    batches = np.array_split(np.arange(count), min(_BATCHES, max(count // _SMALLEST, 1)))
    saved = np.array([float(np.sum(equi[batch] - corewise[batch])) for batch in batches])
    spent = np.array([float(np.sum(equi[batch])) for batch in batches])
    return Comparison(count, float(equi.mean()), float(corewise.mean()), ratio_interval(saved, spent))


@dataclass(frozen=True)
class Moment:
    """Moment of a demonstration: how it stands.

    Attributes
    ----------
    elapsed : float
        Seconds since it began.
    equi, corewise : Report or None
        What the pools say; None for one that does not run just now.
    so_far : mapping
        The comparison over the jobs that are done under both, by class and over `ALL`.
    """

    elapsed: float
    equi: Report | None
    corewise: Report | None
    so_far: Mapping[str, Comparison]


@dataclass(frozen=True)
class Demonstration:
    """Demonstration: what came of it.

    Attributes
    ----------
    engine : str
        What ran the jobs.
    seconds : float
        How long jobs arrived.
    truth : System
        How they really scale, and how often they came.
    comparisons : mapping
        By class, and over `ALL`.
    learned : Report
        What the pool that was steered says in the end.
    adopted : float or None
        When the first policy other than EQUI came into force, in seconds; None if none did.
    history : tuple of Moment
        How it went.
    """

    engine: str
    seconds: float
    truth: System
    comparisons: Mapping[str, Comparison]
    learned: Report
    adopted: float | None
    history: tuple[Moment, ...]

    @property
    def whole(self) -> Comparison:
        """The comparison over all jobs."""
        return self.comparisons[ALL]

    def as_mapping(self) -> dict[str, Any]:
        """Return it as plain values, which JSON can hold."""
        whole = self.whole
        made = plain(
            {
                "engine": self.engine,
                "seconds": self.seconds,
                "jobs": whole.jobs,
                "equi": self._side("equi"),
                "corewise": {
                    **self._side("corewise"),
                    "estimates": {row.name: _parameters(row) for row in self.learned.classes},
                    "intervals": {row.name: _intervals(row) for row in self.learned.classes},
                    "adopted": self.adopted,
                },
                "gain": whole.gain,
                "gain_interval": list(whole.interval),
                "classes": [
                    {"name": name, "jobs": row.jobs, "gain": row.gain, "gain_interval": list(row.interval)}
                    for name, row in self._by_class()
                ],
                "truth": {one.name: dict(one.speedup.parameters) for one in self.truth.classes},
                "speedup": "emulated by sleeping",
            }
        )
        assert isinstance(made, dict)
        return made

    def _side(self, which: str) -> dict[str, Any]:
        return {
            "mean_response_time": getattr(self.whole, which),
            "classes": [
                {"name": name, "mean_response_time": getattr(row, which)} for name, row in self._by_class()
            ],
        }

    def _by_class(self) -> list[tuple[str, Comparison]]:
        return [(one.name, self.comparisons[one.name]) for one in self.truth.classes]


def _parameters(row: ClassReport) -> dict[str, float] | None:
    return None if row.learned is None else dict(row.learned.parameters)


def _intervals(row: ClassReport) -> dict[str, list[float]] | None:
    return None if row.learned is None else {name: list(e) for name, e in row.learned.intervals.items()}
