r"""Exact optimum for sizes of two observable stages: a Markov decision process on the counts (n₁, n₂).

A job arrives in stage 1, whose work is exponential with rate r₁; then it goes on to stage 2, with rate r₂,
with probability q, and is over otherwise. Jobs of one stage are alike, and share equally. With relative
values V a unit of work of either stage is worth

    r₁ (V(n) − (1 − q) V(n − e₁) − q V(n − e₁ + e₂)),     r₂ (V(n) − V(n − e₂)),

and the best split of the cores is the water-filling of Amdahl's law at these values: policy iteration.

Counts are in a box. A job that would leave it is lost, for more than it would cost to keep: else the best
policy would fill the box, so that jobs are lost for free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu

from corewise.model.sizes import SizeLaw

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stages(SizeLaw):
    """Sizes of mean one in two stages; `continues` is the probability of the second."""

    law = "two stages"

    rates: tuple[float, float]
    continues: float

    if not TYPE_CHECKING:

        @property
        def cv2(self) -> float:
            first, second = self.rates
            return 2 / first**2 + 2 * self.continues / second * (1 / first + 1 / second) - 1.0

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Independent draws."""
        first, second = (rng.exponential(1.0 / rate, count) for rate in self.rates)
        return first + np.where(rng.random(count) < self.continues, second, 0.0)

    def survival(self, x: ArrayLike) -> Floats:
        """P(X > x)."""
        return self.beyond(0, np.asarray(x, dtype=np.float64))

    def mean_residual(self, x: ArrayLike) -> Floats:
        """E[X − x | X > x]: what is left of the stages, by which of them a job is in after the work x."""
        x = np.asarray(x, dtype=np.float64)
        first, second = self.rates
        beyond = self.survival(x)
        in_first = np.exp(-first * x) / np.where(beyond > 0.0, beyond, 1.0)
        return in_first * (1.0 / first + self.continues / second) + (1.0 - in_first) / second

    def beyond(self, stage: int, x: Floats) -> Floats:
        """P(remaining work > x) of a job at the beginning of a stage."""
        first, second = self.rates
        if stage == 1:
            return np.exp(-second * x)
        if abs(first - second) < 1e-12:
            both = (1.0 + first * x) * np.exp(-first * x)
        else:
            both = (second * np.exp(-first * x) - first * np.exp(-second * x)) / (second - first)
        return (1.0 - self.continues) * np.exp(-first * x) + self.continues * both


def decreasing_hazard(cv2: float) -> Stages:
    """Coxian sizes of mean one with balanced stages: each brings half of the work."""
    q = 0.5 / cv2  # E X² = 2/r₁² + 2 q/(r₁ r₂) + 2 q/r₂² with r₁ = 2 and r₂ = 2 q
    return Stages((2.0, 2.0 * q), q)


ERLANG = Stages((2.0, 2.0), 1.0)


def amdahl(p: float, z: Floats) -> Floats:
    return np.where(z <= 1.0, z, z / ((1.0 - p) * z + p))


class Chain:
    """The process on a box: evaluation of a split of the cores, and its improvement."""

    def __init__(self, stages: Stages, p: float, load: float, cores: float, most: tuple[int, int]) -> None:
        self.stages, self.p, self.cores, self.arrival = stages, p, cores, load * cores
        shape = (most[0] + 1, most[1] + 1)
        self.shape = shape
        self.n1, self.n2 = (part.ravel() for part in np.indices(shape))
        index = np.arange(self.n1.size).reshape(shape)
        up = np.minimum(self.n1 + 1, most[0])
        self.arrived = index[up, self.n2]
        below = np.maximum(self.n1 - 1, 0)
        self.left_first = index[below, self.n2]
        self.moved_on = index[below, np.minimum(self.n2 + 1, most[1])]
        self.loss = 4.0 * max(most) / (cores * (1.0 - load))
        self.lost_arrivals = self.arrival * (self.n1 == most[0])
        self.full = (self.n2 == most[1]).astype(np.float64)
        self.left_second = index[self.n1, np.maximum(self.n2 - 1, 0)]

    def rates(self, z1: Floats, z2: Floats) -> tuple[Floats, Floats]:
        first = self.n1 * amdahl(self.p, z1) * self.stages.rates[0]
        return first, self.n2 * amdahl(self.p, z2) * self.stages.rates[1]

    def evaluate(self, z1: Floats, z2: Floats) -> tuple[float, Floats]:
        """Mean jobs and relative values under widths of the jobs of each stage."""
        first, second = self.rates(z1, z2)
        q, size = self.stages.continues, self.n1.size
        here = np.arange(size)
        rows = np.concatenate([here] * 5)
        columns = np.concatenate([self.arrived, self.left_first, self.moved_on, self.left_second, here])
        jumps = [np.full(size, self.arrival), (1.0 - q) * first, q * first, second]
        entries = np.concatenate([*jumps, -sum(jumps)])
        # V(0) = 0, so the first column is free for the mean: Q V − J = −n.
        kept = columns > 0
        rows, columns = np.append(rows[kept], here), np.append(columns[kept], np.zeros_like(here))
        entries = np.append(entries[kept], np.full(size, -1.0))
        generator = csc_matrix((entries, (rows, columns)), shape=(size, size))
        lost = self.lost_arrivals + q * first * self.full
        found = splu(generator).solve(-(self.n1 + self.n2 + self.loss * lost))
        values = found.copy()
        values[0] = 0.0
        return float(found[0]), values

    def worth(self, values: Floats) -> tuple[Floats, Floats]:
        q = self.stages.continues
        moved_on = values[self.moved_on] + self.loss * self.full
        first = values - (1.0 - q) * values[self.left_first] - q * moved_on
        second = values - values[self.left_second]
        return self.stages.rates[0] * first, self.stages.rates[1] * second

    def fill(self, w1: Floats, w2: Floats, most: Floats | None = None) -> tuple[Floats, Floats]:
        """Widths that maximise n₁ w₁ s(z₁) + n₂ w₂ s(z₂) within the cores, in every state."""
        most = np.full(self.n1.size, self.cores) if most is None else most
        w1, w2 = np.maximum(w1, 1e-12), np.maximum(w2, 1e-12)

        def widths(price: Floats, w: Floats) -> Floats:
            q = price / w
            with np.errstate(divide="ignore"):
                wide = (np.sqrt(self.p / q) - self.p) / (1.0 - self.p)
            return np.where(q > 1.0, 0.0, np.minimum(np.where(q > self.p, 1.0, wide), most))

        low, high = np.zeros(self.n1.size), np.maximum(w1, w2) * (1.0 + 1e-15)
        for _ in range(70):
            price = 0.5 * (low + high)
            scarce = self.n1 * widths(price, w1) + self.n2 * widths(price, w2) > self.cores
            low, high = np.where(scarce, price, low), np.where(scarce, high, price)
        high = high * (1.0 + 1e-13)
        z1, z2, m1, m2 = widths(high, w1), widths(high, w2), widths(low, w1), widths(low, w2)
        under, over = self.n1 * z1 + self.n2 * z2, self.n1 * m1 + self.n2 * m2
        share = np.where(
            over > under, np.clip((self.cores - under) / np.maximum(over - under, 1e-300), 0, 1), 0.0
        )
        return z1 + share * (m1 - z1), z2 + share * (m2 - z2)

    def optimum(self, start: tuple[Floats, Floats] | None = None) -> tuple[float, Floats]:
        """The least mean jobs, and relative values; the iteration begins with those widths, or equal ones."""
        equal = self.cores / np.maximum(self.n1 + self.n2, 1)
        mean, values = self.evaluate(*(start or (equal, equal)))
        for _ in range(40):
            better, values = self.evaluate(*self.fill(*self.worth(values)))
            if mean - better <= 1e-10 * mean:
                return better, values
            mean = better
        raise AssertionError("policy iteration did not end")
