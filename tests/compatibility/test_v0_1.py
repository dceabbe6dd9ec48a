"""Files that corewise 0.1.0 wrote: this version reads them, and gives the numbers that 0.1.0 gave.

``v0_1/make.py`` says how they were made. Everything goes through the command line and the public functions
for systems, which stay when the inside changes. Numbers are those of then to 1e-9, those of a run or a sweep
that is taken up again included. Three things were wrong then, and are not the same now:

- the response times of simulated runs had the time of jobs in them that had not left: now they are no longer;
- runs too short for it had a confidence interval;
- the p-value of the law knew nothing of the curve being estimated: now it is no larger.
"""

from __future__ import annotations

import json
import math
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.main import app

pytestmark = pytest.mark.slow

FILES = Path(__file__).with_name("v0_1")
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
OUTPUTS: dict[str, dict[str, Any]] = EXPECTED["outputs"]
ROUNDING = 1e-9
SYSTEMS = ("two", "three", "families", "changing", "estimated")


@pytest.fixture(autouse=True)
def _in_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


MENDED = {"learn/epochs/4/at_boundary/large"}
"""Where p is 1, and was found as 1 − 2e-16 then."""


def _simulated(where: str) -> bool:
    return where.startswith(("simulate", "sweep"))


def differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """Yield where an output is not as it was; what it says besides is its own business."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key, value in before.items():
            yield from differences(value, now.get(key), f"{where}/{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for i, pair in enumerate(zip(before, now, strict=True)):
            yield from differences(*pair, f"{where}/{i}")
    elif isinstance(before, float) and isinstance(now, float):
        if where.endswith("/law") or (_simulated(where) and where.endswith("/mean_response_time")):
            if not 0.0 < now <= before * (1.0 + ROUNDING):
                yield f"{where}: {before!r} then, {now!r} now"
        elif where.endswith("goodness_of_fit/p_value"):  # there is one more test, for which it is corrected
            if not 0.0 < now <= before * (4.0 / 3.0 + ROUNDING):
                yield f"{where}: {before!r} then, {now!r} now"
        elif not math.isclose(before, now, rel_tol=ROUNDING, abs_tol=ROUNDING):
            yield f"{where}: {before!r} then, {now!r} now"
    elif (
        before != now
        and where not in MENDED
        and not (_simulated(where) and "/interval" in where and now is None)
    ):
        yield f"{where}: {before!r} then, {now!r} now"


@pytest.mark.parametrize("command", OUTPUTS)
def test_they_give_the_numbers_of_then(command: str) -> None:
    """Estimates took sizes to be exponential then."""
    asked = ["--sizes", "exponential"] if command.startswith("estimate") else []
    result = CliRunner().invoke(app, [*command.split(), *asked, "--json"])
    assert result.exit_code == 0, result.output
    assert not list(differences(OUTPUTS[command], json.loads(result.stdout), command.partition(" ")[0]))


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_are_written_as_they_were_read(name: str) -> None:
    system = cw.load_system(f"{name}.toml")
    cw.save_system(system, "again.toml")
    before, now = (tomllib.loads(Path(f"{file}.toml").read_text("utf-8")) for file in (name, "again"))
    assert not list(differences(before, now))
    assert cw.load_system("again.toml") == system


def test_what_was_half_done_was_not_done() -> None:
    """Otherwise a run that is only printed again would pass for one that went on."""
    for file, done in (
        ("run-1a", 4),
        ("run-1b", 4),
        ("run-whittle", 3),
        ("run-adaptive", 7),
        ("run-replay", 3),
    ):
        (command,) = (command for command in OUTPUTS if f"--resume {file}.npz" in command)
        assert done < len(OUTPUTS[command]["epochs"])
        short = CliRunner().invoke(app, [*command.split(), "--steps", str(done - 1)])
        assert short.exit_code == 2
        assert f"has {done} windows already" in short.stderr
    rows = {
        name: OUTPUTS[f"sweep sweep.toml --out {name}.csv --workers 1"] for name in ("complete", "half-done")
    }
    assert [rows[name]["resumed"] for name in rows] == [16, 8]
    assert rows["complete"]["rows"] == rows["half-done"]["rows"]


def test_another_number_would_be_found() -> None:
    assert list(differences({"a": [1, 2.0]}, {"a": [1, 2.0 + 1e-6]}))
    assert list(differences({"a": [1, 2.0]}, {"a": [1]}))
    assert list(differences({"a": None}, {"a": 1.0}))
    assert list(differences({"a": 1}, {}))
    assert not list(differences({"a": 1}, {"a": 1, "b": 2}))
