"""Classes that buy cores at a price: who buys how much of its curve, and the mixes of jobs that are worst.

Of the mathematics of `corewise.analysis.lower.core_time` this is the part that is done at many core-times B
at once: the worst mix of jobs at each, and what is certain in a cell between two of them. Curves are the
pieces of `corewise.analysis.lower.majorants`, and a class buys those whose slope is worth the price.

Loops are over classes and arrays over points: there are few of either, and compiling takes longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corewise.analysis.lower.majorants import Majorants
from corewise.analysis.lower.prices import ROUNDING, TIE
from corewise.kit.arrays import Bools, Floats, Ints

__all__ = ["Market", "Mixes"]

_BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class Mixes:
    """Worst mixes of jobs at some core-times B: at most two classes each, and the price of a core.

    Attributes
    ----------
    prices : ndarray, shape (points,)
        What a core is worth there.
    kinds : ndarray of int, shape (points, 2)
        The classes.
    jobs, speeds : ndarray, shape (points, 2)
        How many jobs of each there are, and how quick one is.
    """

    prices: Floats
    kinds: Ints
    jobs: Floats
    speeds: Floats


@dataclass(frozen=True, eq=False)
class Market:
    """Market of cores: rates, weights h and core-times b of a job (`needs`) of every kind of class."""

    sizes: Floats
    weights: Floats
    needs: Floats
    cores: float
    majorants: Majorants

    def mixes(self, points: Floats, worths: Floats, *, tail: bool) -> Mixes:
        """Return the worst mixes at every B; `worths` is what a job of each class is worth, (points, K).

        The price is where demand crosses c, by bisection; the mix of what is worst on either side uses c
        cores. With `tail` the last point stands for all beyond it as well: the price is so high that more B
        is no cheaper, and there may be more jobs.
        """
        beyond = np.zeros(points.size, dtype=np.bool_)
        beyond[-1] = tail
        bids = np.ascontiguousarray((self.sizes * worths).T)
        low, high = np.zeros(points.size), np.maximum(bids.max(axis=0), 0.0)
        widths, speeds = self.majorants.widths, self.majorants.speeds
        for _ in range(_BISECTIONS):
            price = 0.5 * (low + high)
            least, kinds, pieces = self._dearest(points, bids, price)
            scarce = points * widths[kinds, pieces] > self.cores * self.needs[kinds]
            scarce |= beyond & (least < 0.0)
            low, high = np.where(scarce, price, low), np.where(scarce, high, price)
        sides = [self._dearest(points, bids, price) for price in (low, high)]
        both, jobs, rates, excess = [], [], [], []
        for least, kinds, pieces in sides:
            width, count = widths[kinds, pieces], points / self.needs[kinds]
            more = beyond & (least < 0.0) & (width > 0.0)
            count[more] = np.maximum(count[more], self.cores / width[more])
            both.append(kinds)
            jobs.append(count)
            rates.append(speeds[kinds, pieces])
            excess.append(count * width - self.cores)
        over, under = excess
        apart = (over > 0.0) & (over > under)
        share = np.ones(points.size)
        share[apart] = np.minimum(over[apart] / (over[apart] - under[apart]), 1.0)
        mixed = np.stack([jobs[0] * (1.0 - share), jobs[1] * share], axis=1)
        return Mixes(high, np.stack(both, axis=1), mixed, np.stack(rates, axis=1))

    def _dearest(self, points: Floats, bids: Floats, prices: Floats) -> tuple[Floats, Ints, Ints]:
        """Return the least (h − ψ)/b of the classes with b ≤ B, which class it is, and the pieces it buys.

        A class bids its worth times its size rate, (K, points), for speed.
        """
        least = np.full(points.size, np.inf)
        kinds, pieces = np.zeros(points.size, dtype=np.int64), np.zeros(points.size, dtype=np.int64)
        for i, (weight, need, bid) in enumerate(zip(self.weights, self.needs, bids, strict=True)):
            k = self._bought(i, bid, prices, bid > prices)
            surplus = weight - self._gain(i, bid, prices, k)
            better = (need <= points) & (surplus < least * need)
            np.copyto(least, surplus / need, where=better)
            np.copyto(kinds, i, where=better)
            np.copyto(pieces, k, where=better)
        return least, kinds, pieces

    def _bought(self, i: int, bid: Floats, prices: Floats, buys: Bools) -> Ints:
        """Return how many pieces class i buys where it does: those with a slope above price over bid."""
        ratio = np.full(bid.size, -np.inf)
        np.divide(-TIE * prices, bid, out=ratio, where=buys)
        return np.searchsorted(self._falling[i], ratio)

    def _gain(self, i: int, bid: Floats, prices: Floats, pieces: Ints) -> Floats:
        """Return what class i gains by the pieces it buys: its bid for their speed, less their price."""
        speeds, widths = self.majorants.speeds[i].take(pieces), self.majorants.widths[i].take(pieces)
        return np.asarray(bid * speeds - prices * widths)

    @cached_property
    def _falling(self) -> Floats:
        """Slopes with their signs changed, which rise."""
        return -self.majorants.slopes

    def certified(
        self, cells: Floats, worths: Floats, arriving: Floats, prices: Floats, falls: Floats
    ) -> Floats:
        """Return for every cell a bound that holds for all B in it, but for how arrivals bend.

        `cells` has their ends, shape (cells, 2), and so have the others what belongs to these; `falls` is by
        how much more U may be curved a job of each class before, (cells, K). The price is linear from one end
        to the other, or that of one end if this is better: it jumps where a class comes in.
        """
        first, last = prices.T
        pairs = ((first, last), (first, first), (last, last))
        found = [self._least_in_cells(cells, worths, arriving, np.stack(pair), falls) for pair in pairs]
        return np.asarray(np.max(found, axis=0))

    def _least_in_cells(
        self, cells: Floats, worths: Floats, arriving: Floats, prices: Floats, falls: Floats
    ) -> Floats:
        """Return the least that any class gives in each cell, if the price is linear in B there.

        A cell of no length stands for all B beyond it: there no class may gain from a larger B. Rounding is
        on the safe side.
        """
        near, far = cells.T
        length, cheap = far - near, prices.min(axis=0)
        long = length > 0.0
        divisor = np.where(long, length, 1.0)
        least = np.full(len(cells), np.inf)
        for i, (size, weight, need) in enumerate(zip(self.sizes, self.weights, self.needs, strict=True)):
            widths, speeds = self.majorants.widths[i], self.majorants.speeds[i]
            lower = np.full(len(cells), np.inf)
            for end in range(2):
                jobs, bid, price = cells[:, end] / need, size * worths[:, end, i], prices[end]
                k = self._bought(i, bid, price, bid > TIE * price)
                gain = self._gain(i, bid, price, k)
                value = arriving[:, end] + jobs * (weight - gain) - price * self.cores
                terms = np.abs(arriving[:, end]) + jobs * (weight + np.maximum(bid, 0.0) * speeds[k])
                terms += price * self.cores
                lower = np.minimum(lower, value - ROUNDING * terms)
                lower[~long & (gain > weight)] = -np.inf
            bid = size * worths[:, 1, i]
            k = self._bought(i, bid, cheap, long & (bid > TIE * cheap))  # no less than within the cell
            dearer = 2.0 * widths[k] * np.maximum(prices[1] - prices[0], 0.0) / divisor
            bend = (dearer + far * size * speeds[k] * falls[:, i]) / need * length * length / 8.0
            lower -= (1.0 + ROUNDING) * bend
            here = (need <= near) | (need < far)  # else the next cell has it
            least[here] = np.minimum(least[here], lower[here])
        return least
