"""Sizes of any distribution, and jobs that were recorded, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import corewise as cw
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
    assert names == ["optimal", "equi", "greedy", "whittle", "job-index"]


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


def test_a_packaged_day_has_its_own_jobs_and_the_same_by_name() -> None:
    """Its system, its jobs by default; other jobs of the day by their seed."""
    hold = ("--policy", "job-index:0", "--whole", "--known-sizes", "--json")
    code, out, _ = run("simulate", "day:gpu", *hold)
    assert code == 0
    found = json.loads(out)
    assert (found["departures"], found["unit"], found["policy"]) == (160, "seconds", "job-index:0")
    assert found["resizes"] > 0
    day = cw.simulate(
        *(cw.load_system("day:gpu"), "job-index:0"), jobs=cw.Trace.gpu_day(), whole=True, known_sizes=True
    )
    assert found["mean_response_time"] == day.mean_response_time
    named = json.loads(run("simulate", "day:gpu", *hold, "--jobs", "day:gpu:0")[1])
    assert named["mean_response_time"] == day.mean_response_time


def test_compare_takes_recorded_jobs(file: Path, tmp_path: Path) -> None:
    """One core each would do: all policies are alike; shortest first on one core is not."""
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("class,time,size\none,0,3\none,0,1\none,0,2\n")
    file.write_text(SYSTEM.replace("cores = 2", "cores = 1"))
    asked = ("--jobs", jobs, "--known-sizes", "--policy", "equi", "--policy", "job-index:0")
    code, out, _ = run("compare", file, *asked, "--json")
    assert code == 0
    rows = json.loads(out)["policies"]
    assert [row["mean_response_time"] for row in rows] == pytest.approx([14 / 3, 10 / 3])
    assert json.loads(out)["lower_bound"] is None
    code, out, _ = run("compare", file, *asked)
    assert code == 0
    assert "3, the same under every policy; nothing is random" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("simulate", "--policy", "equi", "--whole", "--moving-costs", "--departures", "9"),
            "two ways to hold",
        ),
        (("compare", "--whole", "--exact"), "nothing is exact"),
        (
            ("simulate", "--policy", "held", "--whole", "--departures", "9"),
            "held keeps the cores of a job until",
        ),
        (("compare", "--known-sizes", "--moving-costs"), "moving_costs is another way"),
        (("simulate", "--policy", "equi", "--jobs", "day:gpu:x"), "the seed of a day must be a whole number"),
        (("simulate", "--policy", "job-index:x", "--departures", "9"), "needs a long-run load"),
    ],
)
def test_options_that_cannot_be_are_one_line(file: Path, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = run(arguments[0], file, *arguments[1:])
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
