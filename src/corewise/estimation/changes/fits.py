"""Fits of rows of statistics: the most likely curve, how likely it is, and what would have been expected."""

from __future__ import annotations

import math

import numpy as np

from corewise.estimation.changes.departure_rate import DepartureRate
from corewise.estimation.changes.grid import columns_of, table_of
from corewise.estimation.likelihood import Likelihood, parameters_of
from corewise.estimation.search import fit_curve_to
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp

__all__ = ["due_of", "fitted", "ratio_of_rates"]


def fitted(curve: SpeedUp, size_rate: float, row: Floats, nodes: Floats) -> tuple[SpeedUp, float]:
    """Return the most likely curve of a row, of the family of this one, and its log-likelihood.

    It is this one if the row says nothing about it.
    """
    if isinstance(curve, DepartureRate):
        return curve.fitted(table_of(row, nodes))
    likelihood = Likelihood(table_of(row, nodes), curve, size_rate)
    if not curve.bounds or not np.any(likelihood.table.widths > 1.0):
        return curve, likelihood.value(parameters_of(curve))
    fit = fit_curve_to(likelihood)
    return likelihood.curve(fit.parameters), fit.value


def due_of(row: Floats, rate: Floats, nodes: Floats) -> tuple[float, float]:
    """Return the departures in a row, and how many there would be at a departure rate of each node."""
    departed, spent = columns_of(row, nodes)
    return float(departed.sum()), float(spent @ rate)


def ratio_of_rates(before: Floats, after: Floats, rate: Floats, nodes: Floats) -> float:
    """Return the log-likelihood ratio of two rows: a size rate each against one for both, with one curve."""
    sides = [due_of(row, rate, nodes) for row in (before, after, before + after)]
    terms = [count * math.log(count / due) if count > 0.0 and due > 0.0 else 0.0 for count, due in sides]
    return terms[0] + terms[1] - terms[2]
