"""Decisions per job in a live pool, from what its jobs report."""

from __future__ import annotations

import math
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.live.service.pool_file import load_pool
from corewise.live.state.controller import Controller, Options
from corewise.live.state.instructions import Instruction, SetCores
from corewise.observation import events as happened

CURVES = {"flat": 0.3, "steep": 0.97}
SIZES = {"flat": 4.0, "steep": 60.0}


def controller(decide: str = "jobs", **options: object) -> Controller:
    classes = [cw.JobClass(name, speedup=cw.Amdahl(0.5)) for name in CURVES]
    made = Options(checked=True, decide=decide, **options)  # type: ignore[arg-type]
    algorithm = cw.adaptive(cw.System(16, classes), departures=100_000)
    return Controller(algorithm, lambda _: cw.Equi(), mode="steer", options=made)


def day(
    pool: Controller, *, seed: int, jobs: int = 40, reports: bool = True, restart: bool = False
) -> tuple[float, list[str]]:
    """Run jobs that report every second; return their mean response time, and the instructions."""
    rng, ids = np.random.default_rng(seed), count()
    times = np.sort(rng.uniform(0.0, 60.0, jobs)).tolist()
    names = rng.choice(list(CURVES), jobs, p=[0.7, 0.3]).tolist()
    left: dict[str, float] = {}
    held: dict[str, int] = {}
    came: dict[str, float] = {}
    said, responses, time = list[str](), list[float](), 0.0

    def tell(kind: type[happened.Event], *values: object) -> None:
        nonlocal pool
        if restart and next(ids) % 7 == 0:
            pool = Controller.of(pool.snapshot(), pool.learner.algorithm, lambda _: cw.Equi(), pool.options)
        obey(pool.handle(kind(time, f"e{next(ids)}", *values)))

    def obey(instructions: list[Instruction]) -> None:
        moved = [one for one in instructions if isinstance(one, SetCores)]
        said.extend(f"{time:g} {one.job} {one.cores}" for one in moved)
        for one in moved:
            held[one.job] = one.cores
            tell(happened.CoresHeld, one.job, one.cores)

    while times or left:
        for name, cores in dict(held).items():
            p = CURVES[name.partition("-")[0]]
            amount = min(1.0 / ((1.0 - p) + p / cores) if cores else 0.0, left[name])
            left[name] -= amount
            time += 1e-6
            if reports and amount:
                tell(happened.Progress, name, amount)
            if left[name] <= 0.0:
                del left[name], held[name]
                tell(happened.JobFinished, name)
                responses.append(time - came[name])
        while times and times[0] <= time:
            name = f"{names[0]}-{len(came)}"
            came[name], held[name], left[name] = times.pop(0), 0, SIZES[names[0]]
            tell(happened.JobArrived, name, names.pop(0))
        tell(happened.Tick)
        time = math.floor(time) + 1.0
    return float(np.mean(responses)), said


def test_decisions_from_reports_beat_equal_shares() -> None:
    """On both days; decisions by class, which never has enough departures to act on, are the control."""
    for seed in (1, 2):
        assert day(controller(), seed=seed)[0] < 0.97 * day(controller("classes"), seed=seed)[0]


def test_without_reports_nothing_is_different() -> None:
    one, other = (day(controller(decide), seed=3, reports=False) for decide in ("jobs", "classes"))
    assert one == other


def test_a_pool_that_is_restarted_goes_on_the_same() -> None:
    one, other = (day(controller(), seed=4, jobs=15, restart=restart) for restart in (False, True))
    assert one == other


def test_an_explanation_says_what_the_job_reports() -> None:
    pool = controller()
    pool.handle(happened.JobArrived(0.0, "a", "one", "steep"))
    pool.handle(happened.CoresHeld(0.0, "b", "one", 16))
    assert "by equi" in pool.explain("one").text
    pool.handle(happened.Progress(1.0, "c", "one", 10.0, 0.25))
    pool.handle(happened.Tick(1.0, "d"))
    text = pool.explain("one").text
    assert "of class steep, which was seen on 16 cores at most" in text
    assert "of work on one core before it" in text


def test_the_option_is_journaled_only_where_it_is_not_the_default() -> None:
    assert "decide" not in controller("classes").configuration.mapping["options"]
    mapping = controller().configuration.mapping
    assert mapping["options"]["decide"] == "jobs"
    assert type(controller().configuration).from_mapping(mapping).options.decide == "jobs"
    with pytest.raises(cw.errors.InvalidInput, match="decide must be one of classes, jobs, got 'job'"):
        Options(decide="job")


def test_a_pool_file_can_ask_for_it(tmp_path: Path) -> None:
    path = tmp_path / "pool.toml"
    known = '[[class]]\nname = "a"\nspeedup = { family = "amdahl", p = 0.5 }\n'
    text = f'cores = 4\n{known}[control]\ndecide = "%s"\n'
    path.write_text(text % "jobs")
    assert load_pool(path).options.decide == "jobs"
    path.write_text(text % "job")
    with pytest.raises(cw.errors.InvalidFile, match="decide must be one of classes, jobs, got 'job'"):
        load_pool(path)
