"""The unit of time of a system file: said wherever there is a time or a rate, and in JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.main import app
from corewise.model.files import load_system, save_system

SYSTEM = cw.System(
    4,
    [cw.JobClass("one", 1.4, 2.5, cw.Amdahl(0.3)), cw.JobClass("two", 1.4, 2.5, cw.Amdahl(0.8))],
    unit="hours",
)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_system(SYSTEM, "hours.toml")
    save_system(cw.System(SYSTEM.cores, SYSTEM.classes), "bare.toml")


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def as_json(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


VERBS = [
    (("solve",), r"mean response time [\d.]+ hours"),
    (("evaluate", "--policy", "equi"), r"mean response time [\d.]+ hours"),
    (("compare", "--policy", "equi"), r"\(hours\)"),
    (
        ("simulate", "--policy", "equi", "--departures", "500", "--seed", "1"),
        r"mean response time [\d.]+ hours",
    ),
    (("plan", "--target", "0.4"), "Cores for a mean response time of 0.4 hours"),
    (("plan", "--target", "p95=2", "--cores", "4", "--seed", "1"), "at most 2 hours"),
    (("learn", "--departures", "50", "--steps", "2", "--seed", "1"), "hours"),
]


@pytest.mark.parametrize(("arguments", "expected"), VERBS, ids=[" ".join(verb[0][:2]) for verb in VERBS])
def test_every_verb_says_the_unit(arguments: tuple[str, ...], expected: str) -> None:
    verb, *options = arguments
    shown = told(verb, "hours.toml", *options)
    assert re.search(expected, shown)
    assert "hours" in shown
    assert "unit of time" not in shown
    assert "units of time" not in shown
    assert "hours" not in told(verb, "bare.toml", *options)
    assert as_json(verb, "hours.toml", *options)["unit"] == "hours"
    assert as_json(verb, "bare.toml", *options)["unit"] is None


def test_what_is_estimated_keeps_the_unit_and_asks_by_its_name() -> None:
    simulated = ("--policy", "equi", "--departures", "400", "--seed", "1", "--events", "log.csv")
    told("simulate", "hours.toml", *simulated)
    shown = told("estimate", "hours.toml", "log.csv", "--save", "found.toml")
    assert "(per hour)" in shown
    assert load_system("found.toml").unit == "hours"
    assert as_json("estimate", "hours.toml", "log.csv")["unit"] is None  # a question, and there is none
    header, *rows = Path("log.csv").read_text().splitlines()
    cells = [row.split(",") for row in rows]
    slower = [",".join([repr(3600.0 * float(first)), *rest]) for first, *rest in cells]
    Path("slow.csv").write_text("\n".join([header, *slower]) + "\n")
    question = as_json("estimate", "hours.toml", "slow.csv")["unit"]
    assert question.endswith("the log seems to be in seconds, and the file says hours.")
    odd = [",".join([repr(200.0 * float(first)), *rest]) for first, *rest in cells]
    Path("odd.csv").write_text("\n".join([header, *odd]) + "\n")
    assert as_json("estimate", "hours.toml", "odd.csv")["unit"].endswith("are both in hours?")


def test_an_unknown_unit_is_refused_with_the_nearest() -> None:
    Path("wrong.toml").write_text(Path("hours.toml").read_text().replace('"hours"', '"hour"'))
    result = CliRunner().invoke(app, ["solve", "wrong.toml"])
    assert result.exit_code == 2
    assert result.stderr.strip() == ("error: wrong.toml: unknown unit of time 'hour'; did you mean 'hours'?")


def test_a_sweep_says_the_unit_if_its_systems_agree() -> None:
    sweep = 'seed = 1\n[[evaluate]]\nsystems = {}\npolicies = ["equi"]\n'
    Path("alike.toml").write_text(sweep.format('["hours.toml"]'))
    Path("mixed.toml").write_text(sweep.format('["hours.toml", "bare.toml"]'))
    assert "time (hours)" in told("sweep", "alike.toml", "--workers", "1")
    assert as_json("sweep", "alike.toml", "--workers", "1")["unit"] == "hours"
    assert as_json("sweep", "mixed.toml", "--workers", "1")["unit"] is None
