"""``corewise sweep``: output, JSON, interrupts, messages for bad input, and the keys in docs/sweeps.md."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import corewise as cw
from corewise.cli.main import app
from tests.helpers.commands import PATIENCE, finish, start

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")

PIPES: dict[str, Any] = {
    "stdout": subprocess.PIPE,
    "stderr": subprocess.PIPE,
    "text": True,
    "start_new_session": True,
}

QUICK = """
systems = ["paper:3"]
loads = [0.4]
seeds = 2
[[simulate]]
policies = ["equi"]
departures = 100
gap = false
[[evaluate]]
policies = ["equi", "optimal"]
[[evaluate]]
systems = ["wide.toml"]
policies = ["whittle"]
exact = true
[[learn]]
algorithms = ["1b"]
departures = 100
steps = 2
"""
"""Seven runs, one of which must fail."""

WIDE = "cores = 40\n" + "".join(
    f'[[class]]\nname = "{i}"\narrival_rate = 0.4\nsize_rate = 1.0\n'
    'speedup = { family = "amdahl", p = 0.5 }\n'
    for i in range(40)
)
"""What no table of states can hold."""


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["sweep", *map(str, arguments)])


def _not_finite(text: str) -> float:
    raise AssertionError(f"{text} in the JSON")


def _json(*arguments: object, code: int = 0) -> dict[str, Any]:
    done = _run(*arguments, "--json")
    assert done.exit_code == code, done.output
    found = json.loads(done.stdout, parse_constant=_not_finite)
    assert isinstance(found, dict)
    return found


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def _same(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: v for name, v in row.items() if name not in ("seconds", "worker")} for row in rows]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A sweep that was carried out once, and what it printed."""
    file = tmp_path_factory.mktemp("swept") / "quick.toml"
    file.write_text(QUICK)
    file.with_name("wide.toml").write_text(WIDE)
    return file, _run(file, "--workers", "1")


@pytest.fixture
def quick(swept: tuple[Path, Result], tmp_path: Path) -> Path:
    """A copy of it, rows included."""
    file = tmp_path / "quick.toml"
    file.with_name("wide.toml").write_text(WIDE)
    for suffix in (".toml", ".csv"):
        file.with_suffix(suffix).write_bytes(swept[0].with_suffix(suffix).read_bytes())
    return file


def test_people_get_means_and_the_file(swept: tuple[Path, Result]) -> None:
    file, done = swept
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == "simulate: means over seeds"
    assert re.search(r"paper:3 +0\.4 +optimal +1 +\S+ +\S+ +0 %", done.stdout)
    assert re.search(r"wide\.toml +0\.4 +whittle +0 of 1", done.stdout)
    assert "1b, optimal" in done.stdout
    assert "failed: BoxTooLarge: " in done.stdout
    summary = f"7 of 7 runs in {file.with_suffix('.csv')}; 1 failed: --retry-failed does them again. "
    assert done.stdout.splitlines()[-1].startswith(summary)
    assert not done.stderr


def test_json_has_the_rows(quick: Path) -> None:
    found = _json(quick, code=1)
    assert (found["runs"], found["done"], found["failed"], found["resumed"]) == (7, 6, 1, 7)
    assert (found["interrupted"], found["seed"]) == (False, 0)
    assert found["out"] == str(quick.with_suffix(".csv"))
    rows = found["rows"]
    assert [row["kind"] for row in rows] == ["simulate"] * 2 + ["evaluate"] * 3 + ["learn"] * 2
    assert [row["status"] for row in rows] == ["done"] * 4 + ["failed"] + ["done"] * 2
    assert {row["sweep"] for row in rows} == {found["sweep"]}
    assert rows[0]["interval"] is None  # too short for one
    assert rows[2]["gap"] > 0.0
    assert rows[3]["gap"] == 0.0
    assert rows[4]["mean_jobs"] is None
    assert [mean["runs"] for mean in found["means"]] == [2, 1, 1, 1, 2]
    assert [row["key"] for row in _rows(quick.with_suffix(".csv"))] == [row["key"] for row in rows]


def test_failed_runs_are_done_again_if_asked(quick: Path) -> None:
    before = _json(quick, code=1)
    again = _json(quick, "--workers", 1, "--retry-failed", code=1)
    assert (again["done"], again["failed"], again["resumed"]) == (6, 1, 6)
    assert _same(again["rows"]) == _same(before["rows"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no.toml"], "no.toml: cannot be read: no such file or directory"),
        (["."], ".: cannot be read: is a directory"),
        (["quick.toml", "--workers", "0"], "--workers must be at least 1, got '0'"),
        (
            ["quick.toml", "--out", "quick.toml"],
            "quick.toml: is read by this command, and would be overwritten",
        ),
        (
            ["quick.toml", "--out", "rows.txt"],
            "rows.txt: results are written as .csv or .parquet, got '.txt'",
        ),
        (["quick.toml", "--out", "no/rows.csv"], "no/rows.csv: cannot be written: there is no directory no"),
    ],
)
def test_bad_input(arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quick.toml").write_text(QUICK)
    Path("wide.toml").write_text(WIDE)
    done = _run(*arguments)
    assert done.exit_code == 2
    assert done.stderr.strip() == f"error: {words}"
    assert not done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"quick.toml", "wide.toml"}


def test_a_sweep_that_has_changed_is_refused(quick: Path) -> None:
    quick.write_text(QUICK.replace("seeds = 2", "seeds = 3"))
    before = quick.with_suffix(".csv").read_bytes()
    done = _run(quick, "--workers", "1")
    assert done.exit_code == 2
    assert "holds rows of another sweep" in done.stderr
    assert quick.with_suffix(".csv").read_bytes() == before


def _wait_for_rows(process: subprocess.Popen[str], out: Path) -> None:
    began = time.monotonic()
    while not out.exists() or out.read_bytes().count(b"\n") < 4:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - began < PATIENCE, "no rows"
        time.sleep(0.02)


_TWELVE = "systems = ['paper:3']\nseeds = 12\n[[simulate]]\npolicies = ['equi']\ndepartures = 2_000_000\n"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[cw.results.SweepRow]:
    """The rows of twelve runs of which none is interrupted."""
    file = tmp_path_factory.mktemp("uninterrupted") / "sweep.toml"
    file.write_text(_TWELVE)
    with ThreadPoolExecutor(2) as threads, cw.sweep(file, executor=threads) as runs:
        assert len({row.key for row in runs}) == 12
    return list(runs.rows)


@pytest.mark.parametrize("options", [["--workers", "2"], ["--dask", "local", "--workers", "2"]])
def test_interrupts_lose_and_double_nothing(
    options: list[str], tmp_path: Path, uninterrupted: list[cw.results.SweepRow]
) -> None:
    """A sweep is stopped by Ctrl-C as a terminal does it: the workers hear of it as well."""
    if "--dask" in options:
        pytest.importorskip("distributed")
    file, out = tmp_path / "sweep.toml", tmp_path / "sweep.csv"
    file.write_text(_TWELVE)
    process = start("-m", "corewise", "sweep", str(file), *options, **PIPES)
    _wait_for_rows(process, out)
    os.killpg(process.pid, signal.SIGINT)
    said, problems = finish(process)
    assert process.returncode == 130, problems
    assert f"of 12 runs in {out}" in said
    again = shlex.join(["corewise", "sweep", str(file), *options])
    assert f"To go on:  {again}" in problems.splitlines()
    assert "Traceback" not in problems
    resumed = len(_rows(out))
    found = _json(file, "--workers", 1)
    assert found["resumed"] == resumed
    assert len(found["rows"]) == len(_rows(out)) == 12
    assert _same(found["rows"]) == _same(row.to_dict() for row in uninterrupted)
    assert [row["key"] for row in _rows(out)] == [row.key for row in uninterrupted]


def test_in_the_background_it_goes_on(tmp_path: Path) -> None:
    """Scripts start jobs in the background so that they ignore Ctrl-C, and they are not to hang for it."""
    file, out = tmp_path / "sweep.toml", tmp_path / "sweep.csv"
    file.write_text(
        "systems = ['paper:3']\nseeds = 12\n[[simulate]]\npolicies = ['equi']\ndepartures = 200_000\n"
    )
    process = start("-m", "corewise", "sweep", str(file), "--workers", "2", hears=False, **PIPES)
    _wait_for_rows(process, out)
    os.killpg(process.pid, signal.SIGINT)
    _, problems = finish(process)
    assert process.returncode == 0
    assert all(line.startswith("Sweep of 12 runs: ") for line in problems.splitlines())  # if it takes long
    assert len(_rows(out)) == 12


# --- docs/sweeps.md ---------------------------------------------------------------------------


def test_the_page_has_every_key_and_column() -> None:
    from dataclasses import fields

    from corewise.studies.sweeps.file import _KINDS
    from corewise.studies.sweeps.trial import SweepRow

    named = set(re.findall(r"`(\w+)`", DOCS))
    assert {key for keys in _KINDS.values() for key in keys} <= named
    assert {field.name for field in fields(SweepRow)} <= named


def test_the_example_is_a_sweep() -> None:
    from corewise.studies.sweeps.file import load_sweep

    plan = load_sweep(ROOT / "examples" / "sweep.toml")
    assert Counter(trial.kind for trial in plan.trials) == {"simulate": 60, "evaluate": 8, "learn": 40}
