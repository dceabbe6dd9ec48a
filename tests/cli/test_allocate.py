"""``corewise allocate``: who gets what, by name; JSON; a saved policy; messages for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corewise.cli.main import app


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
        (["--policy", "whittle", "--jobs", "one"], "--jobs must be NAME=NUMBER"),
        (["--policy", "whittle", "--jobs", "one=1,one=2"], "names class 'one' twice"),
        (["--policy", "whittle", "--jobs", "one=1.5"], "--jobs one must be a whole number"),
        (["--policy", "whittle", "--jobs", "one=-1"], "at least 0"),
        (["--policy", "whittle", "--jobs", "one=1e9"], "at most 1,000,000"),
        (["--policy", "whole:", "--jobs", "one=1"], "such as whole:whittle"),
        (["--policy", "whole:whitle", "--jobs", "one=1"], "did you mean 'whittle'?"),
        (["--policy", "residual", "--jobs", "one=1", "--save", "/no/such/dir/p"], "no directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str) -> None:
    code, out, err = run("paper:1", *arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
