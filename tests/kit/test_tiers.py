"""Kernels of two tiers: when they are compiled, and that nothing else depends on it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.kit._kernels import Tiered
from corewise.policies.jobs.index import JobIndex
from corewise.policies.jobs.state import JobState
from corewise.policies.jobs.widths import best_widths

SOURCE = """
from numba import njit
from corewise.kit._kernels import tiered

@njit(cache=True)
def square(x):
    return x * x

@tiered(lambda x: float(x.size), most=0.05)
@njit(cache=True)
def total(x):
    result = 0.0
    for value in x:
        result += square(value)
    return result

@njit(cache=True)
def twice(x):
    return 2.0 * total(x)
"""


def loaded(file: Path) -> Any:
    """A module as a new process would have it."""
    spec = importlib.util.spec_from_file_location("kernels_of_two_tiers", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "kernels_of_two_tiers.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path / "kernels_of_two_tiers.py"


def is_compiled(kernel: Any) -> bool:
    return bool(getattr(kernel, "compiled", kernel).signatures)


def test_compiled_when_interpreting_has_taken_long_enough(file: Path) -> None:
    """.05 s, at a microsecond for each number; so are the kernels that it calls, and not before."""
    module, x = loaded(file), np.arange(20_000.0)
    for compiled in (False, False, True, True):
        assert module.total(x) == pytest.approx(float(x @ x), rel=1e-12)
        assert is_compiled(module.total) is is_compiled(module.square) is compiled


def test_a_long_call_is_compiled_at_once(file: Path) -> None:
    module = loaded(file)
    assert module.total(np.ones(60_000)) == 60_000.0
    assert is_compiled(module.total)


def test_what_is_on_disk_is_taken_from_there(file: Path) -> None:
    """By the next process, when interpreting has taken .02 s; one whose kernel is on no disk waits longer."""
    loaded(file).total(np.ones(60_000))
    module = loaded(file)
    for size in (3, 15_000, 6_000):
        assert module.total(np.ones(size)) == size
        assert is_compiled(module.total) is (size == 6_000)
    assert sum(module.total.compiled.stats.cache_hits.values()) == 1
    other = file.with_name("another.py")
    other.write_text(SOURCE, encoding="utf-8")
    module = loaded(other)
    assert module.total(np.ones(40_000)) == 40_000.0
    assert not is_compiled(module.total)


def test_compiled_kernels_call_what_is_compiled(file: Path) -> None:
    """Also when they come from disk."""
    for _ in range(2):
        module = loaded(file)
        assert module.twice(np.ones(3)) == 6.0
    assert module.total.__name__ == "total"
    assert module.total.py_func(np.ones(2)) == 2.0


# --- those of the project --------------------------------------------------------------------------


def every_module() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(cw.__path__, "corewise."):
        if "_kernels" in found.name:
            yield importlib.import_module(found.name)


TIERED = {
    f"{module.__name__}.{name}": kernel
    for module in every_module()
    for name, kernel in vars(module).items()
    if isinstance(kernel, Tiered) and kernel.__module__ == module.__name__
}


def found_by(tier: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a run, its path, its estimates and a learner come to."""
    for kernel in TIERED.values():
        monkeypatch.setattr(kernel, "_most", np.inf if tier == "interpreted" else 0.0)
        monkeypatch.setattr(kernel, "_spent", 0.0)
        monkeypatch.setitem(kernel.__dict__, "_is_on_disk", False)
    found: list[Any] = []
    for example in (1, 2):
        system = cw.load_system(f"paper:{example}")
        solution = cw.solve(system)
        found += [solution.values.tobytes(), solution.bounds, cw.lower_bound(system)]
        for record in (False, True):
            run = cw.simulate(system, cw.Equi(), departures=400, rng=example, record=record)
            found += [run.mean_jobs, run.time, run.state.counts, run.response_times]
            found += numbers(cw.estimate(run.statistics, system))
            found += [table.job_time.tobytes() for table in run.statistics.classes]
        assert run.path is not None
        found += [run.path.time.tobytes(), run.path.job.tobytes()]
        found += numbers(cw.estimate(run.path, system))
        plant = cw.SimulatedPlant(system, rng=example)
        for epoch in cw.learn(plant, cw.algorithm_1b(system, departures=60, steps=3)):
            found += [*numbers(epoch.estimates), epoch.mean_jobs]
    return found + decisions_per_job()


def decisions_per_job() -> list[Any]:
    """What decisions per job come to: by index, recursion and equal shares, in shares and whole cores, in
    pools small and large.
    """
    found: list[Any] = []
    laws = cw.sizes
    for sizes, cores in ((laws.Exponential(), 64), (laws.Lognormal(cv2=4.0), 8), (laws.Erlang(2), 256)):
        curves: dict[str, cw.SpeedUp] = {"a": cw.Amdahl(0.9), "b": cw.Usl(0.1, 0.01)}
        classes = [cw.JobClass(name, 1.0, 1.0, curve, sizes=sizes) for name, curve in curves.items()]
        bound = JobIndex().on(cw.System(cores, classes))
        jobs = [JobState(f"{k}", "ab"[k % 2], attained=0.1 * k) for k in range(30)]
        jobs.append(JobState("own", "a", speeds=[0.0, 1.0, 1.9, 1.5, 3.0]))
        for decided in (bound, cw.Equi().on(bound.system)):
            found += [decided.allocate_jobs(jobs, whole=whole) for whole in (False, True)]
        speeds = np.minimum(np.arange(9.0), 4.0)[None, :].repeat(len(jobs), axis=0)
        weights = np.linspace(1.0, 2.0, len(jobs))
        found.append(
            best_widths(jobs, weights, speeds, [1] * len(jobs), [8] * len(jobs), 8, pause=0.1).tolist()
        )
    unequal = [cw.JobClass(name, rate, rate, cw.Amdahl(0.9)) for name, rate in (("a", 1.0), ("b", 9.0))]
    found.append(JobIndex().on(cw.System(4, unequal)).allocate([[1, 2], [3, 4]]).tobytes())
    return found


def numbers(estimates: Mapping[str, Any]) -> list[Any]:
    return [(found.value, found.stderr, found.interval) for found in estimates.values()]


def test_what_is_no_number_passes_both_tiers_alike(file: Path) -> None:
    """Nor is there a warning: compiled code has none."""
    module, x = loaded(file), np.array([1e300, np.nan])
    assert np.isnan(module.total(x))
    assert not is_compiled(module.total)
    assert np.isnan(module.total(np.resize(x, 60_000)))
    assert is_compiled(module.total)


def test_results_do_not_depend_on_the_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the last bit; and every kernel of two tiers is interpreted here and compiled."""
    assert len(TIERED) > 10
    interpreted = found_by("interpreted", monkeypatch)
    for name, kernel in TIERED.items():
        assert "_source" in vars(kernel), f"{name} was not interpreted"
    assert [repr(x) for x in interpreted] == [repr(x) for x in found_by("compiled", monkeypatch)]


def test_everything_runs_with_numba_switched_off() -> None:
    """As people do who look for a fault, or count lines."""
    program = "import corewise as cw; print(repr(cw.solve(cw.load_system('paper:1')).mean_jobs))"
    found = {
        switch: subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NUMBA_DISABLE_JIT": switch},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for switch in ("0", "1")
    }
    assert float(found["1"]) == pytest.approx(float(found["0"]), rel=1e-12)
