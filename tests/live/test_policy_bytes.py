"""Policies in a journal: they come back as they were; what could not is refused before it is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.errors import InvalidFile, InvalidPolicy
from corewise.kit.archive import packed
from corewise.live.journal import Journal
from corewise.live.policy_bytes import policy_from_bytes, policy_to_bytes
from corewise.model.files import system_to_mapping
from corewise.policies.base import bind
from corewise.policies.names import policy_named

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
