r"""A test of exponential sizes by attained work.

If sizes are exponential, jobs leave at the same rate per work done whatever they have attained. Cut attained
work where equally many departures lie between, into B strata with D_b departures and E_b work done. The
likelihood ratio of a rate each against one rate for all,

    T = 2 Σ_b D_b log (D_b E / (E_b D)),

is χ² with B − 1 degrees of freedom: the E_b are sums of D_b independent exponential spacings (this is
Bartlett's test), up to the factor 1 + (Σ 1/D_b − 1/D) / (6 (B − 1)) that it is corrected by. It does not
depend on the size rate, and hardly on the curve, so it holds where these were estimated from the same log.

Sources: M. S. Bartlett, *Properties of sufficiency and statistical tests* (Proceedings of the Royal Society A
160, 1937); B. Epstein, *Tests for the validity of the assumption that the underlying distribution of life is
exponential* (Technometrics 2, 1960).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from corewise.model.speedup import SpeedUp
from corewise.observation.histories import JobHistories

__all__ = ["exponential_sizes_p_value"]

_STRATA, _EACH = 8, 10
"""At most so many strata, with at least so many departures each."""


def exponential_sizes_p_value(histories: JobHistories, curve: SpeedUp) -> float:
    """Return the p-value of exponential sizes, given the curve; NaN if too few jobs came and left."""
    from scipy.special import chdtrc

    whole = ~histories.truncated
    size = histories.sums(curve.rate(histories.widths))[whole]
    gone = np.sort(size[histories.departed[whole]])
    strata = min(_STRATA, gone.size // _EACH)
    if strata < 2:
        return math.nan
    ends = np.rint(np.arange(1, strata + 1) * gone.size / strata).astype(np.int64)
    edges = np.concatenate([[0.0], gone[ends[:-1] - 1], [math.inf]])
    departed = np.diff(ends, prepend=0).astype(np.float64)
    done = np.array([np.sum(np.clip(size - a, 0.0, b - a)) for a, b in pairwise(edges)])
    if not np.all(done > 0.0):
        return 0.0  # many jobs of exactly one size
    ratio = 2.0 * float(departed @ np.log(departed * done.sum() / (done * gone.size)))
    factor = 1.0 + (float(np.sum(1.0 / departed)) - 1.0 / gone.size) / (6.0 * (strata - 1))
    return float(chdtrc(strata - 1, ratio / factor))
