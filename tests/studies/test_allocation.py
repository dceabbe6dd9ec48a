"""Allocation in one state: by name, in whole cores, and the rule card against the policy itself."""

from __future__ import annotations

import pytest

import corewise as cw
from corewise.errors import CorewiseError, InvalidInput
from corewise.policies.base import bind
from corewise.studies.allocation import allocate, allocate_jobs, rule_card

NAMES = ("serial", "wide", "huge")
SYSTEM = cw.System(
    12,
    [
        cw.JobClass("serial", 1.0, 4.0, cw.Amdahl(0.0)),
        cw.JobClass("wide", 1.0, 2.0, cw.Amdahl(0.9)),
        cw.JobClass("huge", 0.5, 1.0, cw.Amdahl(1.0)),
    ],
)


@pytest.mark.parametrize("policy", ["equi", "whittle", "greedy", "priority:wide,serial,huge"])
def test_names_say_what_positions_say(policy: str) -> None:
    found = allocate(SYSTEM, policy, {"huge": 2, "serial": 3})
    by_position = bind(policy, SYSTEM).allocate([3, 0, 2])
    assert found.cores == dict(zip(NAMES, by_position.tolist(), strict=True))
    assert sum(found.cores.values()) == pytest.approx(12.0)


def test_a_bound_policy_and_a_table_take_names() -> None:
    bound = cw.Equi().on(SYSTEM)
    assert bound.allocate({"wide": 1, "huge": 2}) == pytest.approx({"serial": 0.0, "wide": 4.0, "huge": 8.0})
    table = cw.solve(cw.load_system("paper:1"), capacity=5).policy
    by_name = table.allocate({"two": 2, "one": 1})
    assert list(by_name.values()) == table.allocate([1, 2]).tolist()
    with pytest.raises(CorewiseError, match="did you mean 'wide'"):
        bound.allocate({"wid": 1})
    with pytest.raises(InvalidInput, match="jobs of 'wide' must be at least 0"):
        bound.allocate({"wide": -1})


def test_whole_cores_go_to_whole_jobs() -> None:
    found = allocate(SYSTEM, "equi", {"wide": 5, "huge": 2}, whole_cores=True)
    for row in found.classes:
        assert sum(row.each) == row.cores == round(row.cores)
        assert len(row.each) == row.jobs
        assert max(row.each, default=0.0) - min(row.each, default=0.0) <= 1.0
    assert {row.name: row.jobs for row in found.classes} == {"serial": 0, "wide": 5, "huge": 2}


def test_the_speed_is_that_of_the_curve() -> None:
    found = allocate(SYSTEM, "equi", {"wide": 3})
    assert found.classes[1].speed == pytest.approx(1.0 / (0.1 + 0.9 / 4.0))  # Amdahl's law at 4 cores


def test_the_card_says_what_the_policy_does() -> None:
    card = rule_card(cw.Priority(["wide", "huge", "serial"]).on(SYSTEM))
    assert (
        card[0] == "a job of serial is worth up to 0 cores beside one of wide and 0 cores beside one of huge"
    )
    assert card[1].endswith("12 cores beside one of serial and 12 cores beside one of huge")
    assert card[-1] == "where jobs outnumber cores: wide, then huge, then serial"
    assert rule_card(cw.Equi().on(SYSTEM))[-1] == "where jobs outnumber cores, all classes are served"
    one = cw.System(4, [cw.JobClass("only", 1.0, 1.0, cw.Amdahl(0.5))])
    assert rule_card(cw.Equi().on(one)) == ()


def test_a_policy_per_job_is_not_asked_about_numbers_of_jobs() -> None:
    sizes = cw.sizes.Hyperexponential(cv2=4)
    system = cw.System(2, [cw.JobClass(name, 0.8, 1.0, cw.Amdahl(0.5), sizes=sizes) for name in "ab"])
    with pytest.raises(InvalidInput, match="decides per job where sizes are not exponential: 3 jobs"):
        allocate(system, "job-index", {"a": 3})
    assert rule_card(cw.JobIndex().on(system))[0].startswith("a unit of a job's work is worth")


def test_jobs_by_name_in_whole_cores() -> None:
    jobs = [cw.JobState("x", "wide", held=3), cw.JobState("y", "huge", speeds=[0.0, 1.0, 1.5])]
    found = allocate_jobs(SYSTEM, "equi", jobs, whole=True)
    assert found.cores == cw.Equi().on(SYSTEM).allocate_jobs(jobs, whole=True)
    assert found.jobs[1].speed == 1.5
    with pytest.raises(InvalidInput, match=r"pause 0\.5 without them"):
        allocate_jobs(SYSTEM, "equi", jobs, pause=0.5)
