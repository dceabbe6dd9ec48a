"""Factorised generators, against dense matrices written out state by state."""

from __future__ import annotations

import numpy as np
import pytest

import corewise as cw
from corewise.analysis import chain as chains
from corewise.analysis.chain import Chain
from corewise.analysis.factors import BandFactors, Factors, SparseFactors, band_work
from corewise.kit.arrays import Floats
from corewise.model.space import StateSpace

CAPACITIES = [(9, 4), (4, 9), (3, 6, 2), (2, 3, 6), (6, 2, 3), (5, 5)]


def random_chain(capacity: tuple[int, ...], seed: int) -> Chain:
    """Classes that differ, on cores that are shared at random."""
    rng = np.random.default_rng(seed)
    jobs = [
        cw.JobClass(str(i), float(arrival), float(size), cw.Amdahl(float(p)))
        for i, (arrival, size, p) in enumerate(
            rng.uniform([0.5, 0.5, 0.0], [2.0, 2.0, 1.0], (len(capacity), 3))
        )
    ]
    space = StateSpace(capacity)
    shares = rng.uniform(0.1, 1.0, (len(capacity), space.size)) * (space.counts > 0)
    return Chain(cw.System(4.0, jobs), space, 4.0 * shares / np.maximum(shares.sum(axis=0), 1e-9))


def dense_generator(chain: Chain) -> Floats:
    """Q, one event at a time."""
    states = [tuple(n) for n in chain.space.counts.T.tolist()]
    where = {state: s for s, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))
    for state, s in where.items():
        for i, most in enumerate(chain.space.capacity):
            if state[i] < most:
                up = (*state[:i], state[i] + 1, *state[i + 1 :])
                matrix[s, where[up]] += chain.system.arrival_rates[i]
            if state[i] > 0:
                down = (*state[:i], state[i] - 1, *state[i + 1 :])
                matrix[s, where[down]] += chain.rates[i, s]
        matrix[s, s] = -matrix[s].sum()
    return matrix


def law_by_states_removed(generator: Floats) -> Floats:
    """π by Grassmann, Taksar and Heyman: states are removed one by one, and nothing is subtracted."""
    rates = generator.copy()
    np.fill_diagonal(rates, 0.0)
    for n in range(len(rates) - 1, 0, -1):
        rates[:n, n] /= rates[n, :n].sum()
        rates[:n, :n] += np.outer(rates[:n, n], rates[n, :n])
    law = np.ones(len(rates))
    for n in range(1, len(rates)):
        law[n] = law[:n] @ rates[:n, n]
    return np.asarray(law / law.sum())


def factors_of(chain: Chain, kind: str, reference: int) -> Factors:
    if kind == "sparse":
        return SparseFactors(chain.generator, reference)
    return BandFactors(chain.space, chain.system.arrival_rates, chain.rates, chain.outflow, reference)


@pytest.mark.parametrize("kind", ["band", "sparse"])
@pytest.mark.parametrize("capacity", CAPACITIES, ids=str)
def test_both_solves(capacity: tuple[int, ...], kind: str) -> None:
    """Left and right, with the reference first, last and between."""
    chain = random_chain(capacity, 1)
    rng = np.random.default_rng(2)
    for reference in (0, chain.space.size // 2, chain.space.size - 1):
        matrix = -dense_generator(chain)
        matrix[reference, :] = matrix[:, reference] = 0.0
        matrix[reference, reference] = 1.0
        rest = rng.normal(size=chain.space.size)
        kept = rest.copy()
        factors = factors_of(chain, kind, reference)
        assert factors.right(rest) == pytest.approx(np.linalg.solve(matrix, rest), rel=1e-9, abs=1e-11)
        assert factors.left(rest) == pytest.approx(np.linalg.solve(matrix.T, rest), rel=1e-9, abs=1e-11)
        assert np.array_equal(rest, kept)


@pytest.mark.parametrize("capacity", CAPACITIES, ids=str)
def test_every_probability_is_exact(capacity: tuple[int, ...]) -> None:
    """Down to the least likely state, to all digits but a few: elimination subtracts on the diagonal only."""
    chain = random_chain(capacity, 3)
    assert chain.small
    exact = law_by_states_removed(dense_generator(chain))
    assert chain.distribution == pytest.approx(exact, rel=1e-11, abs=0.0)
    assert "_elimination" not in vars(chain)  # which is many times larger
    assert np.array_equal(chain.distribution, chain._factored)


@pytest.mark.parametrize("capacity", CAPACITIES, ids=str)
def test_values_and_corrections(capacity: tuple[int, ...]) -> None:
    """f + QV is J everywhere; and from any V, one correction leads there."""
    chain = random_chain(capacity, 4)
    matrix, cost = dense_generator(chain), chain.space.jobs.sum(axis=0)
    mean, values = chain.values(cost)
    assert mean == pytest.approx(float(law_by_states_removed(matrix) @ cost), rel=1e-12)
    assert cost + matrix @ values == pytest.approx(np.full(cost.size, mean), rel=1e-11)
    begun = np.random.default_rng(5).normal(size=cost.size)
    assert chain.apply(begun) == pytest.approx(matrix @ begun, rel=1e-11, abs=1e-11)
    ended = begun + chain.correction(cost + chain.apply(begun))
    assert cost + matrix @ ended == pytest.approx(np.full(cost.size, mean), rel=1e-9)


def test_a_reference_that_is_never_seen_again() -> None:
    """Class one is never served: it fills its room, and the states with less of it are left for good."""
    jobs = [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.5)) for name in ("one", "two")]
    system, space = cw.System(4.0, jobs), StateSpace((5, 6))
    cores = np.where(space.counts > 0, np.array([[0.0], [4.0]]), 0.0)
    chain = Chain(system, space, cores)
    law = chain.distribution.reshape(space.shape)
    alone = Chain(cw.System(4.0, jobs[1:]), StateSpace((6,)), cores[1:, :7])
    assert law[:5].sum() == pytest.approx(0.0, abs=1e-15)
    assert law[5] == pytest.approx(alone.distribution, rel=1e-12)


def test_an_unlikely_reference_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """At high load the state with a core for each job is rare; digits would be lost as one over it."""
    system = cw.load_system("paper:1").at_load(0.95)
    chain = Chain.under(cw.Whittle().on(system), system, StateSpace((20, 60)))
    monkeypatch.setattr(chains, "_LIKELY", 1.0)
    factors, prob = chain._elimination
    assert factors.reference == int(np.argmax(prob)) != chain._typical


def test_work_is_that_of_the_narrowest_band() -> None:
    """The longest side goes first, whichever it is."""
    assert band_work(StateSpace((9, 99))) == band_work(StateSpace((99, 9))) == 4.0 * 1000 * 10**2
