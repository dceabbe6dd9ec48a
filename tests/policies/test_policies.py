"""Who holds how many cores: each rule by its definition, at states where the answer can be written down."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.kit.arrays import Floats
from corewise.model.space import StateSpace
from corewise.policies.base import BoundPolicy, bind, tabulate
from corewise.policies.rounding import round_cores
from tests.helpers import naive


def system_of(*curves: cw.SpeedUp, cores: float = 12.0, **columns: tuple[float, ...]) -> cw.System:
    """Classes a, b, c … with these curves; `sizes` and `weights` by class, one if not given."""
    sizes = columns.get("sizes", (1.0,) * len(curves))
    weights = columns.get("weights", (1.0,) * len(curves))
    classes = [cw.JobClass("abcdefgh"[i], 0.1, sizes[i], curve, weights[i]) for i, curve in enumerate(curves)]
    return cw.System(cores, classes)


def held(policy: cw.Policy, system: cw.System, *counts: int) -> list[float]:
    return [float(x) for x in policy.on(system).allocate(counts)]


MIXED = system_of(
    cw.Amdahl(0.9),
    cw.PowerLaw(0.4),
    cw.Tabulated([(2, 1.8), (6, 3.0)]),
    cw.Usl(0.1, 0.01),
    cores=7.0,
    sizes=(1.0, 2.0, 0.5, 1.0),
    weights=(1.0, 1.0, 3.0, 2.0),
)
EVERY: list[cw.Policy] = [
    cw.Equi(),
    cw.Fixed([0.1, 0.0, 0.7, 0.2]),
    cw.Priority(["c", "a", "d", "b"]),
    cw.Greedy(),
    cw.Whittle(),
    cw.WholeCores(cw.Equi()),
    cw.WholeCores(cw.Fixed([0.1, 0.0, 0.7, 0.2])),
    cw.WholeCores(cw.Greedy()),
    cw.WholeCores(cw.Whittle()),
]


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: str(policy.name))
def test_no_core_is_idle_and_none_is_held_by_nobody(policy: cw.Policy) -> None:
    counts = naive.states((3, 4, 3, 9))
    cores = policy.on(MIXED).allocate(counts)
    assert cores.shape == counts.shape
    assert cores.min() >= 0.0
    assert not cores[counts == 0].any()
    assert not cores[0].any()
    assert np.allclose(cores[1:].sum(axis=1), 7.0, rtol=0, atol=1e-9)


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: str(policy.name))
def test_counts_may_have_any_leading_shape(policy: cw.Policy) -> None:
    bound = policy.on(MIXED)
    counts = np.random.default_rng(1).integers(0, 5, (2, 3, 5, 4))
    cores = bound.allocate(counts)
    assert cores.shape == (2, 3, 5, 4)
    for place in ((0, 0, 0), (1, 2, 4), (0, 1, 3)):
        assert np.array_equal(bound.allocate(counts[place].tolist()), cores[place])
    assert bound.allocate(np.zeros((0, 4))).shape == (0, 4)
    assert np.array_equal(bound.allocate(counts.astype(float)), cores)
    assert np.array_equal(bound.allocate(counts.astype(np.uint8)), cores)


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: str(policy.name))
def test_a_table_over_a_box_holds_the_same(policy: cw.Policy) -> None:
    bound = policy.on(MIXED)
    space = StateSpace((2, 1, 3, 2))
    table = tabulate(bound, space)
    assert table.shape == (4, space.size)
    assert np.array_equal(table.T, bound.allocate(naive.states((2, 1, 3, 2))))


# --- EQUI, fixed shares, priority -----------------------------------------------------------------


def test_equi_gives_every_job_the_same() -> None:
    system = system_of(cw.Amdahl(0.1), cw.Amdahl(0.9), cw.PowerLaw(0.5), cores=12.0)
    assert held(cw.Equi(), system, 1, 2, 3) == [2.0, 4.0, 6.0]
    assert held(cw.Equi(), system, 0, 24, 0) == [0.0, 12.0, 0.0]
    assert held(cw.Equi(), system, 0, 0, 0) == [0.0, 0.0, 0.0]


def test_fixed_shares_of_absent_classes_go_in_proportion() -> None:
    system = system_of(cw.Amdahl(0.1), cw.Amdahl(0.9), cw.PowerLaw(0.5), cores=12.0)
    policy = cw.Fixed([0.25, 0.5, 0.25])
    assert held(policy, system, 9, 1, 1) == [3.0, 6.0, 3.0]
    assert held(policy, system, 1, 0, 5) == [6.0, 0.0, 6.0]
    assert held(policy, system, 1, 7, 0) == [4.0, 8.0, 0.0]
    assert held(policy, system, 0, 0, 2) == [0.0, 0.0, 12.0]


def test_a_class_without_a_share_gets_cores_only_when_alone() -> None:
    system = system_of(cw.Amdahl(0.1), cw.Amdahl(0.9), cw.PowerLaw(0.5), cores=12.0)
    policy = cw.Fixed([0.0, 1.0, 0.0])
    assert held(policy, system, 3, 1, 1) == [0.0, 12.0, 0.0]
    assert held(policy, system, 3, 0, 1) == [9.0, 0.0, 3.0]
    assert held(policy, system, 0, 0, 1) == [0.0, 0.0, 12.0]


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ([0.5, 0.4], r"must sum to one, got \[0.5, 0.4\], which sum to 0.9$"),
        ([1.5, -0.5], r"fixed share must lie in \[0, 1\], got 1.5"),
        ([math.nan, 1.0], "fixed share must be finite, got nan"),
        ([True, 0.0], "fixed share must be a number, got True"),
        (["1", 0.0], "fixed share must be a number, got '1'"),
        ([], "must sum to one, got "),
        ("0.5,0.5", "must be a list of numbers, got '0.5,0.5'"),
        (0.5, "must be a list of numbers, got 0.5"),
    ],
)
def test_bad_shares_are_refused(shares: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidPolicy, match=message):
        cw.Fixed(shares)


def test_as_many_shares_as_classes() -> None:
    with pytest.raises(
        cw.errors.InvalidPolicy, match=r"fixed:0.5,0.5 has 2 shares, the system has 4 classes: a, b, c, d"
    ):
        cw.Fixed([0.5, 0.5]).on(MIXED)


def test_priority_gives_all_to_the_first_class_present() -> None:
    system = system_of(cw.Amdahl(0.0), cw.Amdahl(0.9), cw.PowerLaw(0.5), cores=12.0)
    policy = cw.Priority(["c", "a", "b"])
    assert held(policy, system, 5, 5, 1) == [0.0, 0.0, 12.0]
    assert held(policy, system, 1, 5, 0) == [12.0, 0.0, 0.0]
    assert held(policy, system, 0, 5, 0) == [0.0, 12.0, 0.0]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["a", "b", "c"], "priority:a,b,c: class 'd' is missing; name every class once"),
        (["a", "b", "c", "d", "e"], "unknown class 'e'; known: a, b, c, d"),
        ([], "class 'a' is missing"),
        ("a", "priority:a: class 'b' is missing"),
    ],
)
def test_priority_names_every_class_once(order: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidPolicy, match=message):
        cw.Priority(order).on(MIXED)


@pytest.mark.parametrize(
    ("order", "message"),
    [(["a", "a"], "names class 'a' twice"), ([1], "needs names .* got 1"), (None, "got None")],
)
def test_priority_is_a_list_of_different_names(order: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidPolicy, match=message):
        cw.Priority(order)


# --- GREEDY* --------------------------------------------------------------------------------------


def test_greedy_equalises_the_marginal_rates() -> None:
    """Amdahl p: mu p/((1-p) z + p)^2 equal; with p = 1/2 and sizes 4 : 1 that is z_a + 1 = 2 (z_b + 1)."""
    system = system_of(cw.Amdahl(0.5), cw.Amdahl(0.5), cores=11.0, sizes=(4.0, 1.0))
    assert held(cw.Greedy(), system, 1, 1) == pytest.approx([23 / 3, 10 / 3], abs=1e-12)
    assert held(cw.Greedy(), system, 2, 1) == pytest.approx([9.2, 1.8], abs=1e-12)
    assert held(cw.Greedy(), system, 4, 1) == pytest.approx([10.0, 1.0], abs=1e-12)


def test_greedy_with_weights_is_greedy_with_sizes() -> None:
    """Only h mu matters."""
    one = system_of(cw.Amdahl(0.7), cw.PowerLaw(0.5), cw.Gustafson(0.2), sizes=(6.0, 1.0, 2.0))
    two = system_of(cw.Amdahl(0.7), cw.PowerLaw(0.5), cw.Gustafson(0.2), weights=(6.0, 1.0, 2.0))
    counts = naive.states((4, 4, 4))
    assert np.array_equal(cw.Greedy().on(one).allocate(counts), cw.Greedy().on(two).allocate(counts))
    other = system_of(cw.Amdahl(0.7), cw.PowerLaw(0.5), cw.Gustafson(0.2))
    assert not np.allclose(cw.Greedy().on(one).allocate(counts), cw.Greedy().on(other).allocate(counts))


def test_greedy_serves_three_kinds_least_parallel_first() -> None:
    """p = 0, 1/2, 1 and more jobs than cores: first cores in that order, whatever that of the classes."""
    curves = {"none": cw.Amdahl(0.0), "half": cw.Amdahl(0.5), "all": cw.Amdahl(1.0)}
    for names in (("none", "half", "all"), ("all", "none", "half")):
        system = system_of(*(curves[name] for name in names), cores=5.0)
        counts = {"none": 3, "half": 4, "all": 2}
        cores = dict(zip(names, held(cw.Greedy(), system, *(counts[name] for name in names)), strict=True))
        assert cores == pytest.approx({"none": 3.0, "half": 2.0, "all": 0.0}, abs=1e-12)


# --- Whittle --------------------------------------------------------------------------------------


def test_whittle_sells_amdahl_widths_at_one_price() -> None:
    """NUMERICS: z = max(1, sqrt(h p/((1-p) l))); odds 9 and 1 and weights 1 and 4 give widths of 3 : 2."""
    system = system_of(cw.Amdahl(0.9), cw.Amdahl(0.5), cores=26.0, sizes=(0.3, 5.0), weights=(1.0, 4.0))
    assert held(cw.Whittle(), system, 2, 1) == pytest.approx([19.5, 6.5], abs=1e-12)
    assert held(cw.Whittle(), system, 4, 7) == pytest.approx([12.0, 14.0], abs=1e-12)
    # At (6, 17) widths of 3 : 2 would leave class b below one core: it stops at one, class a takes the rest.
    assert held(cw.Whittle(), system, 6, 17) == pytest.approx([9.0, 17.0], abs=1e-12)


def test_whittle_sells_power_widths_at_one_price() -> None:
    """NUMERICS: z = max(1, h p/((1-p) l)); odds 4 and 1, weights 1 and 2: widths 2 : 1."""
    system = system_of(cw.PowerLaw(0.8), cw.PowerLaw(0.5), cores=20.0, sizes=(0.3, 5.0), weights=(1.0, 2.0))
    assert held(cw.Whittle(), system, 3, 4) == pytest.approx([12.0, 8.0], abs=1e-9)
    assert held(cw.Whittle(), system, 1, 18) == pytest.approx([2.0, 18.0], abs=1e-9)
    assert held(cw.Whittle(), system, 1, 19) == pytest.approx([1.0, 19.0], abs=1e-9)


def test_whittle_between_the_two_families() -> None:
    """Amdahl z = sqrt(9/l), power z = 4/l; at l = 1 they are 3 and 4."""
    system = system_of(cw.Amdahl(0.9), cw.PowerLaw(0.8), cores=17.0)
    assert held(cw.Whittle(), system, 3, 2) == pytest.approx([9.0, 8.0], abs=1e-9)


def test_whittle_with_other_curves_equalises_the_index() -> None:
    """USL and a table: no class would pay more for a little than another saves with a little less."""
    system = system_of(cw.Usl(0.05, 0.01), cw.Tabulated([(2, 1.9), (4, 3.4), (9, 5.0)]), cores=20.0)
    cores = held(cw.Whittle(), system, 2, 3)

    def price(i: int, z: float) -> float:
        curve = system.classes[i].speedup
        slope, speed = float(curve.slope(z)), float(curve.rate(z))
        return slope / (speed - z * slope)

    for i, j in ((0, 1), (1, 0)):
        more, less = cores[i] / (2 + i) * (1 + 1e-4), cores[j] / (2 + j) * (1 - 1e-4)
        assert price(i, more) <= price(j, less) * 1.001


@pytest.mark.parametrize(
    ("counts", "cores"),
    [((9, 1), [9.0, 1.0]), ((2, 20), [2.0, 8.0]), ((13, 5), [10.0, 0.0]), ((10, 3), [10.0, 0.0])],
)
def test_whittle_with_more_jobs_than_cores(counts: tuple[int, int], cores: list[float]) -> None:
    """One core each, largest h mu first, though its jobs are the more parallel ones."""
    system = system_of(cw.Amdahl(0.9), cw.Amdahl(0.1), cores=10.0, sizes=(1.0, 4.0), weights=(9.0, 2.0))
    assert held(cw.Whittle(), system, *counts) == pytest.approx(cores, abs=1e-12)


def test_whittle_ranks_equal_values_by_parallelisability() -> None:
    """h mu = 2 for all: the class that is slowest on all cores comes first, in any order of the classes."""
    curves = [cw.PowerLaw(0.6), cw.Amdahl(0.2), cw.Usl(0.1, 0.01)]  # s(6) = 2.93, 1.2, 3.33
    system = system_of(*curves, cores=6.0, sizes=(2.0, 1.0, 4.0), weights=(1.0, 2.0, 0.5))
    assert held(cw.Whittle(), system, 4, 3, 9) == pytest.approx([3.0, 3.0, 0.0], abs=1e-12)
    assert held(cw.Whittle(), system, 1, 3, 9) == pytest.approx([1.0, 3.0, 2.0], abs=1e-12)
    turned = system_of(*curves[::-1], cores=6.0, sizes=(4.0, 1.0, 2.0), weights=(0.5, 2.0, 1.0))
    assert held(cw.Whittle(), turned, 9, 3, 4) == pytest.approx([0.0, 3.0, 3.0], abs=1e-12)


def test_whittle_gives_the_rest_to_the_perfectly_parallel() -> None:
    """After one core each; among p = 1 classes of any family to the largest h mu."""
    system = system_of(cw.Amdahl(0.99), cw.Amdahl(1.0), cw.PowerLaw(1.0), cores=20.0, sizes=(9.0, 1.0, 2.0))
    assert held(cw.Whittle(), system, 3, 2, 1) == pytest.approx([3.0, 2.0, 15.0], abs=1e-12)
    assert held(cw.Whittle(), system, 3, 2, 0) == pytest.approx([3.0, 17.0, 0.0], abs=1e-12)
    assert held(cw.Whittle(), system, 3, 0, 0) == pytest.approx([20.0, 0.0, 0.0], abs=1e-12)
    assert held(cw.Whittle(), system, 19, 2, 1) == pytest.approx([19.0, 0.0, 1.0], abs=1e-12)


def test_whittle_fills_the_straight_part_of_a_table_first() -> None:
    """s(z) = z up to 3 cores: those are taken before anything is sold."""
    system = system_of(cw.Tabulated([(3, 3), (9, 4)]), cw.Amdahl(0.99), cores=10.0)
    assert held(cw.Whittle(), system, 2, 4) == pytest.approx([6.0, 4.0], abs=1e-12)
    first, second = held(cw.Whittle(), system, 2, 1)
    assert first == pytest.approx(6.0, abs=1e-9)
    assert second == pytest.approx(4.0, abs=1e-9)


@pytest.mark.parametrize("policy", [cw.Whittle(), cw.Greedy()], ids=["whittle", "greedy"])
@pytest.mark.parametrize(
    "curve", [cw.Amdahl(0.0), cw.Amdahl(0.8), cw.Amdahl(1.0), cw.PowerLaw(0.5), cw.Usl(0.1, 0.02)], ids=repr
)
def test_equal_classes_are_treated_alike(policy: cw.Policy, curve: cw.SpeedUp) -> None:
    """In proportion to their jobs, as if they were one class."""
    system = system_of(curve, curve, curve, cores=9.0)
    counts = naive.states((5, 5, 5))[1:]
    expected = 9.0 * counts / counts.sum(axis=1, keepdims=True)
    assert np.allclose(policy.on(system).allocate(counts), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("cores", [0.3, 1.0])
def test_with_no_more_than_one_core(cores: float) -> None:
    """Whittle and GREEDY*: all to the class worth most."""
    system = system_of(cw.Amdahl(0.9), cw.PowerLaw(0.1), cores=cores, sizes=(1.0, 2.0))
    for policy in (cw.Whittle(), cw.Greedy()):
        assert held(policy, system, 3, 1) == pytest.approx([0.0, cores], abs=1e-12)
        assert held(policy, system, 3, 0) == pytest.approx([cores, 0.0], abs=1e-12)


# --- whole cores ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", EVERY[:5], ids=lambda policy: str(policy.name))
def test_whole_cores_are_integers_near_the_fractions(policy: cw.Policy) -> None:
    counts = naive.states((3, 4, 3, 9))
    exact = policy.on(MIXED).allocate(counts)
    whole = cw.WholeCores(policy).on(MIXED).allocate(counts)
    assert np.array_equal(whole, np.rint(whole))
    assert np.array_equal(whole[1:].sum(axis=1), np.full(len(counts) - 1, 7.0))
    assert np.abs(whole - exact).max() < 1.0 + 1e-9
    assert cw.WholeCores(policy).name == f"{policy.name}, whole cores"


@pytest.mark.parametrize(
    ("fractions", "whole"),
    [
        ([1.5, 2.5, 3.0], [2, 2, 3]),
        ([0.4, 0.4, 0.2], [1, 0, 0]),
        ([2.2, 2.7, 2.1], [2, 3, 2]),
        ([1 - 1e-12, 2 + 1e-12, 3.0], [1, 2, 3]),
        ([0.75, 0.75, 0.5], [1, 1, 0]),
        ([0.0, 0.0, 0.0], [0, 0, 0]),
    ],
)
def test_the_largest_remainders_are_rounded_up(fractions: list[float], whole: list[int]) -> None:
    assert round_cores(np.array(fractions)[:, None])[:, 0].tolist() == whole


def test_an_absent_class_gets_no_core_by_rounding() -> None:
    """Eight classes and five cores: more classes than cores, and many of them absent."""
    system = system_of(*(cw.Amdahl(0.5) for _ in range(8)), cores=5.0)
    counts = np.random.default_rng(2).integers(0, 2, (300, 8))
    cores = cw.WholeCores(cw.Equi()).on(system).allocate(counts)
    assert not cores[counts == 0].any()
    assert np.array_equal(cores.sum(axis=1), np.where(counts.any(axis=1), 5.0, 0.0))


def test_whole_cores_need_a_whole_number() -> None:
    system = system_of(cw.Amdahl(0.5), cores=2.5)
    with pytest.raises(cw.errors.InvalidSystem, match=r"whole cores need a whole number of cores, got 2\.5"):
        cw.WholeCores(cw.Equi()).on(system)
    with pytest.raises(cw.errors.InvalidPolicy, match="expected a policy such as Equi"):
        cw.WholeCores(5).on(MIXED)  # type: ignore[arg-type]


# --- binding --------------------------------------------------------------------------------------


def test_a_bound_policy_keeps_its_system() -> None:
    believed = system_of(cw.Amdahl(0.9), cw.Amdahl(0.1))
    truth = system_of(cw.Amdahl(0.1), cw.Amdahl(0.9))
    for policy in (cw.Whittle(), cw.WholeCores(cw.Whittle())):
        bound = policy.on(believed)
        again = bind(bound, truth)
        assert again is bound
        assert again.system is believed
        assert np.array_equal(again.allocate([1, 1]), policy.on(believed).allocate([1, 1]))
        assert not np.array_equal(again.allocate([1, 1]), policy.on(truth).allocate([1, 1]))
    rounded = cw.WholeCores(cw.Whittle().on(believed)).on(truth)
    assert rounded.system is believed
    assert np.array_equal(rounded.allocate([1, 1]), cw.WholeCores(cw.Whittle()).on(believed).allocate([1, 1]))


def test_a_bound_policy_does_not_fit_another_pool() -> None:
    bound = cw.Equi().on(system_of(cw.Amdahl(0.5), cw.Amdahl(0.5), cores=12.0))
    with pytest.raises(cw.errors.InvalidPolicy, match="the policy is for 12 cores, the system has 8"):
        bound.on(system_of(cw.Amdahl(0.5), cw.Amdahl(0.5), cores=8.0))
    with pytest.raises(
        cw.errors.InvalidPolicy, match="the policy is for classes a, b; the system has a, b, c"
    ):
        bound.on(system_of(cw.Amdahl(0.5), cw.Amdahl(0.5), cw.Amdahl(0.5), cores=12.0))
    turned = cw.System(12.0, bound.system.classes[::-1])
    with pytest.raises(cw.errors.InvalidPolicy, match="the policy is for classes a, b; the system has b, a"):
        bound.on(turned)


def test_rules_are_policies_and_their_classes_are_not() -> None:
    for policy in EVERY:
        assert isinstance(policy, cw.Policy)
        assert isinstance(policy.on(MIXED), cw.Policy)
    with pytest.raises(cw.errors.InvalidPolicy, match="expected a policy such as Equi"):
        bind(cw.Equi, MIXED)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "counts",
    [
        3,
        None,
        "abcd",
        [1, 2, 3],
        [1, 2, 3, 4, 5],
        [1, 2, 3, -1],
        [1, 2, 3, 0.5],
        [1, 2, 3, math.nan],
        [1, 2, 3, math.inf],
        [1, 2, 3, 1e300],
        [1, 2, 3, 2**63],
        [1, 2, 3, 10**30],
        [True, False, True, True],
        ["1", "2", "3", "4"],
        [1, 2, 3, None],
        [1, 2, 3, 1j],
        [[1, 2, 3, 4], [1, 2]],
        {1, 2, 3, 4},
    ],
    ids=repr,
)
def test_bad_counts_are_refused(counts: Any) -> None:
    """With the project's own error, and no warning of NumPy's on the way."""
    for policy in (cw.Equi(), cw.Whittle()):
        with pytest.raises(cw.errors.InvalidInput, match="counts must"):
            policy.on(MIXED).allocate(counts)


@pytest.mark.parametrize(
    "policy", [cw.Equi(), cw.Greedy(), cw.Whittle()], ids=lambda policy: str(policy.name)
)
def test_very_many_jobs(policy: cw.Policy) -> None:
    cores: Floats = policy.on(MIXED).allocate([10**12, 1, 10**15, 3])
    assert cores.min() >= 0.0
    assert cores.sum() == pytest.approx(7.0, rel=1e-9)


# --- policies of one's own ------------------------------------------------------------------------

PAIR = system_of(cw.Amdahl(0.3), cw.Amdahl(0.8), cores=12.0, sizes=(1.0, 3.0))
AMONG = np.array([[1, 1], [2, 0], [0, 3], [4, 5]])


def shared(jobs: Any, system: cw.System) -> Any:
    """EQUI, for one state or for rows of them."""
    return system.cores * jobs / jobs.sum(axis=-1, keepdims=True)


def first_come(jobs: Any, system: cw.System) -> list[int]:
    """Priority to the first class, in plain Python: nothing of it works for arrays."""
    return [int(system.cores), 0] if jobs[0] > 0 else [0, int(system.cores)]


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_function_of_the_state_is_a_policy(vectorised: bool) -> None:
    own = cw.OwnPolicy("shared", shared, vectorised=vectorised)
    assert isinstance(own, cw.Policy)
    bound = own.on(PAIR)
    assert bound.allocate([3, 1]).tolist() == [9.0, 3.0]
    assert bound.allocate([0, 0]).tolist() == [0.0, 0.0]  # where the function would divide by zero
    assert bound.allocate(np.zeros((0, 2))).shape == (0, 2)
    assert np.array_equal(bound.allocate(AMONG), cw.Equi().on(PAIR).allocate(AMONG))
    assert cw.evaluate(PAIR, own).mean_jobs == pytest.approx(cw.evaluate(PAIR, "equi").mean_jobs, rel=1e-12)
    ours, theirs = (cw.simulate(PAIR, policy, departures=300, rng=1) for policy in (own, cw.Equi()))
    assert ours.mean_jobs == theirs.mean_jobs


def test_a_function_in_plain_python_is_a_policy() -> None:
    own = cw.OwnPolicy("first", first_come)
    strict = cw.Priority(["a", "b"])
    assert np.array_equal(own.on(PAIR).allocate(AMONG), strict.on(PAIR).allocate(AMONG))
    assert cw.evaluate(PAIR, own).mean_jobs == cw.evaluate(PAIR, strict).mean_jobs
    assert cw.WholeCores(own).on(PAIR).allocate([1, 1]).tolist() == [12.0, 0.0]


@pytest.mark.parametrize(
    ("rule", "one", "many"),
    [
        (
            lambda counts: 12.0 * counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1),
            "no split of 12",
            "no split of 12",
        ),
        (
            lambda counts: 4.0 * counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1),
            "",
            "in state [1, 1] it gives [0.5714285714285714, 0.4444444444444444] among other states and "
            "[4.0, 4.0] alone",
        ),
        (
            lambda counts: (12.0 * counts / np.maximum(counts.sum(axis=0), 1)).T,
            "gives an array of shape (1, 2) for counts of shape (2, 1)",
            "gives an array of shape (4, 2) for counts of shape (2, 4)",
        ),
        (
            lambda counts: [12.0, 0.0] if counts[0] else [0.0, 12.0],
            "gives an array of shape (2,) for counts of shape (2, 1)",
            "rule fails for counts of shape (2, 4) (The truth value of an array",
        ),
        (lambda counts: np.full(counts.shape, np.nan), "cores [nan, nan] in state [1, 1]", "no split of 12"),
        (lambda counts: np.full(counts.shape, -1), "cores [-1.0, -1.0] in state [1, 1]", "no split of 12"),
        (lambda counts: np.full(counts.shape, "all"), "gives <U3 values", "gives <U3 values"),
        (lambda counts: None, "gives object values", "gives object values"),
    ],
    ids=["last axis", "last axis, idle", "transposed", "of one state", "nan", "negative", "text", "None"],
)
def test_a_rule_along_the_wrong_axis_is_refused(rule: Any, one: str, many: str) -> None:
    """In one state or several; also where every answer is a split, if it depends on the states beside it."""
    own = BoundPolicy(PAIR, "own", rule)
    if one:
        with pytest.raises(cw.errors.InvalidPolicy) as error:
            own.allocate([1, 1])
        assert one in str(error.value)
    for asked in (own, cw.WholeCores(own).on(PAIR)):
        with pytest.raises(cw.errors.InvalidPolicy) as error:
            asked.allocate(AMONG)
        assert "a row for each class and a column for each state" in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(cw.errors.InvalidPolicy) as error:
        own.allocate(AMONG)
    assert many in str(error.value)
    with pytest.raises(cw.errors.InvalidPolicy, match="own: "):
        cw.evaluate(PAIR, own)


def test_a_rule_that_idles_cores_is_a_policy() -> None:
    """Negative control: what is refused above is not the idle cores."""
    own = BoundPolicy(PAIR, "own", lambda counts: 4.0 * counts / np.maximum(counts.sum(axis=0), 1))
    assert own.allocate(AMONG).tolist() == [[2.0, 2.0], [4.0, 0.0], [0.0, 4.0], [16 / 9, 20 / 9]]


@pytest.mark.parametrize(
    ("split", "told"),
    [
        (
            lambda jobs, system: [1 / 0, 0.0],
            "own: split fails for [1, 1] (ZeroDivisionError: division by zero)",
        ),
        (lambda jobs: jobs, "own: split fails for [1, 1] (TypeError: "),
        (lambda jobs, system: 12.0, "own: split must give 2 numbers a state, got 12.0 for [1, 1]"),
        (lambda jobs, system: "all", "own: split must give 2 numbers a state, got 'all' for [1, 1]"),
        (lambda jobs, system: [12.0, 12.0], "own: cores [12.0, 12.0] in state [1, 1] are no split of 12"),
    ],
)
def test_a_function_that_gives_no_split_is_refused(split: Any, told: str) -> None:
    with pytest.raises(cw.errors.InvalidPolicy) as error:
        cw.OwnPolicy("own", split).on(PAIR).allocate([1, 1])
    assert str(error.value).startswith(told)


class Nameless(cw.Policy):
    """A policy by its base alone."""


class Unbound(cw.Policy):
    """It says how to allocate, and not how to be bound."""

    name = "unbound"

    def allocate(self, counts: Any) -> Any:
        return counts


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: cw.evaluate(PAIR, Nameless()), "the name of a policy must be text, got None"),  # type: ignore[abstract]
        (lambda: cw.simulate(PAIR, Unbound(), departures=1), "unbound: on(system) must return a BoundPolicy"),  # type: ignore[abstract]
        (lambda: cw.OwnPolicy(3, shared), "the name of a policy must be text, got 3"),  # type: ignore[arg-type]
        (lambda: cw.OwnPolicy("own", [6, 6]), "own: split must be a function of jobs and system"),  # type: ignore[arg-type]
        (lambda: BoundPolicy(PAIR, "own", [6, 6]), "own: its rule must be a function, got [6, 6]"),  # type: ignore[arg-type]
        (lambda: BoundPolicy(PAIR, None, shared), "the name of a policy must be text, got None"),  # type: ignore[arg-type]
    ],
)
def test_an_object_that_is_no_policy_gets_the_projects_own_error(make: Any, told: str) -> None:
    with pytest.raises(cw.errors.InvalidPolicy) as error:
        make()
    assert str(error.value).startswith(told)
