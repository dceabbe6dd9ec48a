"""``corewise allocate``: who gets what, by name; JSON; a saved policy; messages for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.main import app
from corewise.errors import InvalidPolicy
from corewise.policies.saved import save_policy


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["allocate", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_people_see_names_and_the_rule() -> None:
    code, out, _ = run("paper:1", "--policy", "whole:equi", "--jobs", "one=3, two=2")
    assert code == 0
    assert "where jobs outnumber cores, all classes are served" in out
    assert "one        3      18" in out


def test_json_and_a_saved_policy_agree(tmp_path: Path) -> None:
    file = tmp_path / "p.npz"
    jobs = ("--jobs", "one=3,two=2", "--json")
    code, out, _ = run("paper:1", "--policy", "whittle", "--whole-cores", "--save", file, *jobs)
    again = run("paper:1", "--policy", file, *jobs)
    assert code == again[0] == 0
    found = json.loads(out)
    assert found == json.loads(again[1])
    assert sum(found["cores"].values()) == 30
    assert found["classes"][0]["jobs"] == 3
    assert found["policy"] == "whittle, whole cores"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "whittle", "--jobs", "oen=3"], "unknown class 'oen'; did you mean 'one'?"),
        (["--policy", "whittle", "--jobs", "one"], "--jobs must be a file, or NAME=NUMBER"),
        (["--jobs", "no-such.csv"], "no-such.csv: cannot be read: no such file"),
        (["--jobs", "one=1", "--whole", "--pause", "1"], "--pause counts for a table of jobs with --whole"),
        (["--pause", "-1"], "--pause must not be negative, got '-1'"),
        (["--policy", "whittle", "--jobs", "one=1,one=2"], "names class 'one' twice"),
        (["--policy", "whittle", "--jobs", "one=1.5"], "--jobs one must be a whole number"),
        (["--policy", "whittle", "--jobs", "one=-1"], "at least 0"),
        (["--policy", "whittle", "--jobs", "one=1e9"], "at most 1,000,000"),
        (["--policy", "whole:", "--jobs", "one=1"], "such as whole:whittle"),
        (["--policy", "whole:whitle", "--jobs", "one=1"], "did you mean 'whittle'?"),
        (["--policy", "job-index", "--jobs", "one=1", "--save", "/no/such/dir/p"], "no directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str) -> None:
    code, out, err = run("paper:1", *arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


SYSTEM = """\
cores = 16
[[class]]
name = "one"
arrival_rate = 4.0
size_rate = 1.0
speedup = { family = "amdahl", p = 0.9 }
sizes = { law = "pareto", shape = 1.5, cut = 100.0 }
[[class]]
name = "two"
arrival_rate = 1.0
size_rate = 0.2
speedup = { family = "amdahl", p = 0.95 }
max_cores = 8
"""

TABLE = """\
name,class,attained,remaining,held,min_cores,max_cores,speeds
a,one,0,0.5,4,,,
b,two,1.5,,0,2,8,
c,two,,3,10,,,0 1 1.8 2.4 2.3
"""


@pytest.fixture
def system(tmp_path: Path) -> Path:
    file = tmp_path / "system.toml"
    file.write_text(SYSTEM)
    return file


def test_a_table_of_jobs_is_what_allocate_jobs_gives_in_csv_json_and_on_standard_input(
    system: Path, tmp_path: Path
) -> None:
    states = [
        cw.JobState("a", "one", remaining=0.5, held=4),
        cw.JobState("b", "two", attained=1.5, min_cores=2, max_cores=8),
        cw.JobState("c", "two", remaining=3, held=10, speeds=[0, 1, 1.8, 2.4, 2.3]),
    ]
    bound = cw.JobIndex().on(cw.load_system(system))
    table, listed = tmp_path / "jobs.csv", tmp_path / "jobs.json"
    table.write_text(TABLE)
    rows = [{"name": job.name, "class": job.job_class, "held": job.held} for job in states]
    rows[0] |= {"remaining": 0.5}
    rows[1] |= {"attained": 1.5, "min_cores": 2, "max_cores": 8}
    rows[2] |= {"remaining": 3, "speeds": [0, 1, 1.8, 2.4, 2.3]}
    listed.write_text(json.dumps(rows))
    whole = ["--whole", "--pause", "0.1", "--json"]
    for arguments, expected in (
        (["--json"], bound.allocate_jobs(states)),
        (whole, bound.allocate_jobs(states, whole=True, pause=0.1)),
    ):
        answers = [run(system, "--jobs", file, *arguments) for file in (table, listed)]
        piped = CliRunner().invoke(app, ["allocate", str(system), "--jobs", "-", *arguments], input=TABLE)
        assert [code for code, *_ in answers] == [0, 0]
        assert piped.exit_code == 0
        assert json.loads(answers[0][1]) == json.loads(answers[1][1]) == json.loads(piped.stdout)
        assert json.loads(piped.stdout)["cores"] == pytest.approx(expected)
    code, out, _ = run(system, "--jobs", table, "--whole")
    assert code == 0
    assert "cores in use   16 of 16" in out


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("name,class,attained\na,one,-1\n", "row 1: job 'a': attained work must not be negative, got -1.0"),
        ("name,class,remaining\na,one,nan\n", "row 1: job 'a': remaining work must be finite, got nan"),
        ("name,class,remaining\na,one,1\nb,one,1e4\n", "row 2: job 'b': remaining work 10000 is above the"),
        ("name,class,speeds\na,one,0\n", "row 1: job 'a': speeds must be those on 0, 1, 2, … cores"),
        ('[{"name": "a", "class": "one", "speeds": []}]', "row 1: job 'a': speeds must be"),
        ("name,class,min_cores,max_cores\na,one,4,2\n", "row 1: job 'a': min_cores 4 is above max_cores 2"),
        ("name,class,min_cores\na,two,9\n", "row 1: job 'a': min_cores 9 is above max_cores 8"),
        ("name,class\na,oen\n", "row 1: unknown class 'oen'; did you mean 'one'?"),
        ("name,class\na,one\na,two\n", "row 2: job name 'a' is used twice"),
        ("name,class,min_cores\na,one,17\n", "row 1: job 'a': min_cores 17 is above the 16 cores there are"),
        ("name,class,remaining\na,one,x\n", "row 1: job 'a': remaining work must be a number, got 'x'"),
        ("name,class,atained\na,one,1\n", "row 1: unknown field 'atained'; did you mean 'attained'?"),
        ("name,class\n,one\n", "row 1: no name; a job needs a name and a class"),
        ("name,class\na,one,2\n", "row 1: 3 cells under 2 columns"),
        ("name\na\n", "no column 'class'"),
        ("name,class,held,held\na,one,1,2\n", "column 'held' is there twice"),
        ("", "is empty; it needs the columns name and class"),
        ('{"name": "a"}', "must be a list of jobs, got {'name': 'a'}"),
        ("[1]", "row 1: must be an object, got 1"),
        ("[1", "not JSON"),
    ],
)
def test_a_bad_table_is_one_line_with_row_and_value(
    system: Path, tmp_path: Path, table: str, said: str
) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(table)
    for policy in ("job-index", "equi"):
        code, out, err = run(system, "--jobs", file, "--policy", policy)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1


def test_a_policy_per_job_is_kept_by_its_name_and_asked_for_jobs(system: Path, tmp_path: Path) -> None:
    file, table = tmp_path / "policy.npz", tmp_path / "jobs.csv"
    table.write_text(TABLE)
    saved = run(system, "--jobs", table, "--save", file, "--json")
    assert saved == run(system, "--jobs", table, "--policy", file, "--json")
    code, _, err = run(system, "--jobs", "one=3")
    assert code == 2
    assert "job-index decides per job where sizes are not exponential" in err
    assert "--jobs FILE" in err
    with pytest.raises(InvalidPolicy, match="more to it than its name tells"):
        save_policy(cw.JobIndex(load=0.0).on(cw.load_system(system)), file)
