"""Sizes of any distribution, and jobs that were recorded, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corewise.cli.main import app

SYSTEM = """cores = 2
[[class]]
name = "one"
arrival_rate = 1.0
size_rate = 1.0
speedup = { family = "amdahl", p = 0.0 }
sizes = { law = "lognormal", cv2 = 4.0 }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "system.toml"
    path.write_text(SYSTEM)
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_response_times_are_in_the_json(file: Path) -> None:
    code, out, _ = run("simulate", file, "--policy", "equi", "--departures", "2000", "--seed", "1", "--json")
    assert code == 0
    (times,) = json.loads(out)["response_times"]
    assert times["name"] == "one"
    assert [row["percent"] for row in times["percentiles"]] == [50.0, 90.0, 95.0, 99.0]
    assert times["mean"] > 1.0
    code, out, _ = run("compare", file, "--events", "50000", "--json")
    names = [row["name"] for row in json.loads(out)["policies"]]
    assert names == ["optimal", "equi", "greedy", "whittle", "residual"]


def test_recorded_jobs_take_what_they_take(file: Path, tmp_path: Path) -> None:
    """Two cores, and jobs that run on one only: none waits."""
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("class,time,size,user\none,1.0,2.0,me\none,1.5,0.25,you\n")
    code, out, _ = run("simulate", file, "--policy", "equi", "--jobs", jobs, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["departures"] == 2
    assert found["time"] == pytest.approx(2.0)
    assert found["response_times"][0]["sample_mean"] == pytest.approx(1.125)
    assert "seed" not in run("simulate", file, "--policy", "equi", "--jobs", jobs)[1]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("time,class,size\n1,one,1\n0.5,one,1\n", "job 1: times must not go back, got 0.5"),
        ("time,class,size\n1,one,-1\n", "job 0: its size must be finite and not negative, got -1.0"),
        ("time,class,size\n1,one,nan\n", "job 0: its size must be finite and not negative, got nan"),
        ("time,class,size\n1,one\n", "job 0: its size must be a number, got ''"),
        ("time,class,size\n1,two,1\n", "job 0: unknown class 'two'"),
        ("time,clas,size\n1,one,1\n", "no column 'class'"),
        ("time,class,size\n", "a trace needs at least one job"),
        ("", "is empty; it needs the columns time, class and size"),
    ],
)
def test_a_table_of_jobs_that_cannot_be_is_one_line(
    file: Path, tmp_path: Path, table: str, said: str
) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(table)
    code, out, err = run("simulate", file, "--policy", "equi", "--jobs", jobs)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("verb", [("solve",), ("evaluate", "--policy", "equi"), ("plan", "--target", "2")])
def test_an_exact_verb_says_which_verb_to_use(file: Path, verb: tuple[str, ...]) -> None:
    code, out, err = run(verb[0], file, *verb[1:])
    assert (code, out) == (2, "")
    assert "simulate and compare take any distribution" in err
    assert err.count("\n") == 1
