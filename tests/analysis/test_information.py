"""Fisher information of a curve's parameters: I = sum over states of pi(n) n mu (ds/dp)(ds/dp)' / s.

The departures of a class are a point process of intensity n mu s(z; p), the paper's (3.1); the rest follows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import corewise as cw
from tests.helpers import naive

Build = Callable[[naive.Model], cw.System]

# NUMERICS: information per departure under the optimal policy, and sd * sqrt(M), classes 1 and 2.
PRINTED = {
    1: ((30, 1.4, 2.6, 2.5, 0.3, 0.8), (1.67, 16.5), (0.773, 0.247)),
    2: ((10, 1.2, 0.8, 1.5, 0.4, 0.85), (1.54, 11.6), (0.806, 0.293)),
    3: ((20, 1.3, 0.7, 1.0, 0.4, 0.7), (1.92, 6.62), (0.722, 0.389)),
}
CURVES = {
    "amdahl": naive.amdahl(0.7),
    "power": naive.power(0.6),
    "gustafson": naive.gustafson(0.4),
    "usl": naive.usl(0.1, 0.01),
}
Expected = tuple[naive.Floats, naive.Floats, float]


def gradient(curve: naive.Curve, z: naive.Floats) -> naive.Floats:
    """ds/dp by central differences, one column per parameter."""
    columns = []
    for k, value in enumerate(curve.parameters):
        step = 1e-6 * max(value, 0.1)
        moved = []
        for sign in (1, -1):
            parameters = list(curve.parameters)
            parameters[k] += sign * step
            moved.append(naive.Curve(curve.family, tuple(parameters))(z))
        columns.append((moved[0] - moved[1]) / (2 * step))
    return np.stack(columns, axis=-1)


def information(model: naive.Model, capacity: tuple[int, ...], table: naive.Floats, i: int) -> Expected:
    """Per unit of time, per departure, and departures per unit of time, of class i."""
    counts = naive.states(capacity)
    result = naive.evaluate(model, capacity, table)
    n = counts[:, i]
    some = n > 0
    job = model.jobs[i]
    z = table[some, i] / n[some]
    slopes = gradient(job.curve, z)
    weights = result.distribution[some] * n[some] * job.size / np.maximum(job.curve(z), 1e-300)
    per_time = np.einsum("s,si,sj->ij", np.where(z > 0, weights, 0.0), slopes, slopes)
    rate = float(result.throughput[i])
    return per_time, per_time / rate, rate


@pytest.mark.parametrize("number", PRINTED)
def test_examples_of_the_paper(as_system: Build, number: int) -> None:
    """The digits printed in NUMERICS, and the twin's sum, under the optimal policy."""
    (c, first, second, mu, p1, p2), printed, spread = PRINTED[number]
    model = naive.two(c, (first, second), (mu, mu), (naive.amdahl(p1), naive.amdahl(p2)))
    system = as_system(model)
    ours = cw.fisher_information(system, cw.solve(system).policy)
    _, table = naive.optimum(model, 25)
    for i, name in enumerate(model.names):
        per_time, per_departure, _ = information(model, (25, 25), table, i)
        assert np.asarray(ours[name].per_departure) == pytest.approx(per_departure, rel=1e-6)
        assert np.asarray(ours[name].per_time) == pytest.approx(per_time, rel=1e-6)
        digits = 2 if printed[i] < 10 else 1
        assert round(float(np.asarray(ours[name].per_departure)[0, 0]), digits) == printed[i]
        assert round(deviation(ours[name].stderr(1)), 3) == spread[i]
        assert deviation(ours[name].stderr(400)) == pytest.approx(per_departure[0, 0] ** -0.5 / 20, rel=1e-6)


def deviation(stderr: object) -> float:
    """The one number of a one-parameter curve, however it is packed."""
    values = list(stderr.values()) if isinstance(stderr, dict) else list(np.ravel(np.asarray(stderr)))
    assert len(values) == 1
    return float(values[0])


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())
@pytest.mark.parametrize("boxed", [True, False])
def test_every_family_against_the_sum_over_states(as_system: Build, curve: naive.Curve, boxed: bool) -> None:
    """EQUI, two classes; with a box, departures are the accepted jobs only."""
    model = naive.two(6.0, (1.8, 1.2), (1.0, 0.9), (curve, naive.amdahl(0.5)))
    capacity = (8, 6) if boxed else (60, 60)
    table = naive.equi(model, naive.states(capacity))
    ours = cw.fisher_information(as_system(model), cw.Equi(), capacity=capacity if boxed else None)
    for i, name in enumerate(model.names):
        per_time, per_departure, rate = information(model, capacity, table, i)
        assert np.asarray(ours[name].per_time) == pytest.approx(per_time, rel=1e-6)
        assert np.asarray(ours[name].per_departure) == pytest.approx(per_departure, rel=1e-6)
        assert boxed == (rate < model.jobs[i].arrival - 1e-4)
    assert len(ours["class0"].parameters) == len(curve.parameters)


def test_two_parameters_have_a_matrix_and_a_joint_bound(as_system: Build) -> None:
    """USL: a positive definite matrix; the Cramer-Rao bound is the diagonal of the inverse."""
    model = naive.two(8.0, (2.0,), (1.0,), (naive.usl(0.1, 0.01),))
    ours = cw.fisher_information(as_system(model), cw.Equi())["class0"]
    matrix = np.asarray(ours.per_departure)
    assert tuple(ours.parameters) == ("sigma", "kappa")
    assert np.allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > 0
    _, expected, _ = information(model, (80,), naive.equi(model, naive.states((80,))), 0)
    assert matrix == pytest.approx(expected, rel=1e-5)
    stderr = ours.stderr(250)
    spread = list(stderr.values()) if isinstance(stderr, dict) else list(np.ravel(np.asarray(stderr)))
    assert spread == pytest.approx(np.sqrt(np.diag(np.linalg.inv(expected)) / 250), rel=1e-4)
    assert spread[0] > 1.05 / np.sqrt(250 * expected[0, 0])


@pytest.mark.parametrize(
    "curve", [naive.amdahl(0.7), naive.power(0.4), naive.gustafson(0.6)], ids=lambda c: c.family
)
def test_information_is_minus_the_curvature_of_the_expected_log_likelihood(
    as_system: Build, curve: naive.Curve
) -> None:
    """I = -d2/dq2 E[log-likelihood at q] at the truth, by differences; the first one vanishes."""
    model = naive.two(6.0, (1.6, 1.0), (1.0, 1.4), (curve, naive.amdahl(0.2)))
    capacity = (60, 60)
    counts = naive.states(capacity)
    table = naive.whittle(model, counts) if curve.family != "gustafson" else naive.equi(model, counts)
    law = naive.evaluate(model, capacity, table).distribution
    n = counts[:, 0]
    some = (n > 0) & (table[:, 0] > 0)
    z = table[some, 0] / n[some]
    exposure = law[some] * n[some] * model.jobs[0].size

    def likelihood(q: float) -> float:
        s = naive.Curve(curve.family, (q,))(z)
        return float(exposure @ (curve(z) * np.log(s) - s))

    p, h = curve.parameters[0], 1e-3
    curvature = (likelihood(p + h) - 2 * likelihood(p) + likelihood(p - h)) / h**2
    policy: cw.Policy = cw.Whittle() if curve.family != "gustafson" else cw.Equi()
    ours = cw.fisher_information(as_system(model), policy)["class0"]
    assert float(np.asarray(ours.per_time)[0, 0]) == pytest.approx(-curvature, rel=1e-4)
    assert (likelihood(p + h) - likelihood(p - h)) / (2 * h) == pytest.approx(0, abs=1e-4)


def test_no_information_below_one_core_a_job(as_system: Build) -> None:
    """s(z) = z up to one core: a class that never holds more says nothing about its curve."""
    model = naive.two(1.0, (0.3, 0.3), (1.0, 1.0), (naive.amdahl(0.5), naive.power(0.5)))
    ours = cw.fisher_information(as_system(model), cw.Equi())
    for name in model.names:
        assert np.asarray(ours[name].per_time)[0, 0] == 0
        with pytest.raises(cw.CorewiseError, match=name):  # no bound exists: said, not an infinity
            ours[name].stderr(100)


def test_the_policy_decides_what_is_learned(as_system: Build) -> None:
    """Serving a class last keeps its jobs waiting together, hence narrow: less is learned about its curve."""
    model = naive.two(6.0, (1.5, 1.5), (1.0, 1.0), (naive.amdahl(0.8), naive.amdahl(0.8)))
    system = as_system(model)
    first = cw.fisher_information(system, cw.Priority(("class0", "class1")))
    last = cw.fisher_information(system, cw.Priority(("class1", "class0")))
    capacity = (60, 60)
    for ours, order in ((first, (0, 1)), (last, (1, 0))):
        table = naive.priority(model, naive.states(capacity), order)
        _, expected, _ = information(model, capacity, table, 0)
        assert np.asarray(ours["class0"].per_departure) == pytest.approx(expected, rel=1e-6)
    assert np.asarray(first["class0"].per_departure)[0, 0] > np.asarray(last["class0"].per_departure)[0, 0]
