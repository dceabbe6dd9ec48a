r"""What progress reports say of a class and its jobs: speeds, work attained and work before them.

Work is counted on one core: w(u) = ∫_0^u dv / r(1, v), the seconds that a job takes there up to the progress
u. That is the unit in which classes compare, and in which a decision per job takes attained and remaining
work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from corewise.estimation.progress.curves import Cells, RateCurves, SpeedTable
from corewise.estimation.progress.reports import ClassTotals, ReportTally
from corewise.estimation.progress.sizes import SizesSeen
from corewise.estimation.progress.statistics import BY_AMOUNT, BY_FRACTION, ClassReports, ProgressStatistics
from corewise.model.sizes import SizeLaw

__all__ = ["LearnedClass", "LearnedJobs", "WorkLeft"]


_LITTLE = 0.02
"""Of the time of all reports: by how much more what is said of a class is made anew."""


@dataclass(frozen=True)
class WorkLeft:
    """Work of a job on one core, in seconds.

    Attributes
    ----------
    attained, remaining : float
        The work done, and the work that is expected; NaN where nothing is known.
    """

    attained: float
    remaining: float


@dataclass(frozen=True, eq=False)
class LearnedClass:
    """What progress reports say of a class.

    Parameters
    ----------
    reports : ClassReports
        The reports.
    most : int
        The most cores asked for.

    Examples
    --------
    >>> from corewise.estimation.progress.learned import LearnedClass
    >>> from corewise.estimation.progress.reports import ReportTally
    >>> tally = ReportTally()
    >>> for k, (cores, rate) in enumerate([(1, 10.0), (2, 18.0), (4, 30.0), (8, 28.0)] * 5):
    ...     tally.report(f"job {k}", "a", cores=cores, amount=60.0 * rate, seconds=60.0)
    >>> learned = LearnedClass(tally.seen()["a"], 16)
    >>> learned.speeds(600.0).speeds[[1, 2, 4, 8]].round(1)
    array([1. , 1.7, 2.7, 2.8])
    """

    reports: ClassReports
    most: int

    @cached_property
    def _by_amount(self) -> RateCurves:
        return RateCurves(Cells.of(self.reports.rates, BY_AMOUNT), self.most)

    @cached_property
    def _by_fraction(self) -> RateCurves:
        return RateCurves(Cells.of(self.reports.rates, BY_FRACTION), self.most)

    @cached_property
    def sizes(self) -> SizesSeen:
        """The sizes of its jobs, in the unit of their progress."""
        return SizesSeen.of(self.reports.sizes)

    @cached_property
    def size_law(self) -> tuple[float, SizeLaw] | None:
        """The mean of sizes, in seconds on one core, and their distribution; None if alike, or unknown.

        Where there is one, the work before a job that says no fraction is better described by it than by its
        mean alone.
        """
        return self.sizes.law(self._by_amount.seconds) if self._by_amount.octaves.size else None

    @property
    def widest(self) -> int:
        """The most cores at which a rate was measured; none if none was."""
        return self.reports.widest

    def speeds(self, done: float = 0.0, fraction: float | None = None) -> SpeedTable:
        """Return the speeds of a job that has done so much work, or the fraction that it says."""
        curves, at = self._scale(done, fraction)
        return curves.at(math.log2(max(at, 1e-280)))

    def work(self, done: float = 0.0, fraction: float | None = None) -> WorkLeft:
        """Return the work of a job on one core that has done so much, or the fraction that it says."""
        curves, at = self._scale(done, fraction)
        if not curves.octaves.size:
            return WorkLeft(math.nan, math.nan)
        if curves is self._by_fraction:
            unit, end = (done / at, 1.0) if at > 0.0 else (self.sizes.remaining(0.0), 1.0)
        else:
            left = done / fraction - done if fraction and done > 0.0 else self.sizes.remaining(done)
            unit, end = 1.0, done + left
        attained = unit * curves.seconds(at)
        return WorkLeft(attained, max(unit * curves.seconds(end) - attained, 0.0))

    def _scale(self, done: float, fraction: float | None) -> tuple[RateCurves, float]:
        """Return the curves by which a job goes, and where it is on them."""
        if not self._by_fraction.octaves.size or (fraction is None and self._by_amount.octaves.size):
            return self._by_amount, done
        if fraction is None:  # the others of the class say it, this one has not yet
            left = self.sizes.remaining(done)
            fraction = done / (done + left) if done > 0.0 else 0.0
        return self._by_fraction, fraction


class LearnedJobs(Mapping[str, LearnedClass]):
    """What progress reports say of every class.

    Parameters
    ----------
    seen : ProgressStatistics
        The reports.
    most : int
        The most cores asked for.

    Examples
    --------
    >>> from corewise.estimation.progress.learned import LearnedJobs
    >>> from corewise.estimation.progress.reports import ReportTally
    >>> tally = ReportTally()
    >>> tally.report("job 1", "a", cores=1, amount=60.0, seconds=60.0, fraction=0.25)
    >>> learned = LearnedJobs(tally.seen(), 8)
    >>> round(learned["a"].work(60.0, 0.25).remaining)
    180
    >>> learned.after(tally)["a"].widest
    1
    """

    def __init__(self, seen: ProgressStatistics, most: int) -> None:
        self.seen, self.most = seen, most
        self._classes: dict[str, LearnedClass] = {}
        self._from: dict[str, ClassTotals] = {}

    def __getitem__(self, name: str) -> LearnedClass:
        """Return what is known of a class, of one that was not seen: nothing."""
        if name not in self._classes:
            self._classes[name] = LearnedClass(self.seen[name], self.most)
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names of the classes that were seen."""
        return iter(self.seen.classes)

    def __len__(self) -> int:
        """Return how many classes were seen."""
        return len(self.seen.classes)

    def after(self, tally: ReportTally, before: ProgressStatistics | None = None) -> LearnedJobs:
        """Return what a tally says by now, with what was seen before it.

        What was said of a class stays where little is new: the time that jobs took has grown by less than
        2 %, and neither a first size nor a wider job has been seen.
        """
        due = [name for name, totals in tally.totals.items() if not self._still_holds(name, totals)]
        if not due:
            return self
        seen = tally.seen(due)
        if before is not None:
            seen += ProgressStatistics({name: before[name] for name in due})
        made = LearnedJobs(ProgressStatistics({**self.seen.classes, **seen.classes}), self.most)
        made._classes = {name: known for name, known in self._classes.items() if name not in due}
        made._from = {**self._from, **{name: replace(tally.totals[name]) for name in due}}
        return made

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "seen": self.seen.as_mapping(),
            "from": {name: asdict(totals) for name, totals in self._from.items()},
        }

    @classmethod
    def of(cls, snapshot: Mapping[str, Any], most: int) -> LearnedJobs:
        """Return what goes on from a snapshot."""
        made = cls(ProgressStatistics.from_mapping(snapshot["seen"]), most)
        made._from = {name: ClassTotals(**totals) for name, totals in snapshot["from"].items()}
        return made

    def _still_holds(self, name: str, now: ClassTotals) -> bool:
        then, known = self._from.get(name), self[name]
        if then is None or now.widest > known.widest or (now.completed and not known.reports.completed):
            return False
        return now.seconds - then.seconds < _LITTLE * known.reports.seconds
