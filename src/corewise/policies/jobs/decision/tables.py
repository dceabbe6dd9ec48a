"""The tables of a system from which a decision per job is made."""

from __future__ import annotations

import math

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.job_class import JobClass
from corewise.model.sizes import Deterministic
from corewise.model.system import System
from corewise.policies.jobs.decision._kernels.index import FIRST_OCTAVE, IndexRule, Residuals
from corewise.policies.jobs.remaining import RemainingWork
from corewise.policies.jobs.weights import crowd_of, lift_factor

__all__ = ["ONE_BY_ONE", "attained_nodes", "index_rule", "residuals"]

ONE_BY_ONE = 128
"""Jobs of known remaining work that go through the recursion one by one; more do by quarter octaves."""

_LAST_OCTAVE = 14
_PARTS = 32
"""Nodes per octave of attained work. Between them probabilities are linear: widths are within 0.1 % of those
by the distribution itself, and within 1 % where it jumps."""


def index_rule(
    system: System, load: float, widest: float, longest_wait: float, ranks: Ints, *, by_class: bool
) -> IndexRule:
    """Return what decides beside the jobs; see `IndexRule`."""
    rates = np.array([known.size_rate or math.nan for known in system.classes])
    alike = [
        1.0 / rate if type(known.sizes) is Deterministic else math.nan
        for known, rate in zip(system.classes, rates, strict=True)
    ]
    return IndexRule(
        float(system.cores),
        system.weights,
        rates,
        ranks,
        np.array(alike),
        lift_factor(load),
        float(widest),
        float(longest_wait),
        ONE_BY_ONE,
        by_class,
        crowd_of(system, load),
        residuals(system),
    )


def attained_nodes(parts: int) -> Floats:
    """Return the nodes of attained work, in mean sizes."""
    steps = (1.0 + np.arange(parts) / parts)[None, :]
    octaves = np.exp2(np.arange(FIRST_OCTAVE, _LAST_OCTAVE))[:, None]
    return np.concatenate([[0.0], (octaves * steps).ravel()])


def residuals(system: System) -> Residuals:
    """Return the remaining work of jobs that do not say it, by class."""
    tables = [_table(known) for known in system.classes]
    probabilities, middles = ([table[k] for table in tables] for k in (0, 1))
    return Residuals(
        np.full(len(tables), _PARTS),
        np.array([len(table) for table in probabilities]),
        np.cumsum([0, *(table.size for table in probabilities[:-1])]),
        np.concatenate([table.ravel() for table in probabilities]),
        np.cumsum([0, *(bins.size for bins in middles)]),
        np.concatenate(middles),
    )


def _table(job_class: JobClass) -> tuple[Floats, Floats]:
    """Return the probabilities of bins by node, and the middles of the bins."""
    if job_class.size_rate is None or type(job_class.sizes) is Deterministic:
        return np.ones((2, 1)), np.ones(1)
    work = RemainingWork(job_class)
    return work.probabilities(attained_nodes(_PARTS) / job_class.size_rate), work.middles
