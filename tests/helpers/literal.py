"""Algorithm 2 of the paper iterated as printed, with the uniformisation constant and without.

See `corewise.experiments.literal` for its limit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from corewise.control.bellman import Bellman
from corewise.errors import NotConverged
from corewise.experiments.literal import NAME, LiteralSolution
from corewise.kit.arrays import Floats
from corewise.model.rates import uniformisation_constant
from corewise.model.space import StateSpace
from corewise.model.system import System
from corewise.policies.tabular import Tabular

_OVERFLOWING = 1e100


def literal_policy(
    system: System, *, capacity: int | Iterable[int], tolerance: float = 1e-9, steps: int = 100_000
) -> LiteralSolution:
    """Run Algorithm 2 as printed, but with the uniformisation constant ν, until W_k changes no more.

    Parameters
    ----------
    system : System
        A system of any number of classes.
    capacity : int or sequence of int
        The paper's n_max, the room for jobs of each class.
    tolerance : float
        The paper's ε, for |W_k − W_{k−1}|.
    steps : int
        Maximum number of iterations. Where the system is seldom empty no practical number suffices.

    Raises
    ------
    NotConverged
        If W_k still changes after `steps` iterations.
    """
    bellman = Bellman(system, StateSpace.of(capacity, len(system.classes)), tolerance=tolerance)
    rate = uniformisation_constant(system)
    values = np.zeros(bellman.space.size)
    for k in range(steps):
        step = bellman(values)
        values += step.drift / rate
        values[0] = 0.0
        change = float(np.abs(step.drift[1:]).max())
        if change < tolerance:
            shape = bellman.space.shape
            policy = Tabular(system, step.chain.cores.reshape(-1, *shape), label=NAME)
            return LiteralSolution(policy, (values - values[0]).reshape(shape), k + 1)
    raise NotConverged(
        f"Algorithm 2 still changes its values by {change:.3g} after {steps:,} iterations, and the tolerance "
        f"is {tolerance:g}; literal_limit finds their limit"
    )


def printed_sizes(system: System, *, capacity: int | Iterable[int], steps: int) -> Floats:
    """Return max |V_k| for k = 0, 1, …, `steps` of Algorithm 2 without ν; it ends sooner beyond 1e100.

    Once V_k falls somewhere with every further job, which only its divergence brings about, cores are shared
    there in proportion to the jobs, in place of the infimum over what only does harm.
    """
    bellman = Bellman(system, StateSpace.of(capacity, len(system.classes)))
    values = np.zeros(bellman.space.size)
    sizes = [0.0]
    for _ in range(steps):
        values += bellman(values).drift
        values[0] = 0.0
        sizes.append(float(np.abs(values).max()))
        if sizes[-1] > _OVERFLOWING:
            break
    return np.array(sizes)
