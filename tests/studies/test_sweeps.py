"""Sweeps: what is asked for, what becomes of it, and that no row is lost, doubled or changed on the way."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import corewise as cw
from benchmarks.clusters import Cluster, dask_cluster
from corewise.studies.sweeps import sweep as module
from corewise.studies.sweeps import trial as trials
from corewise.studies.sweeps.file import load_sweep
from corewise.studies.sweeps.grid import Trial
from corewise.studies.sweeps.results import SweepJournal
from corewise.studies.sweeps.sweep import sweep_means
from corewise.studies.sweeps.trial import SweepRow, carry_out

pytestmark = pytest.mark.slow

PATIENCE = 120.0  # seconds, on a busy machine


def _plan(seeds: int = 2, **more: Any) -> dict[str, Any]:
    """Return a sweep that takes no time: one simulation a policy and seed."""
    return {
        "seed": 3,
        "systems": ["paper:3"],
        "seeds": seeds,
        "simulate": [{"policies": ["equi", "whittle"], "departures": 500, "gap": False}],
        **more,
    }


class _Here(Executor):
    """Does everything at once, in this process: for what is not about processes."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def _rows(source: Any, **options: Any) -> tuple[SweepRow, ...]:
    with cw.sweep(source, executor=_Here(), **options) as runs:
        for _ in runs:
            pass
    return runs.rows


def _same(rows: Any) -> list[dict[str, Any]]:
    """Return rows without what depends on who computed them, in the order of their keys."""
    plain = (asdict(row) if isinstance(row, SweepRow) else dict(row) for row in rows)
    kept = ({name: v for name, v in row.items() if name not in ("seconds", "worker")} for row in plain)
    return sorted(kept, key=lambda row: str(row["key"]))


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


# --- what is asked for ------------------------------------------------------------------------


def test_a_plan_is_the_whole_grid(tmp_path: Path) -> None:
    cw.save_system(cw.load_system("paper:1"), tmp_path / "mine.toml")
    file = tmp_path / "sweep.toml"
    file.write_text(
        """
        seed = 7
        seeds = [4, 9]
        systems = ["paper:3", "mine.toml"]
        cores = [10, 20.5]
        [[simulate]]
        policies = ["equi", "fixed:0.5,0.5", "optimal"]
        loads = [0.3, 0.6]
        departures = 1000
        [[evaluate]]
        policies = ["whittle"]
        [[learn]]
        algorithms = ["1a", "1b"]
        departures = 100
        steps = 3
        seeds = 5
        systems = ["paper:3"]
        """
    )
    plan = load_sweep(file)
    kinds = [trial.kind for trial in plan.trials]
    assert kinds.count("simulate") == 2 * 2 * 2 * 3 * 2
    assert kinds.count("evaluate") == 2 * 2
    assert kinds.count("learn") == 2 * 2 * 5
    assert len({trial.key for trial in plan.trials}) == len(plan.trials)
    first = plan.trials[0]
    assert first.key == "simulate system=paper:3 cores=10 load=0.3 policy=equi departures=1000 seed=4"
    assert first.system.cores == 10.0
    assert first.system.load == pytest.approx(0.3, rel=1e-12)
    own = next(trial for trial in plan.trials if trial.name == "mine.toml" and trial.kind == "evaluate")
    assert own.system.cores == 10.0
    assert own.system.classes == cw.load_system("paper:1").classes


BAD = [
    ("polices = ['equi']", "unknown key 'polices'; did you mean 'policies'?"),
    ("policies = ['equi']", "departures is missing"),
    ("policies = ['eqi']\ndepartures = 5", "unknown policy 'eqi', nor is it a file; did you mean 'equi'?"),
    ("policies = []\ndepartures = 5", "policies must be a list with something in it, got []"),
    ("policies = ['equi', 'equi']\ndepartures = 5", "policies must be different from each other"),
    ("policies = ['equi']\ndepartures = 0", "departures must be at least 1, got 0"),
    ("policies = ['equi']\ndepartures = 5\nseeds = 0", "seeds must be at least 1, got 0"),
    ("policies = ['equi']\ndepartures = 5\nseeds = [1, 1]", "seeds must be different from each other"),
    ("policies = ['equi']\ndepartures = 5\nloads = [-1]", "loads must be positive, got -1"),
    ("policies = ['equi']\ndepartures = 5\ngap = 'no'", "gap must be true or false, got 'no'"),
    ("policies = ['equi']\ndepartures = 5\nsystems = ['no.toml']", "no.toml: cannot be read: no such file"),
    ("policies = ['priority:one,three']\ndepartures = 5", "'three'"),
    ("policies = ['equi']\ndepartures = 5\nsteps = 5", "unknown key 'steps'; did you mean 'systems'?"),
    (
        "policies = ['equi']\ndepartures = 5\n[[simulate]]\npolicies = ['equi']\ndepartures = 5",
        "asked for twice",
    ),
]


@pytest.mark.parametrize(("table", "words"), BAD)
def test_what_cannot_be_is_refused(table: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(f"systems = ['paper:3']\n[[simulate]]\n{table}\n")
    with pytest.raises(cw.errors.InvalidFile) as caught:
        load_sweep(file)
    assert str(caught.value).startswith(f"{file}: simulate number ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing to do: there is no [[simulate]], [[evaluate]], [[learn]]"),
        ("sede = 1", "unknown key 'sede'; did you mean 'seed'?"),
        ("seed = -1", "seed must be at least 0, got -1"),
        ("seed = ", "not valid TOML"),
        ("[simulate]\n", "write [[simulate]] with two brackets"),
    ],
)
def test_files_that_are_no_sweeps(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    with pytest.raises(cw.errors.InvalidFile) as caught:
        load_sweep(file)
    assert str(caught.value).startswith(str(file))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"algorithms": ["1c"]}, "unknown algorithm '1c'"),
        ({"algorithms": ["1b"], "between_alarms": 1e6}, "between_alarms is for adaptive alone"),
        ({"algorithms": ["1b"], "policies": ["saved.npz"]}, "'saved.npz' is a saved one"),
    ],
)
def test_learning_that_cannot_be(
    table: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cw.solve(cw.load_system("paper:3")).policy.save("saved.npz")
    learn = {"departures": 50, "steps": 2, **table}
    with pytest.raises(cw.errors.InvalidInput, match=words):
        load_sweep({"systems": ["paper:3"], "learn": [learn]})


def test_the_fingerprint_sees_what_changes_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = cw.load_system("paper:3")
    file, policy = tmp_path / "system.toml", tmp_path / "saved.npz"

    def fingerprint(seed: int = 3, load: float = 0.3, policy_load: float = 0.3, gap: bool = False) -> str:
        cw.save_system(system.at_load(load), file)
        cw.solve(system.at_load(policy_load)).policy.save(policy)
        table = {"policies": [str(policy)], "departures": 500, "gap": gap}
        return load_sweep(_plan(seed=seed, systems=[str(file)], simulate=[table])).fingerprint

    prints = [fingerprint(), fingerprint(seed=4), fingerprint(load=0.4), fingerprint(policy_load=0.4)]
    prints.append(fingerprint(gap=True))
    assert len(set(prints)) == len(prints)
    assert fingerprint() == prints[0]
    monkeypatch.setattr("corewise.studies.sweeps.file.SAME_NUMBERS_SINCE", "another")
    assert fingerprint() not in prints


def test_random_numbers_depend_on_seed_and_key_alone() -> None:
    few = {row.key: row for row in _rows(_plan(seeds=2))}
    more = _plan(seeds=3, systems=["paper:1", "paper:3"], evaluate=[{"policies": ["equi"]}])
    many = {row.key: row for row in _rows(more)}
    assert few.keys() < many.keys()
    for key, row in few.items():
        assert replace(many[key], sweep=row.sweep, seconds=row.seconds) == row
    draws = {trial.random_generator().random() for trial in load_sweep(more).trials}
    assert len(draws) == len(many)
    other = {row.key: row for row in _rows(_plan(seeds=2, seed=4))}
    assert all(other[key].mean_jobs != row.mean_jobs for key, row in few.items())


# --- what becomes of it -----------------------------------------------------------------------


def test_rows_say_what_the_library_says() -> None:
    plan = load_sweep(
        {
            "systems": {"mine": _weighted()},
            "simulate": [{"policies": ["equi"], "departures": 4000}],
            "evaluate": [{"policies": ["equi", "optimal"]}],
        }
    )
    simulated, exact, best = _rows(plan)
    system, optimum = _weighted(), cw.solve(_weighted())
    run = cw.simulate(system, cw.Equi(), departures=4000, rng=plan.trials[0].random_generator())
    assert (simulated.mean_jobs, simulated.interval, simulated.departures) == (
        run.mean_jobs,
        run.interval,
        4000,
    )
    assert simulated.mean_response_time == run.mean_response_time
    cost = sum(known.weight * run.classes[known.name].mean_jobs for known in system.classes)
    assert simulated.mean_cost == pytest.approx(cost, rel=1e-12)
    assert simulated.gap == pytest.approx(cost / optimum.mean_cost - 1.0, rel=1e-9)
    found = cw.evaluate(system, cw.Equi())
    assert (exact.mean_jobs, exact.mean_cost) == (found.mean_jobs, found.mean_cost)
    assert exact.gap == pytest.approx(found.mean_cost / optimum.mean_cost - 1.0, rel=1e-9)
    assert (exact.interval, exact.seed, exact.departures) == (None, None, None)
    assert best.gap == 0.0
    assert best.mean_jobs == pytest.approx(optimum.mean_jobs, rel=1e-9)


def test_whole_cores_and_known_sizes_are_runs_of_their_own() -> None:
    """Their keys say so, and those of other runs are as they were; there is no gap to another model."""
    sizes = cw.sizes.Lognormal(4.0)
    system = cw.System(4, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.9), sizes=sizes, resize_pause=0.01)])
    told = {"policies": ["job-index"], "departures": 200}
    tables = [told, {**told, "whole": True}, {**told, "whole": True, "known_sizes": True}]
    plan = load_sweep({"systems": {"mine": system}, "simulate": tables})
    assert [trial.key for trial in plan.trials] == [
        "simulate system=mine policy=job-index departures=200 seed=1",
        "simulate system=mine policy=job-index departures=200 whole=true seed=1",
        "simulate system=mine policy=job-index departures=200 whole=true known_sizes=true seed=1",
    ]
    for trial, row, given in zip(plan.trials, _rows(plan), tables, strict=True):
        held = {key: value for key, value in given.items() if key not in told}
        run = cw.simulate(system, "job-index", departures=200, rng=trial.random_generator(), **held)  # type: ignore[arg-type]
        assert (row.mean_jobs, row.gap) == (run.mean_jobs, None)
    with pytest.raises(cw.errors.InvalidInput, match="whole must be true or false, got 1"):
        load_sweep({"systems": {"mine": system}, "simulate": [{**told, "whole": 1}]})


def _weighted() -> cw.System:
    classes = [
        cw.JobClass("one", arrival_rate=1.0, size_rate=1.0, speedup=cw.Amdahl(0.3), weight=2.0),
        cw.JobClass("two", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.9)),
    ]
    return cw.System(4, classes)


def test_learning_rows_judge_the_last_policy() -> None:
    learn = {"algorithms": ["1b"], "departures": 100, "steps": 4, "power": 0.5}
    plan = load_sweep({"systems": ["paper:3"], "learn": [learn, {**learn, "test_departures": 5000}]})
    exact, tested = _rows(plan)
    system = cw.load_system("paper:3")
    rng = plan.trials[0].random_generator()
    algorithm = cw.algorithm_1b(system, departures=100, steps=4, power=0.5)
    *_, epoch = cw.learn(cw.SimulatedPlant(system, rng=rng), algorithm)
    assert (exact.mean_jobs, exact.departures) == (epoch.mean_jobs, epoch.departures)
    assert epoch.gap is not None
    assert exact.gap == pytest.approx(epoch.gap, abs=1e-12)
    assert exact.interval is None
    # Seven standard errors, a false alarm once in 10^11, but the seed is fixed anyway.
    assert tested.interval is not None
    assert tested.mean_jobs is not None
    half = (tested.interval[1] - tested.interval[0]) / 2.0
    assert abs(tested.mean_jobs - cw.solve(system).mean_jobs) < 3.5 * half


def test_a_run_that_fails_is_a_row(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    classes = [cw.JobClass(f"{i}", 0.4, 1.0, cw.Amdahl(i / 40)) for i in range(40)]
    plan = {
        "systems": {"narrow": cw.load_system("paper:1"), "wide": cw.System(40, classes)},
        "evaluate": [{"policies": ["equi"], "exact": True}],
        "simulate": [{"policies": ["equi"], "departures": 500, "gap": False}],
    }
    rows = _rows(plan, out=out)
    bad = [row for row in rows if row.status == "failed"]
    assert len(rows) == 4
    assert [row.key for row in bad] == ["evaluate system=wide policy=equi"]
    assert bad[0].error is not None
    assert bad[0].error.startswith("BoxTooLarge: ")
    assert (bad[0].mean_jobs, bad[0].gap, bad[0].interval) == (None, None, None)
    assert all(row.error is None and row.mean_jobs is not None for row in rows if row not in bad)
    assert _same(_rows(plan, out=out)) == _same(rows)


def test_failed_runs_are_done_again_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "rows.csv"

    def broken(trial: Trial, *about: str) -> SweepRow:
        if trial.policy == "whittle":
            trial = replace(trial, rule="not a policy")  # type: ignore[arg-type]
        return carry_out(trial, *about)

    with monkeypatch.context() as patch:
        patch.setattr(module, "carry_out", broken)
        rows = _rows(_plan(), out=out)
    assert [row.status for row in rows] == ["done", "done", "failed", "failed"]
    assert _same(_rows(_plan(), out=out)) == _same(rows)
    again = _rows(_plan(), out=out, retry_failed=True)
    assert _same(again) == _same(_rows(_plan()))
    assert _same(_read(out)) == _same(_read(_written(tmp_path / "fresh.csv")))


def _written(out: Path, plan: dict[str, Any] | None = None) -> Path:
    _rows(_plan() if plan is None else plan, out=out)
    return out


def test_workers_of_another_version_are_found_out() -> None:
    trial = load_sweep(_plan()).trials[0]
    row = carry_out(trial, "print", "0.0.0-other")
    assert row.status == "failed"
    assert row.error is not None
    assert "0.0.0-other" in row.error


def test_means_are_over_seeds() -> None:
    rows = _rows(_plan(seeds=4))
    equi, whittle = sweep_means(rows)
    jobs = [row.mean_jobs for row in rows if row.policy == "equi" and row.mean_jobs is not None]
    assert (equi.policy, whittle.policy, equi.runs, equi.failed) == ("equi", "whittle", 4, 0)
    assert equi.mean_jobs == pytest.approx(np.mean(jobs), rel=1e-12)
    assert equi.interval is not None
    half = 3.182446305284263 * np.std(jobs, ddof=1) / math.sqrt(4)  # Student's quantile, 3 degrees of freedom
    assert np.ptp(equi.interval) / 2.0 == pytest.approx(half, rel=1e-9)
    bad = [replace(row, status="failed", mean_jobs=None) if row.seed == 2 else row for row in rows]
    assert (sweep_means(bad)[0].failed, sweep_means(bad)[0].runs) == (1, 4)
    assert sweep_means(bad)[0].mean_jobs == pytest.approx(np.mean(jobs[:1] + jobs[2:]), rel=1e-12)
    (single, _) = sweep_means(_rows(_plan(seeds=1)))
    assert single.interval == _rows(_plan(seeds=1))[0].interval


# --- the file ---------------------------------------------------------------------------------


def test_numbers_come_back_bit_for_bit(tmp_path: Path) -> None:
    out = _written(tmp_path / "rows.csv", _plan(loads=[0.3, 0.7]))
    with cw.sweep(_plan(loads=[0.3, 0.7]), out=out, executor=_Here()) as runs:
        assert runs.before == 8
        assert next(runs, None) is None
    assert _same(runs.rows) == _same(_rows(_plan(loads=[0.3, 0.7])))


@pytest.mark.parametrize("kept", [0, 1, 40, 200, 500, 900])
def test_a_file_cut_off_anywhere_is_taken_up(kept: int, tmp_path: Path) -> None:
    """Whatever is left of the file after a crash, no row is lost or doubled."""
    whole = _written(tmp_path / "whole.csv")
    out = tmp_path / "rows.csv"
    out.write_bytes(whole.read_bytes()[:kept])
    complete = max(out.read_bytes().count(b"\n") - 1, 0)
    with cw.sweep(_plan(), out=out, executor=_Here()) as runs:
        assert runs.before == complete
        assert len(list(runs)) == 4 - complete
    assert _same(_read(out)) == _same(_read(whole))
    assert [row["key"] for row in _read(out)] == [trial.key for trial in load_sweep(_plan()).trials]


def test_rows_are_there_as_soon_as_they_arrive(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    with cw.sweep(_plan(), out=out, executor=_Here()) as runs:
        for count, row in enumerate(runs, start=1):
            assert len(_read(out)) == count
            assert _read(out)[-1]["key"] == row.key


def test_another_sweep_is_refused(tmp_path: Path) -> None:
    out = _written(tmp_path / "rows.csv")
    before = out.read_bytes()
    with pytest.raises(cw.errors.InvalidFile, match="holds rows of another sweep"):
        cw.sweep(_plan(seeds=3), out=out, executor=_Here())
    assert out.read_bytes() == before


def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    for content in ("a,b\n1,2\n", "hello", "\n"):
        out = tmp_path / "rows.csv"
        out.write_text(content)
        with pytest.raises(cw.errors.InvalidFile, match="not a file of results"):
            cw.sweep(_plan(), out=out, executor=_Here())
        assert out.read_text() == content


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    out = _written(tmp_path / "rows.csv")
    header, first, *rest = out.read_text().splitlines(keepends=True)
    out.write_text("".join([header, first.replace(",done,", ",done"), *rest]))
    with pytest.raises(cw.errors.InvalidFile, match="line 2 is not a row"):
        cw.sweep(_plan(), out=out, executor=_Here())
    out.write_text("".join([header, first, first, *rest]))
    with pytest.raises(cw.errors.InvalidFile, match="two rows for the same run"):
        cw.sweep(_plan(), out=out, executor=_Here())


def test_two_sweeps_cannot_write_to_one_file(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    with cw.sweep(_plan(), out=out, executor=_Here()) as runs:
        next(runs)
        with pytest.raises(cw.errors.InvalidFile, match="being written to by another sweep"):
            cw.sweep(_plan(), out=out, executor=_Here())
    assert len(_rows(_plan(), out=out)) == 4


@pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.csv.gz"])
def test_other_formats_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(cw.errors.InvalidFile, match=r"results are written as \.csv or \.parquet"):
        cw.sweep(_plan(), out=tmp_path / name)


def test_parquet_has_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "rows.parquet"
    rows = _rows(_plan(evaluate=[{"policies": ["equi"]}]), out=out)
    assert parquet.read_table(out).to_pylist() == [asdict(row) for row in rows]
    types = {field.name: str(field.type) for field in parquet.read_schema(out)}
    assert (types["seed"], types["mean_jobs"], types["key"]) == ("int64", "double", "string")
    out.unlink()
    assert _rows(_plan(evaluate=[{"policies": ["equi"]}]), out=out) == rows  # made again from the CSV file
    assert parquet.read_table(out).num_rows == 5


# --- who does it ------------------------------------------------------------------------------


def test_threads_and_processes_give_the_same(tmp_path: Path) -> None:
    expected = _same(_rows(_plan()))
    with ThreadPoolExecutor(2) as threads, cw.sweep(_plan(), executor=threads) as runs:
        assert _same(runs) == expected
    with cw.sweep(_plan(), workers=2) as runs:
        assert _same(runs) == expected
    assert {row.worker for row in runs.rows}.isdisjoint({row.worker for row in _rows(_plan())})


def test_only_so_many_are_under_way() -> None:
    class Counting(ThreadPoolExecutor):
        sent: ClassVar[list[Future[Any]]] = []
        most = 0

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.sent.append(super().submit(fn, *args, **kwargs))
            self.most = max(self.most, sum(not future.done() for future in self.sent))
            return self.sent[-1]

    with Counting(2) as threads, cw.sweep(_plan(seeds=20), executor=threads) as runs:
        assert len(list(runs)) == 40
    assert 1 < threads.most <= 4


LETHAL = """
import os
import signal
from pathlib import Path
from types import SimpleNamespace

from corewise.studies.sweeps.trial import carry_out


def lethal(trial, *about):
    mark = Path(__file__).with_name(trial.policy)
    if trial.policy == "whittle" or (trial.policy == "greedy" and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return carry_out(trial, *about)
"""
"""Of its policies one always kills the process it runs in, and one does so once."""


def test_a_run_that_kills_its_worker_fails_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lethal_sweep.py").write_text(LETHAL)
    monkeypatch.syspath_prepend(tmp_path)  # which the workers take over
    table = {"policies": ["equi", "greedy", "whittle"], "departures": 500, "gap": False}
    plan = _plan(seeds=1, simulate=[table])
    expected = {row.key: row for row in _rows(plan)}
    monkeypatch.setattr(module, "carry_out", import_module("lethal_sweep").lethal)
    with cw.sweep(plan, out=tmp_path / "rows.csv", workers=1) as runs:
        rows = {row.key: row for row in runs}
    assert rows.keys() == expected.keys()
    assert len(_read(tmp_path / "rows.csv")) == 3
    for key, row in rows.items():
        if row.policy == "whittle":
            assert row.error == "CorewiseError: its worker process died 4 times, the last time alone"
        else:
            assert _same([row]) == _same([expected[key]])
    assert (tmp_path / "greedy").exists()


def test_a_broken_executor_of_somebody_else_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(_Here):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            from concurrent.futures import BrokenExecutor

            raise BrokenExecutor

    with (
        pytest.raises(cw.CorewiseError, match="a worker has died"),
        cw.sweep(_plan(), executor=Broken()) as runs,
    ):
        next(runs)


def test_options_that_exclude_each_other() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="either an executor"):
        cw.sweep(_plan(), executor=_Here(), workers=2)
    with pytest.raises(cw.errors.InvalidInput, match="executor must be one of"):
        next(cw.sweep(_plan(), executor="processes"))  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="workers must be at least 1"):
        next(cw.sweep(_plan(), workers=0))


def test_scripts_without_a_guard_are_told(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import corewise as cw
            print(list(cw.sweep({"systems": ["paper:3"], "evaluate": [{"policies": ["equi"]}]}, workers=1)))
            """
        )
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'if __name__ == "__main__"' in done.stderr.splitlines()[-1]


def test_workers_do_not_outlive_their_parent(tmp_path: Path) -> None:
    """A parent that is killed cannot end them; it prints who they are, and hangs until it is killed."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            from corewise.kit.workers import processes

            def pid():
                import os
                time.sleep(0.5)
                return os.getpid()

            if __name__ == "__main__":
                with processes(2) as pool:
                    print(*{future.result() for future in [pool.submit(pid) for _ in range(4)]}, flush=True)
                    time.sleep(600)
            """
        )
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert workers
        assert all(_alive(worker) for worker in workers)
        parent.kill()
    began = time.monotonic()
    while any(_alive(worker) for worker in workers):
        assert time.monotonic() - began < PATIENCE, "they are still there"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- a real cluster ---------------------------------------------------------------------------

SLOW = {"policies": ["equi"], "departures": 1_000_000, "gap": False}
"""Long enough for a worker to be killed in the middle of it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    with dask_cluster(tmp_path_factory.mktemp("cluster"), workers=3) as running:
        yield running


def test_dask_gives_the_same_rows_though_a_worker_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    plan = _plan(seeds=12, simulate=[SLOW])
    out = tmp_path / "rows.csv"
    with cw.sweep(plan, out=out, dask=cluster.address) as runs:
        found = [next(runs)]
        cluster.kill(0)
        found += runs
    assert _same(found) == _same(_rows(plan))
    assert _same(_read(out)) == _same(_read(_written(tmp_path / "local.csv", plan)))
    assert len({row.worker for row in found}) > 1


def test_dask_goes_on_where_it_was_stopped(cluster: Cluster, tmp_path: Path) -> None:
    plan, out = _plan(seeds=6, simulate=[SLOW]), tmp_path / "rows.csv"
    with cw.sweep(plan, out=out, dask=cluster.address) as runs:
        next(runs)
    with cw.sweep(plan, out=out, dask=cluster.address) as runs:
        assert 1 <= runs.before < 6
        assert len(list(runs)) == 6 - runs.before
    assert _same(_read(out)) == _same(_read(_written(tmp_path / "local.csv", plan)))


def test_a_scheduler_that_goes_away_ends_the_sweep(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    import dask

    plan, out = _plan(seeds=30, simulate=[SLOW]), tmp_path / "rows.csv"
    hasty = dask.config.set({"distributed.comm.timeouts.connect": "2s"})
    with hasty, dask_cluster(tmp_path, workers=1) as short_lived:
        with cw.sweep(plan, out=out, dask=short_lived.address) as runs:
            next(runs)
            short_lived.scheduler.kill()
            with pytest.raises(cw.CorewiseError, match="the rows that arrived are kept"):
                list(runs)
        with pytest.raises(cw.CorewiseError, match="no Dask scheduler answers at"):
            next(cw.sweep(plan, out=out, dask="tcp://127.0.0.1:9"))
    assert len(_read(out)) >= 1


def test_a_local_dask_cluster_listens_to_this_machine_only() -> None:
    distributed = pytest.importorskip("distributed")
    assert distributed
    with cw.sweep(_plan(seeds=1), dask="local", workers=1) as runs:
        rows = [next(runs)]
        addresses = _listening()
        rows += runs
    assert addresses
    assert set(addresses) == {"127.0.0.1"}
    assert _same(rows) == _same(_rows(_plan(seeds=1)))


def _listening() -> list[str]:
    """Return the addresses at which this process and its children listen."""
    psutil = pytest.importorskip("psutil")  # Dask needs it

    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    connections = [place for process in family for place in process.net_connections("inet")]
    return [place.laddr.ip for place in connections if place.status == psutil.CONN_LISTEN]


def test_a_dask_cluster_has_its_own_workers() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(cw.errors.InvalidInput, match="has its own workers, got workers=2"):
        next(cw.sweep(_plan(), dask="tcp://127.0.0.1:9", workers=2))


@pytest.mark.parametrize(
    ("table", "refused"),
    [
        ({"evaluate": [{"policies": ["equi"]}]}, True),
        ({"learn": [{"algorithms": ["1a"], "departures": 5, "steps": 2}]}, True),
        ({"simulate": [{"policies": ["optimal"], "departures": 5}]}, True),
        ({"simulate": [{"policies": ["equi"], "departures": 5, "gap": True}]}, True),
        ({"simulate": [{"policies": ["equi"], "departures": 5}]}, False),
    ],
)
def test_an_overloaded_system_is_refused_beforehand(table: dict[str, Any], refused: bool) -> None:
    """Where nothing could come of it: a simulation of an overloaded system is one."""
    source = {"systems": ["paper:1"], "loads": [0.5, 1.5], **table}
    if not refused:
        assert len(load_sweep(source).trials) == 2
        return
    with pytest.raises(cw.errors.InvalidInput, match=r"number 1: the load is 1\.5, and it must be below 1"):
        load_sweep(source)


@pytest.mark.parametrize(
    "address", ["foo", "", "tcp://", "tcp://host", "host:port", "inproc://x", "tcp://h:1:2"]
)
def test_an_address_that_is_none_is_refused_at_once(address: str) -> None:
    pytest.importorskip("distributed")
    with (
        cw.sweep(_plan(), dask=address) as runs,
        pytest.raises(cw.errors.InvalidInput, match="dask must be local"),
    ):
        next(runs)


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    """Also when the file is closed, for a row that could not be written is tried once more then."""
    plan = load_sweep(_plan(seeds=1))
    journal = SweepJournal(plan, tmp_path / "rows.csv")
    journal.close()
    journal._file = Path("/dev/full").open("r+b")  # noqa: SIM115
    row = carry_out(plan.trials[0], plan.fingerprint, cw.__version__)
    with pytest.raises(cw.errors.InvalidFile, match=r"rows\.csv: cannot be written: no space left"), journal:
        journal.append(row)


def test_rows_are_kept_in_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").symlink_to("/dev/full")  # which has no end either
    with pytest.raises(cw.errors.InvalidFile, match=r"rows\.csv: rows are kept in a regular file"):
        cw.sweep(_plan(), out=tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("seeds", "message"), [(0, "seeds must be at least 1"), (10**17, "100000000000000000 runs are")]
)
@pytest.mark.parametrize("kind", ["simulate", "evaluate"])
def test_seeds_are_looked_at_before_the_runs_are_made(seeds: int, message: str, kind: str) -> None:
    table = {"policies": ["equi"], **({"departures": 5} if kind == "simulate" else {})}
    with pytest.raises(cw.errors.InvalidInput, match=message):
        load_sweep({"systems": ["paper:1"], "seeds": seeds, kind: [table]})


def test_a_mean_that_would_take_long_is_simulated_unless_it_is_insisted_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At load .9999 a table of states under EQUI has billions of them; its row once hung."""
    busy = {
        "systems": {"busy": cw.System(4, [cw.JobClass(n, 1.0, 1.0, cw.Amdahl(0.5)) for n in "ab"])},
        "loads": [0.5, 0.9999],
        "evaluate": [{"policies": ["equi", "optimal"], "gap": False}],
    }
    ways: list[str] = []

    def taken(way: str) -> Callable[..., Any]:
        def found(*args: object, **options: object) -> Any:
            ways.append(way)
            return SimpleNamespace(mean_jobs=1.0, interval=(0.9, 1.1), mean_response_time=1.0, mean_cost=1.0)

        return found

    monkeypatch.setattr(trials, "simulated_mean", taken("simulated"))
    monkeypatch.setattr(trials, "evaluate", taken("exact"))
    rows = [trials.carry_out(trial, "s", cw.__version__) for trial in load_sweep(busy).trials]
    assert ways == ["exact", "exact", "simulated"]
    assert [row.status for row in rows] == ["done", "done", "done", "failed"]
    assert [row.interval for row in rows[:3]] == [None, None, (0.9, 1.1)]
    assert "takes some" in str(rows[3].error)
    assert "exact = true insists" in str(rows[3].error)
    ways.clear()
    insisted = load_sweep(busy, exact=True)
    assert trials.carry_out(insisted.trials[2], "s", cw.__version__).status == "done"
    assert ways == ["exact"]
    assert insisted.fingerprint != load_sweep(busy).fingerprint
    with pytest.raises(cw.errors.InvalidInput, match="exact must be true or false, got 1"):
        load_sweep({**busy, "evaluate": [{"policies": ["equi"], "exact": 1}]})
