r"""The stratified score of a record that tells jobs apart: exact at every p, by one pass over all jobs.

B/x, how fast attained work has moved with p so far, is taken where a job enters its stratum: what is known
before a job leaves or goes on makes no error to one side, and in an octave it changes little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from corewise.estimation.likelihood import curve_of
from corewise.estimation.robust import _kernels
from corewise.estimation.robust.strata import Score, Sums, Terms, stratified
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.model.speedup import SpeedUp
from corewise.observation.histories import JobHistories
from corewise.observation.strata.tables import OCTAVES, chebyshev_nodes

__all__ = ["JobScore"]

_NODES = 9


class _Pass(NamedTuple):
    """One pass over the histories, at one p: the clocks, g of each job as it left, and the strata."""

    work: Floats
    bend: Floats
    ratio: Floats
    strata: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class JobScore(Score):
    """Stratified score from the histories of all jobs.

    Attributes
    ----------
    histories : JobHistories
        What each job held when.
    family : SpeedUp
        Any curve of the family.
    """

    histories: JobHistories
    family: SpeedUp

    @classmethod
    def of(cls, histories: JobHistories, family: SpeedUp, unit: float) -> JobScore:
        """Return the score of a class with sizes of about `unit`."""
        (bounds,) = family.bounds.values()
        edges = OCTAVES * unit
        slopes = np.zeros(edges.size + 1)
        return cls(bounds=bounds, edges=edges, slopes=slopes, histories=histories, family=family)

    @property
    def grid(self) -> Floats:
        """Where to look for a change of sign."""
        return chebyshev_nodes(*self.bounds, _NODES)

    @cached_property
    def _whole(self) -> tuple[Ints, Ints, Bools]:
        """Segments and departures of the jobs that were seen to arrive."""
        jobs, whole = self.histories, ~self.histories.truncated
        return jobs.first[whole], jobs.last[whole], jobs.departed[whole]

    @cached_property
    def _at(self) -> Callable[[float], _Pass]:
        """The latest passes: the score, its terms and its sums are asked for one after another."""
        return lru_cache(maxsize=1)(self.passed)

    def passed(self, p: float) -> _Pass:
        """Return what happened in the strata that a curve makes."""
        jobs, curve = self.histories, curve_of(self.family, np.array([p]))
        speed, slope = curve.rate(jobs.widths), curve.gradient(jobs.widths)[:, 0]
        work, bend = np.empty((2, jobs.span.size + 1))
        _kernels.run_clocks(jobs.place, jobs.span, speed, slope, work, bend)
        _, last, _ = self._whole
        ratio = np.divide(slope, speed, out=np.zeros(speed.size), where=speed > 0.0)[jobs.place[last - 1]]
        found, none = _Pass(work, bend, ratio, np.zeros((self.edges.size + 1, 4))), np.empty(0)
        self._go_through(found, found.strata, none, none, none)
        return found

    def _go_through(self, here: _Pass, strata: Floats, *influences: Floats) -> None:
        """Add up what jobs did in each stratum, and write what each of them did to the score if asked to."""
        pointers = np.zeros(self.edges.size + 1, dtype=np.uint64)
        jobs = (*self._whole, here.ratio, self.edges, self.slopes, pointers)
        _kernels.pass_strata(here.work, here.bend, *jobs, strata, *influences)

    def terms(self, p: float) -> Terms:
        """Return what the score is made of; jobs that were there at the start count in what the mean says."""
        here, jobs = self._at(p), self.histories
        size, slope = (clock[jobs.last].sum() - clock[jobs.first].sum() for clock in (here.work, here.bend))
        return Terms(
            float(stratified(here.strata)[0].sum()), float(jobs.departed.sum()), float(size), float(slope)
        )

    def influences(self, p: float) -> tuple[Floats, Floats]:
        """Return ψ of every job in the strata, and 1{departed} − μX, at the best μ if that is unknown."""
        here, jobs = self._at(p), self.histories
        size = here.work[jobs.last] - here.work[jobs.first]
        rate = float(jobs.departed.sum()) / float(size.sum()) if self.size_rate is None else self.size_rate
        own = np.empty(self._whole[0].size)
        _, hazards, ratios = stratified(here.strata)
        self._go_through(here, np.zeros(here.strata.shape), hazards, ratios, own)
        influence = np.zeros(size.size)
        influence[~jobs.truncated] = own * _freedom(here.strata)
        return influence, jobs.departed - rate * size

    def sums(self, p: float) -> Sums:
        """Return what the variance is made of, at the best μ if that is unknown."""
        influence, surplus = self.influences(p)
        return Sums(
            float(influence @ influence),
            float(influence @ surplus),
            float(surplus @ surplus),
            self._at(p).strata,
        )


def _freedom(strata: Floats) -> float:
    """Return √(n/(n − k)) for n departures in k strata: hazards that were fitted make influences smaller."""
    departures, fitted = float(strata[:, 0].sum()), int(np.count_nonzero(strata[:, 0]))
    return math.sqrt(departures / (departures - fitted)) if departures > fitted else 1.0
