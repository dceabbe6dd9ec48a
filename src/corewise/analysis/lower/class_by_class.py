r"""Class by class: a Lagrangian lower bound, in which cores are shared on average only.

Let cores be paid for, ℓ each and unit of time, and give the money back: under any policy Σ_i x_i ≤ c, so

    J = E[Σ h_i n_i] ≥ Σ_i E[h_i n_i + ℓ x_i] − ℓ c ≥ Σ_i g_i(ℓ) − ℓ c,

where g_i(ℓ) is the least mean cost of class i on its own, with x ≤ c cores to choose in every state: a
birth-death chain with departures at rate n μ s(x/n). Every ℓ ≥ 0 gives a bound; the right-hand side is
concave in ℓ, with slope Σ E[x_i] − c. At ℓ = 0 it says that every class costs at least what it would if it
had all cores to itself, and with one class that is the optimum. It is never below the bound of fixed
widths, in which x ≤ c is forgotten (but for what the majorants of the curves give away).

*Certificate.* For any steps d_n (n = 1 … N, and zero beyond) let

    g = min over n ≥ 0 of  h n + λ d_{n+1} − n max_{z ≤ c/n} (μ d_n s(z) − ℓ z).

Then g ≤ g_i(ℓ): V(n) = d_1 + … + d_n is bounded, and cost plus drift of V is at least g in every state and
under every action, so the mean cost over [0, t] is at least g − 2 max|V| / t. Beyond N it is h n, so only h
(N + 1) needs a look. No solver has to be trusted, nor N be large enough; policy iteration, where arrivals
beyond N are lost for free, finds steps for which little is given away.

Source of the relaxation: D. Adelman and A. J. Mersereau, *Relaxations of weakly coupled stochastic dynamic
programs*, Operations Research 56 (2008).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from corewise.analysis.lower._kernels import priced_class
from corewise.analysis.lower.majorants import Majorants
from corewise.analysis.lower.prices import best_price, rounded_down
from corewise.kit.arrays import Floats
from corewise.model.job_class import JobClass

__all__ = ["class_by_class"]

_PRECISION = 1e-7  # of the bound; every price gives one
_REMOTE = 1e-11
_MOST_JOBS = 1 << 18


def class_by_class(
    classes: Sequence[JobClass], counts: Floats, cores: float, majorants: Majorants, guess: float
) -> float:
    """Return the largest Lagrangian bound over prices of a core, from a guess at the best one.

    `counts` says how many classes there are of each kind, and `majorants` has their curves.
    """

    def dual(price: float) -> tuple[float, float]:
        priced = [_priced(one, price, cores, majorants, i) for i, one in enumerate(classes)]
        costs, held = np.array(priced).T
        return rounded_down(counts * costs, -price * cores), float(counts @ held) - cores

    return best_price(dual, guess, _PRECISION)[1]


def _priced(
    job_class: JobClass, price: float, cores: float, majorants: Majorants, row: int
) -> tuple[float, float]:
    """Return a bound on the cost of a class that pays for its cores, and how many it then holds."""
    weight, work, arrival = job_class.weight, job_class.work_rate, job_class.arrival_rate or 0.0
    slopes, widths, speeds = (part[row] for part in (majorants.slopes, majorants.widths, majorants.speeds))
    # Every job at the width that is cheapest for it: the best there is, but that there may not be c cores.
    bill = float(((weight + price * widths[1:]) / speeds[1:]).min())
    # With less room than that, it may be cheaper to be full and turn all away than to pay for cores.
    most = math.ceil(max(work + 8.0 * math.sqrt(work) + 16.0, 2.0 * work * bill / weight))
    rates = (arrival, job_class.known_size_rate, weight)
    while True:
        most = min(most, _MOST_JOBS)
        steps = np.full(most + 1, bill / job_class.known_size_rate)
        capped = majorants.capped(row, cores, most)
        bound, held, edge = priced_class(*rates, price, cores, slopes, widths, speeds, capped, steps)
        if edge * most <= _REMOTE or most == _MOST_JOBS:
            return bound, held
        most *= 2
