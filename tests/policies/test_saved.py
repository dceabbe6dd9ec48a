"""Saved policies, in a file or a journal: they come back as they were, or are refused."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.control.improve.improved import improve
from corewise.errors import InvalidFile, InvalidPolicy
from corewise.kit.archive import packed
from corewise.live.journal.journal import Journal
from corewise.model.files import system_to_mapping
from corewise.policies.base import BoundPolicy, bind, policy_named
from corewise.policies.fitted.rule import Fitted
from corewise.policies.saved import load_policy, policy_from_bytes, policy_to_bytes, save_policy

BELIEVED = cw.System(
    8, [cw.JobClass("a", 1.0, 4.0, cw.Amdahl(0.2)), cw.JobClass("b", 0.5, 1.0, cw.Usl(0.1, 0.01), weight=2.0)]
)
STATES = np.array([[1, 0], [0, 3], [1, 1], [4, 2], [30, 40]])


@pytest.mark.parametrize("rule", ["equi", "greedy", "whittle", "fixed:0.25,0.75", "priority:b,a"])
def test_a_rule_comes_back_with_its_system(tmp_path: Path, rule: str) -> None:
    policy = bind(policy_named(rule, BELIEVED), BELIEVED)
    with Journal.open(tmp_path / "pool.db", {}) as journal:
        digest = journal.put_policy(policy_to_bytes(policy))
        again = policy_from_bytes(journal.policy(digest), digest)
    assert again.name == rule
    assert system_to_mapping(again.system) == system_to_mapping(BELIEVED)
    assert np.array_equal(again.allocate(STATES), policy.allocate(STATES))
    assert policy_to_bytes(bind(again, BELIEVED)) == policy_to_bytes(policy)


def test_a_table_comes_back_bit_for_bit() -> None:
    table = np.zeros((2, 3, 3))
    for i, j in np.ndindex(3, 3):
        table[:, i, j] = 8.0 * np.array([i, j]) / max(i + j, 1)
    policy = cw.Tabular(BELIEVED, table, label="mine")
    again = policy_from_bytes(policy_to_bytes(policy), "it")
    assert isinstance(again, cw.Tabular)
    assert np.array_equal(again.cores, policy.cores)
    assert again.name == "mine"


def test_what_is_not_all_in_its_name_is_refused() -> None:
    third = bind(cw.Fixed([1.0 / 3.0, 2.0 / 3.0]), BELIEVED)
    other = replace(bind(cw.Equi(), BELIEVED), name="whittle")
    own = replace(other, name="/etc/passwd")
    for policy, said in [
        (third, "more to it than its name"),
        (other, "more to it"),
        (own, "neither a table nor"),
    ]:
        with pytest.raises(InvalidPolicy, match=said):
            policy_to_bytes(policy)


SCALING = {"a": 0.3, "b": 0.6, "c": 0.8, "d": 0.95}
MANY = cw.System(6, [cw.JobClass(name, 0.5, 1.0, cw.Amdahl(p)) for name, p in SCALING.items()])


def fitted() -> BoundPolicy:
    """A policy by fitted values, good or not."""
    first = improve(MANY, rng=1, steps=1, events=2000).rounds[0]
    return BoundPolicy(MANY, "improved", Fitted(MANY, first.values, np.full(5, 20.0)))


@pytest.mark.parametrize("whole", [False, True])
def test_fitted_values_come_back_bit_for_bit_for_many_classes(tmp_path: Path, whole: bool) -> None:
    improved = fitted()
    policy = bind(cw.WholeCores(improved), MANY) if whole else improved
    save_policy(policy, tmp_path / "p.npz")
    again = load_policy(tmp_path / "p.npz")
    states = np.random.default_rng(1).integers(0, 9, (50, 4))
    assert np.array_equal(again.allocate(states), policy.allocate(states))
    assert again.name == policy.name
    named = bind(policy_named(str(tmp_path / "p.npz"), MANY), MANY)
    assert np.array_equal(named.allocate(states), policy.allocate(states))
    assert policy_to_bytes(named) == policy_to_bytes(policy)


def test_a_whole_core_rule_comes_back_whole(tmp_path: Path) -> None:
    policy = bind(policy_named("whole:whittle", MANY), MANY)
    save_policy(policy, tmp_path / "p.npz")
    cores = load_policy(tmp_path / "p.npz").allocate([[3, 1, 2, 1]])
    assert np.array_equal(cores, policy.allocate([[3, 1, 2, 1]]))
    assert np.array_equal(cores, np.rint(cores))


def test_an_improvement_that_ended_as_whittle_is_saved_as_that() -> None:
    policy = replace(cw.Whittle().on(MANY), name="improved")
    again = policy_from_bytes(policy_to_bytes(policy), "it")
    assert again.name == "whittle"
    assert np.array_equal(again.allocate([[3, 1, 2, 1]]), policy.allocate([[3, 1, 2, 1]]))


def test_the_optimum_is_saved_as_its_table() -> None:
    policy = bind(cw.solve(BELIEVED, capacity=6).policy, BELIEVED)
    again = policy_from_bytes(policy_to_bytes(policy), "it")
    assert isinstance(again, cw.Tabular)
    assert np.array_equal(again.allocate(STATES), policy.allocate(STATES))


def test_what_goes_by_attained_work_is_not_saved() -> None:
    law = cw.sizes.Hyperexponential(cv2=4)
    system = cw.System(2, [cw.JobClass(name, 0.8, 1.0, cw.Amdahl(0.5), sizes=law) for name in "ab"])
    with pytest.raises(InvalidPolicy):
        policy_to_bytes(cw.Residual("whittle").on(system))


def test_fitted_values_for_other_classes_are_refused() -> None:
    rule = fitted().decision
    assert isinstance(rule, Fitted)
    arrays = {field.name: getattr(rule.values, field.name) for field in fields(rule.values)}
    about = {"rule": "improved", "system": system_to_mapping(MANY)}
    for changed in ({"slopes": rule.values.slopes[:, :3]}, {"own": rule.values.own[:, :, :0]}):
        bad = packed("it", "corewise fitted policy 1", about, {"limits": rule.limits, **arrays, **changed})
        with pytest.raises(InvalidFile, match="4 classes"):
            policy_from_bytes(bad, "it")


def test_bytes_that_are_no_policy_are_refused() -> None:
    system = system_to_mapping(BELIEVED)
    for content, said in [
        (b"", "it is not a saved policy"),
        (
            packed("it", "corewise rule 1", {"rule": "/etc/passwd", "system": system}, {}),
            "it is not a usable policy",
        ),
        (packed("it", "corewise rule 1", {"rule": "equi"}, {}), "it is not a usable policy"),
        (packed("it", "corewise rule 9", {"rule": "equi", "system": system}, {}), "it has the format"),
    ]:
        with pytest.raises(InvalidFile, match=said):
            policy_from_bytes(content, "it")
