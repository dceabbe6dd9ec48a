"""`corewise import`: what people see, the JSON, and one line with exit code 2 for every kind of bad input."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corewise.cli.main import app

JOBS = """\
job,submit,start,end,cores,state,kind
a,2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,2026-01-01T01:00:00Z,4,done,x
b,2026-01-01T00:30:00Z,2026-01-01T00:45:00Z,2026-01-01T02:00:00Z,2,failed,y
c,2026-01-01T01:00:00Z,,soon,2,done,y
"""


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["import", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def jobs(directory: Path, text: str = JOBS, name: str = "jobs.csv") -> Path:
    (directory / name).write_text(text)
    return directory / name


def test_a_mapping_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    day_first = "a;29.03.2026 10:00;29.03.2026 10:05;2\n"
    file = jobs(tmp_path, "job;begins;ends;cores\n" + day_first)
    told = 'start = "begins"\nend = "ends"\ntime_format = "%d.%m.%Y %H:%M"\n'
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / "jobs.csv.toml").write_text(told, encoding=encoding)
        code, out, said = run(file, "--out", tmp_path / "log.csv", "--json")
        assert code == 0, said
        assert json.loads(out)["time"] == 300.0


def test_times_in_other_ways_are_an_option(tmp_path: Path) -> None:
    file = jobs(tmp_path, "job,start,end,cores\na,29.03.2026 10:00,29.03.2026 10:05,2\n")
    out = ("--out", str(tmp_path / "log.csv"))
    code, text, said = run(file, *out, "--time-format", "%d.%m.%Y %H:%M")
    assert code == 0, said
    assert "300 seconds" in text
    for format_, why in (("", "--time-format says how"), ("%d/%m/%Y", "is not written as"), ("x", "pattern")):
        code, text, said = run(file, *out, *(("--time-format", format_) if format_ else ()))
        assert (code, text, said.count("\n")) == (2, "", 1)
        assert why in said
    file = jobs(tmp_path, "job,start,end,cores\na,1773000000000,1773000005000,2\n")
    code, text, said = run(file, *out)
    assert (code, text, said.count("\n")) == (2, "", 1)
    assert "--time-format milliseconds" in said
    code, text, said = run(file, *out, "--time-format", "seconds")  # which is beyond any calendar
    assert code == 0, said
    assert "1773000000000 seconds after 1970" in " ".join(text.split())


def test_a_table_is_imported_and_every_row_accounted_for(tmp_path: Path) -> None:
    told = ("--class", "kind", "--unit", "hours", "--verbose")
    code, out, said = run(jobs(tmp_path), "--out", tmp_path / "log.csv", *told)
    assert code == 0, said
    for line in (
        r"seconds .*, to read and write",
        r"censored +1: when the job ended cannot be read",
        r"jobs +3: 1 done, 2 left unfinished, 0 still there",
        r"time +2 hours, from 2026-01-01T00:00:00Z",
        r"cores +6, of which 6 were held at most",
        r"y +2",
    ):
        assert re.search(line, out), (line, out)
    assert said.splitlines() == ["line 4: when the job ended cannot be read (end 'soon')"]
    log = (tmp_path / "log.csv").read_text().splitlines()
    assert log[:3] == ["time,event,class,job,cores", "0,start,,,", "0,arrival,x,a,4"]
    assert log[-2:] == ["2,cancel,y,b,", "2,end,,,"]


def test_json_says_the_same(tmp_path: Path) -> None:
    code, out, said = run(
        jobs(tmp_path), "--out", tmp_path / "log.csv.gz", "--class", "kind", "--json", "--verbose"
    )
    assert code == 0, said
    answer = json.loads(out)
    assert (answer["rows"], answer["jobs"], answer["departures"], answer["unfinished"]) == (3, 3, 1, 2)
    assert (answer["cut_short"], answer["dropped"]) == ({"bad_end": 1}, {})
    assert answer["classes"] == [{"name": "y", "jobs": 2}, {"name": "x", "jobs": 1}]
    assert (answer["unit"], answer["time"], answer["cores"], answer["format"]) == (
        "seconds",
        7200.0,
        6.0,
        "csv",
    )
    assert answer["reasons"] == ["line 4: when the job ended cannot be read (end 'soon')"]
    with gzip.open(tmp_path / "log.csv.gz", "rt") as file:
        assert sum(1 for _ in file) == answer["events"] + 1


def test_options_may_be_in_a_file_beside_the_log(tmp_path: Path) -> None:
    file = jobs(tmp_path)
    (tmp_path / "jobs.csv.toml").write_text('classes = ["kind"]\nunit = "minutes"\n')
    code, out, _ = run(file, "--out", tmp_path / "log.csv", "--json")
    assert (code, json.loads(out)["unit"], len(json.loads(out)["classes"])) == (0, "minutes", 2)
    code, out, _ = run(file, "--out", tmp_path / "log.csv", "--unit", "days", "--json")
    assert (code, json.loads(out)["unit"]) == (0, "days")
    (tmp_path / "jobs.csv.toml").write_text('clases = ["kind"]\n')
    code, _, said = run(file, "--out", tmp_path / "log.csv")
    assert (code, said) == (2, f"error: {file}.toml: unknown key 'clases'; did you mean 'classes'?\n")


def test_what_has_one_class_one_job_or_only_failures_is_a_log(tmp_path: Path) -> None:
    header, first, second, _ = JOBS.splitlines()
    for rows, done in ((f"{header}\n{first}\n", 1), (f"{header}\n{second}\n", 0)):
        code, out, said = run(jobs(tmp_path, rows), "--out", tmp_path / "log.csv")
        assert code == 0, said
        assert ("nothing can be learned of curves" in out) == (done == 0)


BAD: dict[str, tuple[str | bytes, tuple[str, ...], str]] = {
    "no log": ("hello\nworld\n", (), "not a log of a format that is known: sacct,"),
    "prose": ("Dear all, we met, and\nnothing came of it,\n", (), "which column says what?"),
    "empty": ("", (), "an empty file, not a log"),
    "blank": ("\n\n", (), "an empty file, not a log"),
    "header alone": (JOBS.splitlines()[0] + "\n", (), "no rows"),
    "binary": (b"job,submit,start,end,cores\n\0\0", (), "a binary file, not a log"),
    "column": (JOBS, ("--class", "kin"), "no column 'kin'; did you mean 'kind'?"),
    "format": (JOBS, ("--format", "slurn"), "unknown format 'slurn'; known: sacct,"),
    "unit": (JOBS, ("--unit", "hour"), "unknown unit of time 'hour'; did you mean 'hours'?"),
    "state": (JOBS.replace("failed", "exploded"), (), "unknown state 'exploded'; "),
    "pattern": (JOBS, ("--class-pattern", "("), "the pattern '(' cannot be used"),
    "mixed zones": (
        JOBS.replace("00:30:00Z", "00:30:00"),
        (),
        "line 3: '2026-01-01T00:30:00' is a time without a zone",
    ),
    "numbers": (JOBS.replace("2026-01-01T00:30:00Z", "17"), (), "line 3: '17' is a number, where line 2 has"),
    "no cores": (JOBS.replace("cores", "colour"), (), "name one for --cores"),
    "nothing of use": (
        "submit,start,end,cores\nx,y,z,1\n",
        (),
        "none of 1 rows can be used; line 2: when the job",
    ),
    "cores of nobody": (
        "".join(JOBS.splitlines(keepends=True)[:2]).replace(",4,", ",0,"),
        (),
        "none of 1 rows can be used; line 2: the cores of a job that ran must be a number above zero",
    ),
    "zone": (JOBS, ("--zone", "Mars"), "unknown time zone 'Mars'"),  # though no time of the log needs it
    "window": (JOBS, ("--since", "2027-01-01T00:00:00Z"), "the observation would close"),
    "window without zone": (JOBS, ("--since", "2026-01-01"), "must be written as the times of the file are"),
    "since": (JOBS, ("--since", "noon"), "--since must be a time such as"),
    "pool": (JOBS, ("--pool", "0"), "the pool must be positive, got 0"),
    "classes": (JOBS, ("--classes", "0"), "--classes must be at least 1"),
    "cut gzip": (gzip.compress(JOBS.encode() * 50)[:100], (), "cannot be read: "),
    "not a parquet file": (b"PAR1" + b"x" * 50, (), "not a Parquet file"),
    "json": ('{"jobs": [{"x": 1}], "meta": {"Slurm": {}}}', (), "not what sacct --json prints"),
    "twice": ("a,a,start,end,cores\n1,1,1,2,1\n", (), "column 'a' is there 2 times"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_line_and_writes_nothing(what: str, tmp_path: Path) -> None:
    content, options, message = BAD[what]
    file = tmp_path / "log.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, said = run(file, "--out", tmp_path / "out.csv", *options)
    assert (code, out) == (2, ""), said
    assert said.count("\n") == 1
    assert message in said, said
    assert [path.name for path in tmp_path.iterdir()] == ["log.txt"]


def test_what_cannot_be_read_or_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = jobs(tmp_path)
    for arguments, message in (
        ((".", "--out", tmp_path / "x.csv"), "a directory, not a log"),
        ((tmp_path, "--out", tmp_path / "x.csv"), "a directory, not a log"),
        ((tmp_path / "none.csv", "--out", tmp_path / "x.csv"), "no such file or directory"),
        ((file, "--out", file), "is read by this command"),
        ((file, "--out", tmp_path), "is a directory"),
        ((file, "--out", tmp_path / "no" / "x.csv"), "there is no directory"),
    ):
        code, _, said = run(*arguments)
        assert code == 2
        assert message in said
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.csv"]
    local = jobs(tmp_path, JOBS.replace("Z", ""), "local.csv")
    code, _, said = run(local, "--out", tmp_path / "x.csv", "--zone", "Mars")
    assert (code, said.count("\n")) == (2, 1)
    assert "unknown time zone 'Mars'" in said


@pytest.mark.parametrize("cores", ["0", "1e6", "-3", "nan"])
def test_cores_that_nobody_can_hold_cut_a_job_short(cores: str, tmp_path: Path) -> None:
    code, out, _ = run(
        jobs(tmp_path, JOBS.replace("Z,4,", f"Z,{cores},")), "--out", tmp_path / "log.csv", "--json"
    )
    answer = json.loads(out)
    assert (code, answer["departures"], answer["jobs"]) == (0, 0, 3)
    assert sum(answer["cut_short"].values()) == 2
