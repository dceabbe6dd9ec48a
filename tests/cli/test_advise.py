"""``corewise advise``: the page, JSON, the files to go on with, and one line for bad input."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.main import app
from corewise.errors import BoxTooLarge

SYSTEM = cw.System(
    8, [cw.JobClass("wide", 0.8, 0.5, cw.Amdahl(0.95)), cw.JobClass("nar<b>row", 1.5, 0.8, cw.Amdahl(0.5))]
)


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["advise", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("log") / "log.csv"
    path = cw.simulate(SYSTEM, "equi", departures=800, rng=1, record=True).path
    assert path is not None
    cw.save_events(path, file)
    return file


def test_json_page_and_files_to_go_on_with(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    code, text, err = run(log, "--out", out, "--cores", 8, "--unit", "hours", "--json")
    assert code == 0, err
    found = json.loads(text, parse_constant=refuse_constant)
    assert {row["name"] for row in found["classes"]} == set(SYSTEM.names)
    for row in found["classes"]:
        assert {"name", "jobs", "cv2", "curve", "informative"} <= set(row)
    names = [row["name"] for row in found["policies"]]
    assert names[:3] == ["log", "equi", "whittle"]
    for row in found["policies"]:
        assert row["interval"][0] <= row["mean_response_time"] <= row["interval"][1]
    assert isinstance(found["cores_needed"], int)
    assert isinstance(found["warnings"], list)
    assert cw.load_system(out / "system.toml").names == SYSTEM.names
    again = CliRunner().invoke(
        app, ["allocate", str(out / "system.toml"), "--policy", str(out / "policy.npz"), "--jobs", "wide=2"]
    )
    assert again.exit_code == 0, again.stderr


def test_the_page_stands_by_itself(log: Path, tmp_path: Path) -> None:
    code, text, err = run(log, "--out", tmp_path / "r", "--unit", "hours")
    assert code == 0, err
    assert "Before you rely on it" in text  # --cores was not given
    page = (tmp_path / "r" / "advice.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|https?://|src=|<link|@import|url\(", page)
    assert "nar&lt;b&gt;row" in page
    assert "<b>row" not in page
    assert page.count("<svg") == 5  # policies, load, two curves, cores
    labels = re.findall(r'class="axis">([^<]*)<', page)
    assert labels.count("mean response time (hours)") == 2
    assert "time (hours)" in labels
    assert "prefers-color-scheme:dark" in page
    assert "nan" not in re.findall(r'(?:points|cx|cy|x1|x2|y1|y2)="([^"]*)"', page)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"\0\1\2", "it is a binary file"),
        (b"a,b\n1,2\n", "no column 'class'"),
        (b"time,event,class,job,cores\n", "no row names a class"),
        (b"time,event,class,job,cores\n0,arrival,a,1,1\n1,departure,a,1,\n", "one class, 'a'"),
        (b"time,event,class,job,cores\n0,arrival,a,1,1\n1,departure,a,1,\n1,arrival,b,2,1\n", "1 of 2 jobs"),
        (b"time,event,class,job,cores\n0,arrival,a,1,x\n0,arrival,b,1,1\n", "cores 'x' is not a number"),
        (b"time,event,class,job,cores\n0,arival,a,1,1\n0,arrival,b,1,1\n", "did you mean 'arrival'"),
    ],
)
def test_what_is_no_log_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "log.csv"
    file.write_bytes(content)
    code, out, err = run(file, "--out", tmp_path / "r")
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_other_bad_input_is_one_line(log: Path, tmp_path: Path) -> None:
    packed = tmp_path / "cut.csv.gz"
    packed.write_bytes(gzip.compress(log.read_bytes())[:-200])
    table = tmp_path / "t.csv"
    table.write_text("class,1,2\nwid,1,2\n")
    cases: list[tuple[list[object], str]] = [
        ([tmp_path], "is a directory"),
        ([tmp_path / "none.csv"], "cannot be read: no such file"),
        ([packed], "cannot be read"),
        ([log, "--cores", "0"], "--cores must lie between 1 and 100,000"),
        ([log, "--cores", "1e6"], "--cores must lie between"),
        ([log, "--cores", "2"], "more than the pool of 2"),
        ([log, "--cores", "many"], "must be a finite number"),
        ([log, "--throughput", tmp_path / "none.csv"], "cannot be read"),
        ([log, "--throughput", table], "unknown class 'wid'; did you mean 'wide'?"),
    ]
    for arguments, said in cases:
        code, out, err = run(*arguments, "--out", tmp_path / "r")
        assert (code, out) == (2, ""), arguments
        assert said in err
        assert err.count("\n") == 1
        assert not (tmp_path / "r").exists()
    code, _, err = run(log, "--out", log)
    assert code == 2
    assert "is a file, and must be a directory" in err


def test_a_seed_repeats_it(log: Path, tmp_path: Path) -> None:
    found = []
    for k in (0, 1):
        _, text, _ = run(log, "--out", tmp_path / f"{k}", "--json", "--seed", 5)
        found.append(json.loads(text)["policies"])
    assert found[0] == found[1]
    assert np.isfinite(found[0][2]["gain"])


@pytest.fixture(scope="module")
def rigid_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of twenty classes whose jobs keep 1, 2, 4 or 8 cores."""
    rng = np.random.default_rng(4)
    rows, came = [], np.cumsum(rng.exponential(1.0, 1200))
    lasts = rng.lognormal(1.0, 1.0, 1200)
    for job, (at, last) in enumerate(zip(came.tolist(), lasts.tolist(), strict=True)):
        kind = f"k{job % 20}"
        rows += [(at, f"arrival,{kind},{job},{2 ** (job % 7 % 4)}"), (at + last, f"departure,{kind},{job},")]
    lines = [f"{at!r},{rest}" for at, rest in sorted(rows)]
    file = tmp_path_factory.mktemp("rigid") / "log.csv"
    file.write_text("\n".join(["time,event,class,job,cores", *lines]) + "\n")
    return file


def test_assumed_curves_are_marked_and_many_classes_are_folded(rigid_log: Path, tmp_path: Path) -> None:
    code, text, err = run(rigid_log, "--out", tmp_path / "r", "--cores", 64)
    assert code == 0, err
    assert text.startswith("If these jobs can be resized and their p lies between 0.5 and 1")
    assert "for sure" not in text
    assert "would have paid" not in text
    assert "95 %" not in text
    assert " ".join(text.split()).count("jobs kept the cores they") == 1
    assert re.search(r"and 8 more +see the page +480", text)
    assert text.count("\n") < 70
    code, text, err = run(rigid_log, "--out", tmp_path / "r", "--cores", 64, "--json")
    found = json.loads(text, parse_constant=refuse_constant)
    names = [row["name"] for row in found["classes"]]
    assert found["assumed"] == {"classes": names, "family": "amdahl", "p": 0.9, "range": [0.5, 1.0]}
    assert found["cores_needed"] is not None
    assert len(found["warnings"]) < 8


def test_a_question_without_an_answer_is_null(
    rigid_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BoxTooLarge("no room")

    monkeypatch.setattr("corewise.studies.advice.outcomes.LogSimulations.cores_needed", refuse)
    code, text, err = run(rigid_log, "--out", tmp_path / "r", "--cores", 64, "--json")
    assert code == 0, err
    found = json.loads(text, parse_constant=refuse_constant)
    assert found["cores_needed"] is None
    assert found["cores_needed_interval"] == [None, None]
    assert found["one_more_core"] == {"time_saved": None, "interval": [None, None]}
    assert any("no room" in line for line in found["warnings"])
    assert [row["name"] for row in found["policies"]] == ["log", "equi", "whittle"]


def test_more_cores_held_than_there_are_said_to_be(rigid_log: Path, tmp_path: Path) -> None:
    code, out, err = run(rigid_log, "--out", tmp_path / "r", "--cores", 30)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    found = re.search(
        r"pool of 30.*; up to (\d+) are held at a time: give --cores (\d+), or --lenient to leave out "
        r"(\d+) of 2,400 rows",
        err,
    )
    assert found is not None
    assert found[1] == found[2]
    code, _, err = run(rigid_log, "--out", tmp_path / "r", "--cores", found[1], "--json")
    assert code == 0, err
    code, text, err = run(rigid_log, "--out", tmp_path / "r", "--cores", 30, "--lenient", "--json")
    assert code == 0, err
    assert any(line.startswith(f"{found[3]} of 2,400 rows") for line in json.loads(text)["warnings"])
