r"""What was seen of the progress of jobs: work done and time taken by width, stretch by stretch.

A stretch is the time from when a job took a width to when it took another or left. In a unit of its class it
did r of work in w of time. What is kept is, at each width, how many stretches there were, Σ r, Σ w and

    Q = Σ r²/w,

from which the dispersion follows: if the work of a stretch has the mean λ w and the variance φ λ w, then
E Σ (r − λ w)²/(λ w) = φ n, and with λ = Σ r / Σ w at each width the sum is Q/λ − Σ r, less one in n.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.kit.arrays import Floats
from corewise.observation.statistics import ClassStatistics

__all__ = ["ClassProgress"]

_FEW = 30.0  # stretches beyond one a width: fewer do not tell how much they vary
_FINEST = 50.0  # marks that vary like counts, a stretch: beyond that a curve is not to be believed


@dataclass(frozen=True, eq=False)
class ClassProgress:
    """Progress of the jobs of a class.

    Attributes
    ----------
    widths, stretches, work, job_time, squares : ndarray
        The widths, and at each the number of stretches, Σ r, Σ w and Σ r²/w.
    sizes : tuple of float
        Of the jobs that finished, the number, the mean work and the sum of squared distances from it.
    """

    widths: Floats
    stretches: Floats
    work: Floats
    job_time: Floats
    squares: Floats
    sizes: tuple[float, float, float]

    @property
    def dispersion(self) -> float:
        """φ, the variance of work over its mean; NaN where too little was seen."""
        used = (self.work > 0.0) & (self.stretches > 1.0)
        beyond = float((self.stretches[used] - 1.0).sum())
        if beyond < _FEW:
            return float("nan")
        work, time, squares = self.work[used], self.job_time[used], self.squares[used]
        found = float((squares * time / work - work).sum()) / beyond
        return max(found, float(self.work.sum()) / (_FINEST * float(self.stretches.sum())))

    @property
    def size_dispersion(self) -> float:
        """The squared coefficient of variation of the work of jobs; NaN where too little was seen."""
        count, mean, squares = self.sizes
        return squares / (count - 1.0) / mean**2 if count >= _FEW and mean > 0.0 else float("nan")

    def as_counts(self) -> ClassStatistics:
        """Return the statistics of as many events as tell the same: of work in units of its dispersion."""
        told = self.widths > 0.0
        return ClassStatistics(
            0, self.widths[told], self.work[told] / self.dispersion, self.job_time[told].copy()
        )
