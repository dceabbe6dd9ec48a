"""``simulate`` and ``compare`` with moving costs: what people see, the JSON, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corewise.cli.main import app

SYSTEM = """\
cores = 4
[[class]]
name = "etl"
arrival_rate = 1.0
size_rate = 1.0
speedup = { family = "amdahl", p = 0.3 }
resize_pause = 0.2
[[class]]
name = "training"
arrival_rate = 1.0
size_rate = 1.0
speedup = { family = "amdahl", p = 0.9 }
resize_pause = 0.2
"""


@pytest.fixture
def system(tmp_path: Path) -> str:
    path = tmp_path / "system.toml"
    path.write_text(SYSTEM)
    return str(path)


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    return result.exit_code, result.output


def test_simulate_says_how_often_jobs_were_resized(system: str) -> None:
    given = (
        "simulate",
        system,
        "--policy",
        "priced",
        "--moving-costs",
        "--departures",
        "2000",
        "--seed",
        "1",
    )
    code, shown = call(*given)
    assert code == 0
    assert "for each arrival or departure" in shown
    code, text = call(*given, "--json", "--percentiles", "50,95")
    assert code == 0
    found = json.loads(text[text.index("{") :])
    assert found["resizes_per_event"] == found["resizes"] / found["events"]
    assert len(found["classes"][0]["percentiles"]) == 2
    code, text = call(*(word for word in given if word != "--moving-costs"), "--json")
    assert "resizes" not in json.loads(text[text.index("{") :])


def test_compare_sets_policies_beside_the_best(system: str) -> None:
    code, shown = call("compare", system, "--moving-costs", "--events", "4000")
    assert code == 0
    assert "best here" in shown
    assert all(name in shown for name in ("equi", "optimal", "held", "priced"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["simulate", "--policy", "equi", "--departures", "9", "--replications", "2"], "no --events, --plot"),
        (["simulate", "--policy", "equi", "--departures", "9", "--start", "1,1"], "no --events, --plot"),
        (["simulate", "--policy", "residuals", "--departures", "9"], "unknown policy 'residuals'"),
        (["compare", "--exact"], "nothing is exact"),
        (["compare", "--capacity", "20"], "nothing is exact"),
    ],
)
def test_bad_input_is_one_line(system: str, given: list[str], message: str) -> None:
    code, shown = call(given[0], system, *given[1:], "--moving-costs")
    assert code == 2
    assert message in " ".join(shown.split())


def test_fractional_cores_are_refused(system: str) -> None:
    Path(system).write_text(SYSTEM.replace("cores = 4", "cores = 4.5"))
    code, shown = call("simulate", system, "--policy", "equi", "--moving-costs", "--departures", "9")
    assert code == 2
    assert "whole cores need a whole number of cores, got 4.5" in " ".join(shown.split())
