"""``corewise reproduce``: files, JSON, and messages for bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corewise.cli.main import app
from corewise.experiments import reproduce as module
from corewise.experiments.report import Result, Setting

pytestmark = pytest.mark.slow


def test_json_has_the_results(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", "figure-1", "--out", str(tmp_path), "--seed", "3", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found) == {"results", "out", "seed", "seconds", "interrupted"}
    assert (found["seed"], found["interrupted"], found["out"]) == (3, False, str(tmp_path))
    assert found["results"]["figure-1"]["speedup_on_all_cores"]["power"]["1"] == 10.0
    assert (tmp_path / "report.html").read_text().count("<figure>") == 1


def test_people_are_told_where_the_report_is(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", "figure-1", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "done after" in done.stdout
    assert done.stdout.splitlines()[-1] == f"The report: {tmp_path / 'report.html'}"


def test_interrupts_leave_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Setting) -> Result:
        raise KeyboardInterrupt

    patched = {"figure-1": module.EXPERIMENTS["figure-1"], "table-2": interrupted}
    monkeypatch.setattr(module, "EXPERIMENTS", patched)
    command = ["reproduce", "all", "--out", str(tmp_path), "--workers", "1", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 130
    found = json.loads(done.stdout)
    assert found["interrupted"]
    assert list(found["results"]) == ["figure-1"]
    assert {path.name for path in tmp_path.iterdir()} == {"figure-1", "report.html"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["exmaple-1", "--out", "x"], "unknown experiment 'exmaple-1'; did you mean 'example-1'?"),
        (["figure-1", "--out", "file"], "file: cannot be made a directory: file exists"),
        (["figure-1", "--out", "file/x"], "file/x: cannot be made a directory: not a directory"),
        (["figure-1", "--out", "x", "--seed", "-1"], "--seed must be at least 0, got '-1'"),
        (["figure-1", "--out", "x", "--seed", "one"], "--seed must be a whole number, got 'one'"),
        (["figure-1", "--out", "x", "--workers", "0"], "--workers must be at least 1, got '0'"),
    ],
)
def test_bad_input(arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("not a directory")
    done = CliRunner().invoke(app, ["reproduce", *arguments])
    assert done.exit_code == 2
    assert done.stderr.strip() == f"error: {words}"
    assert not done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        done = CliRunner().invoke(app, ["reproduce", "figure-1", "--out", str(tmp_path)])
    finally:
        tmp_path.chmod(0o700)
    assert done.exit_code == 2
    assert "cannot be written to: permission denied" in done.stderr
