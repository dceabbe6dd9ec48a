"""Size distributions, for ``JobClass(sizes=…)``, and of times between arrivals, ``JobClass(arrivals=…)``."""

from corewise.model.sizes import (
    Deterministic,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
    Pareto,
    SizeLaw,
    Weibull,
)
from corewise.model.tabulated_sizes import Empirical, PiecewiseExponential

__all__ = [
    "Deterministic",
    "Empirical",
    "Erlang",
    "Exponential",
    "Hyperexponential",
    "Lognormal",
    "Pareto",
    "PiecewiseExponential",
    "SizeLaw",
    "Weibull",
]
