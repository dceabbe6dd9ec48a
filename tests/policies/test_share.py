"""Whole cores of every job, against the rule carried out one core at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.policies.moving.share import Claim, share


def naive_share(claims: Sequence[Claim], cores: Sequence[int], pool: int) -> Mapping[str, int]:
    """The rule of the module, one core at a time."""
    held = {claim.job: 0 for claim in claims}
    by_age = sorted(claims, key=lambda claim: claim.age)

    def admit(group: Sequence[Claim], budget: int) -> int:
        for claim in group:
            if claim.least <= budget:
                held[claim.job] = claim.least
                budget -= claim.least
        return budget

    def hand_out(group: Sequence[Claim], budget: int) -> None:
        while budget:
            wanting = [claim for claim in group if 0 < held[claim.job] < claim.most]
            if not wanting:
                return
            held[min(wanting, key=lambda claim: (held[claim.job], claim.age)).job] += 1
            budget -= 1

    for i, given_cores in enumerate(cores):
        mine = [claim for claim in by_age if claim.job_class == i]
        hand_out(mine, admit(mine, given_cores))
    rest = pool - sum(held.values())
    rest = admit([claim for claim in by_age if held[claim.job] == 0], rest)
    hand_out(by_age, rest)
    return held


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Claim], list[int], int]:
    pool = draw(st.integers(1, 40))
    classes = draw(st.integers(1, 3))
    count = draw(st.integers(0, 8))
    ages = draw(st.permutations(range(count)))
    claims = []
    for k in range(count):
        least = draw(st.integers(1, 6))
        claims.append(
            Claim(
                f"job{k}", draw(st.integers(0, classes - 1)), ages[k], least, least + draw(st.integers(0, 20))
            )
        )
    cuts = sorted(draw(st.lists(st.integers(0, pool), min_size=classes - 1, max_size=classes - 1)))
    edges = [0, *cuts, pool]
    cores = [b - a for a, b in pairwise(edges)]
    return claims, cores, pool


@given(cases())
def test_as_if_one_core_at_a_time(case: tuple[list[Claim], list[int], int]) -> None:
    assert share(*case) == naive_share(*case)


@given(cases(), st.randoms())
def test_bounds_and_nothing_left_over(case: tuple[list[Claim], list[int], int], random: object) -> None:
    claims, cores, pool = case
    held = share(claims, cores, pool)
    shuffled = list(claims)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert share(shuffled, cores, pool) == held
    rest = pool - sum(held.values())
    assert rest >= 0
    for claim in claims:
        assert held[claim.job] == 0 or claim.least <= held[claim.job] <= claim.most
        if rest:
            assert held[claim.job] == claim.most or (not held[claim.job] and claim.least > rest)


@pytest.mark.parametrize(("given_cores", "jobs"), [(16, 3), (7, 7), (5, 9), (100, 1)])
def test_without_limits_jobs_of_a_class_share_equally(given_cores: int, jobs: int) -> None:
    claims = [Claim(str(k), 0, k, 1, 1000) for k in range(jobs)]
    held = share(claims, [given_cores], given_cores)
    assert set(held.values()) <= {given_cores // jobs, -(-given_cores // jobs)}
    assert [held[str(k)] for k in range(jobs)] == sorted(held.values(), reverse=True)
