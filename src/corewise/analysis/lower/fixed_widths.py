r"""The fixed-width bound: the best fixed widths, and the price of a core at which jobs choose them.

Were cores bought by the hour, a job of class i would run at the width k that minimises its own bill, which
per unit of work is

    κ_i(ℓ) = min_k (h_i + ℓ k) / s_i(k),      1 ≤ k ≤ c.

Under any policy E[Σ_i n_i s_i(z_i)] = Σ_i ρ_i work is done, ρ_i = λ_i/μ_i, and each unit of it is paid
κ_i(ℓ) at least, while at most c cores are paid for. So for any price ℓ ≥ 0

    J ≥ D(ℓ) = Σ_i ρ_i κ_i(ℓ) − ℓ c,

the Lagrangian dual of the best fixed widths within c cores on average (Li, Berg, Mukhopadhyay,
Harchol-Balter 2024). It ignores that jobs come and go at random.

Sizes and arrivals enter by the work that arrives alone: the bound holds for any size distribution, any
stationary arrivals and any policy, one that knows all sizes included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corewise.analysis.lower.majorants import Majorants
from corewise.analysis.lower.prices import best_price, rounded_down
from corewise.kit.arrays import Floats
from corewise.model.job_class import JobClass

__all__ = ["FixedWidths", "fixed_widths"]

_PRECISION = 1e-14
_PARTS = np.linspace(0.0, 1.0, 33)  # of a range of widths, in ratios, tried at once
_ROUNDS = 6  # each a sixteenth of the one before: in the end 1e-7 of a width, 1e-14 of a bill


@dataclass(frozen=True, eq=False)
class FixedWidths:
    """Fixed-width bound: the price of a core at which it is best, the widths jobs then choose, and its value.

    Attributes
    ----------
    price : float
        ℓ, of one core for a unit of time.
    widths, speeds : ndarray
        Of a job of each class.
    bills : ndarray
        κ, what a unit of work of each class then costs, waiting included.
    bound : float
        D(ℓ), which rests on a search for the widths until it is `certified`.
    """

    price: float
    widths: Floats
    speeds: Floats
    bills: Floats
    bound: float

    def certified(
        self, classes: Sequence[JobClass], counts: Floats, cores: float, majorants: Majorants
    ) -> FixedWidths:
        """Return the same with a bound that is proved: the least bills are those of corners of majorants.

        Along a straight piece a bill is one linear function over another, so it is least at an end.
        """
        weights = np.array([[one.weight] for one in classes])
        bills = ((weights + self.price * majorants.widths[:, 1:]) / majorants.speeds[:, 1:]).min(axis=1)
        work = counts * np.array([one.work_rate for one in classes])
        return replace(self, bound=rounded_down(work * bills, -self.price * cores))


def fixed_widths(classes: Sequence[JobClass], counts: Floats, cores: float) -> FixedWidths:
    """Return the best fixed widths; `counts` says how many classes there are of each kind."""
    work = counts * np.array([job_class.work_rate for job_class in classes])

    def dual(price: float) -> tuple[float, float]:
        bills, widths, speeds = _least_bills(classes, price, cores)
        return float(work @ bills) - price * cores, float(work @ (widths / speeds)) - cores

    # Where cores are dear, jobs want what they use in full, and the bound falls with slope Σ ρ_i − c < 0.
    guess = max(job_class.weight for job_class in classes) / cores
    price, bound = best_price(dual, guess, _PRECISION)
    bills, widths, speeds = _least_bills(classes, price, cores)
    return FixedWidths(price, widths, speeds, bills, bound)


def _least_bills(classes: Sequence[JobClass], price: float, cores: float) -> tuple[Floats, Floats, Floats]:
    """Return the least of (h + ℓ k) / s(k) over 1 ≤ k ≤ max(c, 1), with its k and s(k), of every class.

    It falls, then rises, so the least lies next to the best of some widths tried.
    """
    rows = np.arange(len(classes))
    weights = np.array([[job_class.weight] for job_class in classes])
    low, high = np.ones(len(classes)), np.full(len(classes), max(cores, 1.0))
    for _ in range(_ROUNDS):
        k = low[:, None] * (high / low)[:, None] ** _PARTS
        k[:, -1] = high  # which rounding would miss
        speeds = np.stack([one.curve.rate(tried) for one, tried in zip(classes, k, strict=True)])
        bills = (weights + price * k) / speeds
        best = np.argmin(bills, axis=1)
        low = k[rows, np.maximum(best - 1, 0)]
        high = k[rows, np.minimum(best + 1, k.shape[1] - 1)]
    return bills[rows, best], k[rows, best], speeds[rows, best]
