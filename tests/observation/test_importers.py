"""Importers: what real programs wrote, files made to their specifications, and a naive twin."""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import corewise as cw
from corewise.errors import InvalidFile, InvalidInput
from corewise.observation.importers.imported import ImportedLog
from corewise.observation.importers.importing import IMPORTERS, import_log
from corewise.observation.importers.options import ImportOptions
from corewise.observation.importers.rows import RowStatus

RECORDED = Path(__file__).parent / "recorded"
SHARED = Path(__file__).parents[3] / "shared" / "data"
NASA = SHARED / "traces" / "nasa-ipsc-1993.swf.gz"

Lines = list[tuple[float, str, str, str, float | None]]


def told(log: ImportedLog, directory: Path) -> Lines:
    """The lines of the event log that is written."""
    log.save(directory / "log.csv")
    rows = (directory / "log.csv").read_text().splitlines()
    assert rows[0] == "time,event,class,job,cores"
    lines: Lines = []
    for row in rows[1:]:
        time, event, name, job, cores = row.split(",")
        lines.append((float(time), event, name, job, float(cores) if cores else None))
    return lines


def of_job(lines: Lines, job: str) -> list[tuple[float, str, float | None]]:
    return [(time, event, cores) for time, event, _, label, cores in lines if label == job]


def imported(text: str, directory: Path, name: str = "jobs.csv", **options: Any) -> ImportedLog:
    (directory / name).write_text(text)
    return import_log(directory / name, ImportOptions().with_options(**options))


def accounted(log: ImportedLog) -> None:
    """Every row is used, censored, or dropped with a reason."""
    counts = {**log.account.count(drops=True), **log.account.count(drops=False)}
    used = int(np.count_nonzero(log.account.status == RowStatus.USED))
    assert used + sum(counts.values()) == log.account.rows
    assert len(log.account.lines()) == sum(counts.values())


# --- Slurm ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["sacct-all.txt", "sacct.json", "jobcomp.txt"])
def test_what_slurm_recorded(file: str, tmp_path: Path) -> None:
    """Slurm 22.05.8: jobs that wait, fail, are cancelled, time out, are requeued, resized, and still run."""
    log = import_log(RECORDED / file)
    accounted(log)
    lines = told(log, tmp_path)
    assert log.pool == log.peak == 8
    assert of_job(lines, "4") == [(0, "arrival", 0), (6, "resize", 8), (8, "departure", None)]
    assert [event for _, event, _ in of_job(lines, "5")][-1] == "cancel"  # failed
    assert [event for _, event, _ in of_job(lines, "8")][-1] == "cancel"  # cancelled
    assert [event for _, event, _ in of_job(lines, "13")][-1] == "cancel"  # timed out
    assert of_job(lines, "9#2")[-1] == (139, "departure", None)
    if file == "sacct-all.txt":
        resized = [(12, "arrival", 0), (14, "resize", 6), (21, "resize", 3), (44, "departure", None)]
        assert of_job(lines, "15") == resized
        assert of_job(lines, "9") == [(0, "arrival", 0), (11, "resize", 1), (12, "cancel", None)]
        assert of_job(lines, "16") == [(41, "arrival", 1)]
        assert of_job(lines, "6")[-1][1] == "departure"  # its name is "odd|name"
        assert log.account.count(drops=True) == {RowStatus.STEP: 16}
        assert (log.jobs, log.departures, log.cancellations) == (17, 11, 5)
    path = cw.load_events(tmp_path / "log.csv", a_system(log)).path
    counts = (path.arrivals, path.departures, path.cancellations)
    assert counts == (log.jobs, log.departures, log.cancellations)


def a_system(log: ImportedLog) -> cw.System:
    return cw.System(log.pool, [cw.JobClass(name, speedup=cw.Amdahl(0.5)) for name in log.names])


def test_seconds_and_dates_of_slurm_are_the_same_log(tmp_path: Path) -> None:
    numbers, dates = (import_log(RECORDED / f"sacct-{kind}.txt") for kind in ("epoch", "all"))
    assert numbers.origin == 1794901845.0
    assert dates.origin is None  # nobody says in which zone
    one, other = (told(log, tmp_path) for log in (numbers, dates))
    assert [line for line in one if not line[3].startswith("9")] == [
        line for line in other if not line[3].startswith("9")
    ]  # without -D nothing is said of what was requeued


@pytest.mark.parametrize(
    ("classes", "pattern", "names"),
    [
        (("JobName",), "^[a-z]+", {"render", "etl", "sweep", "odd", "never", "long", "malleable", "running"}),
        (("JobName",), "^(render|etl)-", {"render", "etl", "other"}),
        (("User", "Account"), None, {"root/root"}),
    ],
)
def test_classes_are_columns_or_what_a_pattern_finds(
    classes: tuple[str, ...], pattern: str | None, names: set[str]
) -> None:
    log = import_log(
        RECORDED / "sacct-all.txt", ImportOptions().with_options(classes=classes, class_pattern=pattern)
    )
    assert set(log.names) == names
    assert sum(log.jobs_by_class.values()) == log.jobs


# --- other formats --------------------------------------------------------------------------------


@pytest.mark.skipif(not NASA.exists(), reason="the trace is not here")
def test_a_trace_of_the_parallel_workloads_archive() -> None:
    """Its header says 18 239 jobs from 1 October 1993 on, 128 processors, and no waiting times."""
    log = import_log(NASA)
    accounted(log)
    assert (log.format, log.account.rows, log.jobs, log.departures) == ("swf", 18239, 18239, 18239)
    assert log.origin == 749458803
    with gzip.open(NASA, "rt") as file:
        body = [line.split() for line in file if not line.startswith(";")]
    work = sum(float(row[3]) * float(row[4]) for row in body)
    seen = cw.Statistics.of(log.path)
    held = sum(float(table.widths @ table.job_time) for table in seen.classes)
    assert held == pytest.approx(work, rel=1e-12)
    assert log.duration == max(float(row[1]) + float(row[3]) for row in body)
    assert log.pool == 176  # more than there are, as clocks of nodes differ
    largest: dict[str, int] = defaultdict(int)
    for row in body:
        largest[f"{row[11]}/{row[13]}"] += 1
    assert log.jobs_by_class[log.names[0]] == max(largest.values())


SWF = """\
; Version: 2.2
; UnixStartTime: 1000
; MaxProcs: 64
  1 0 10 100 4 -1 -1 4 -1 -1 1 7 1 3 1 1 -1 -1
  2 5 -1 50 8 -1 -1 8 -1 -1 0 7 1 3 1 1 -1 -1
  3 6 20 -1 -1 -1 -1 8 -1 -1 5 8 1 3 1 1 -1 -1
  4 9 1 30 2 -1 -1 2 -1 -1 1 8 1 3 1 1 -1 -1
  4 9 1 10 2 -1 -1 2 -1 -1 2 8 1 3 1 1 -1 -1
  4 -1 5 20 2 -1 -1 2 -1 -1 3 8 1 3 1 1 -1 -1
"""


def test_the_fields_of_swf(tmp_path: Path) -> None:
    """By its definition: waits, failed and cancelled jobs, no wait, bursts."""
    log = imported(SWF, tmp_path, "a.swf")
    accounted(log)
    lines = told(log, tmp_path)
    assert (log.pool, log.origin, log.names) == (64, 1000, ("7/3", "8/3"))
    assert of_job(lines, "1") == [(0, "arrival", 0), (10, "resize", 4), (110, "departure", None)]
    assert of_job(lines, "2") == [(5, "arrival", 8), (55, "cancel", None)]
    assert of_job(lines, "3") == [(6, "arrival", 0), (26, "cancel", None)]
    assert of_job(lines, "4") == [(9, "arrival", 0), (10, "resize", 2), (40, "departure", None)]
    assert log.account.count(drops=True) == {RowStatus.BURST: 2}


@pytest.mark.skipif(not (SHARED / "workloads").exists(), reason="the workloads are not here")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_workloads_of_pollux_are_submissions(k: int) -> None:
    log = import_log(SHARED / "workloads" / f"pollux-workload-{k}.csv")
    accounted(log)
    assert (log.format, log.jobs, log.departures) == ("pollux", 160, 0)
    assert set(log.names) <= {"ncf", "cifar10", "deepspeech2", "bert", "imagenet", "yolov3"}
    assert "submissions alone" in log.notes[0]


PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,8,2951.0,6214e9
"""


def test_philly_like_tables_need_not_be_in_order(tmp_path: Path) -> None:
    log = imported(PHILLY, tmp_path, unit="minutes")
    assert told(log, tmp_path) == [
        (0.0, "start", "", "", None),
        (0.0, "arrival", "6214e9", "3", 8.0),
        (48.866666667, "arrival", "11cb48", "2", 1.0),
        (49.183333333, "departure", "6214e9", "3", None),
        (49.966666667, "departure", "11cb48", "2", None),
        (49.966666667, "end", "", "", None),
    ]


STATISTICS = """\
ID,Type,Submit Time,Start Time,End Time,Wait Time,Makespan,Turnaround Time,Status
0,malleable,0,1,9,1,8,9,completed
1,rigid,2,9,12,7,3,10,killed
"""
NODES = """\
Time,Node,State,Running jobs,Expected jobs
1,n0,allocated,0,
1,n1,allocated,0,
4,n1,free,,
5,n1,reserved,,1
6,n1,allocated,0,
9,n0,free,,
9,n1,allocated,1,
12,n1,free,,
"""


def test_elastisim_says_nodes_in_another_file(tmp_path: Path) -> None:
    """Malleable job 0 has two nodes, one from 4 to 6, and two again."""
    (tmp_path / "nodes.csv").write_text(NODES)
    log = imported(STATISTICS, tmp_path, nodes=str(tmp_path / "nodes.csv"))
    lines = told(log, tmp_path)
    first, *resizes, last = of_job(lines, "0")
    assert (first, last) == ((0, "arrival", 0), (9, "departure", None))
    assert resizes == [(1, "resize", 2), (4, "resize", 1), (6, "resize", 2)]
    assert of_job(lines, "1") == [(2, "arrival", 0), (9, "resize", 1), (12, "cancel", None)]
    with pytest.raises(InvalidFile, match="do not say how many nodes"):
        imported(STATISTICS, tmp_path, "other.csv")


TABLE = '''\
when,began,over,width,kind,"how, it went",who
2026-01-01T00:00:00Z,2026-01-01T00:10:00Z,2026-01-01T01:00:00Z,4,"a, b",good,"x ""1"""
2026-01-01T00:30:00Z,,2026-01-01T00:40:00Z,,c,bad,y
2026-01-01T02:00:00+01:00,2026-01-01T01:00:00Z,,2.5,c,,z
'''
MAPPING: dict[str, Any] = {
    "submit": "when", "start": "began", "end": "over", "cores": "width", "classes": ("kind",),
    "state": "how, it went", "job": "who", "done": ("good",), "unfinished": ("bad",),
}  # fmt: skip


def test_any_table_by_a_mapping(tmp_path: Path) -> None:
    log = imported(TABLE, tmp_path, unit="minutes", **MAPPING)
    log.save(tmp_path / "log.csv")
    path = cw.load_events(tmp_path / "log.csv", a_system(log)).path
    assert log.names == ("c", "a_ b")
    assert (path.arrivals, path.departures, path.cancellations) == (3, 1, 1)
    assert path.response_times["a_ b"].tolist() == [60.0]
    assert (log.pool, log.origin) == (4, datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    (tmp_path / "options.toml").write_text(
        'submit = "when"\nstart = "began"\nend = "over"\ncores = "width"\nclasses = ["kind"]\njob = "who"\n'
        'state = "how, it went"\ndone = "good"\nunfinished = ["bad"]\nunit = "minutes"\n'
    )
    other = import_log(tmp_path / "jobs.csv", ImportOptions.load(tmp_path / "options.toml"))
    assert told(other, tmp_path)[-1] == (60, "end", "", "", None)


def test_a_parquet_file_is_the_same_as_the_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    (tmp_path / "jobs.csv").write_text(TABLE)
    parquet.write_table(csv.read_csv(tmp_path / "jobs.csv"), tmp_path / "jobs.parquet")
    options = ImportOptions().with_options(unit="minutes", **MAPPING)
    logs = [import_log(tmp_path / f"jobs.{kind}", options) for kind in ("csv", "parquet")]
    assert [log.format for log in logs] == ["csv", "parquet"]
    for log in logs:
        log.save(tmp_path / f"{log.format}.log")
    assert (tmp_path / "csv.log").read_bytes() == (tmp_path / "parquet.log").read_bytes()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (SWF, "swf"), (PHILLY, "philly"), (STATISTICS, "elastisim"), (TABLE, "csv"),
        ("name,time,application,num_replicas,batch_size\na,1,b,2,3\n", "pollux"),
        ((RECORDED / "sacct-all.txt").read_text(), "sacct"),
        ((RECORDED / "sacct.json").read_text(), "sacct-json"),
        ((RECORDED / "jobcomp.txt").read_text(), "jobcomp"), ("PAR1...", "parquet"), ("hello\nworld\n", None),
        ("1,2\n3,4\n", None), ("{}", None),
    ],
)  # fmt: skip
def test_formats_are_known_by_their_content(text: str, name: str | None) -> None:
    known = [one.name for one in IMPORTERS.values() if one.recognises(text.encode())]
    assert (known[0] if known else None) == name


# --- times ----------------------------------------------------------------------------------------


def test_a_zone_with_a_clock_change(tmp_path: Path) -> None:
    """Every hour through the end of summer time in Amsterdam: the clock shows 2:30 twice."""
    zone = ZoneInfo("Europe/Amsterdam")
    first = datetime(2025, 10, 25, 20, 30, tzinfo=UTC)
    rows = ["submit,start,end,cores"]
    for k in range(10):
        moments = [(first + timedelta(hours=k + d)).astimezone(zone) for d in (0, 0, 1)]
        rows.append(",".join([*(m.strftime("%Y-%m-%d %H:%M:%S") for m in moments), "1"]))
    log = imported("\n".join(rows), tmp_path, zone="Europe/Amsterdam", unit="hours")
    spent = log.path.response_times["all"]
    assert log.origin == first.timestamp()
    # Two jobs end or begin in the second of two equal hours, and nobody can tell: it is taken for the first.
    assert sorted(spent.tolist()) == [0.0, *[1.0] * 8, 2.0]
    zoned = [rows[0]] + [
        ",".join([*((first + timedelta(hours=k + d)).astimezone(zone).isoformat() for d in (0, 0, 1)), "1"])
        for k in range(10)
    ]
    assert (
        imported("\n".join(zoned), tmp_path, unit="hours").path.response_times["all"].tolist() == [1.0] * 10
    )


# --- what is censored, dropped, and there already --------------------------------------------------


BROKEN = """\
job,submit,start,end,cores,state
good,0,1,5,2,done
backwards,0,3,2,2,done
no end,0,3,,2,done
bad end,0,3,soon,2,done
no start,0,,5,2,done
bad start,0,soon,5,2,done
no cores,0,3,5,,done
zero,0,3,5,0,done
negative,0,3,5,-2,done
a million,0,3,5,1e6,done
words,0,3,5,many,done
nothing,,,5,2,done
bad submit,yesterday,3,5,2,done
short,0,3
late start,4,3,5,2,done
"""


def test_a_broken_job_is_cut_short_at_its_last_good_moment(tmp_path: Path) -> None:
    log = imported(BROKEN, tmp_path)
    accounted(log)
    lines = told(log, tmp_path)
    at_start = ("backwards", "no end", "bad end", "no cores", "zero", "negative", "a million", "words")
    for job in at_start:
        assert of_job(lines, job) == [(0, "arrival", 0), (3, "cancel", None)], job
    for job in ("no start", "bad start"):
        assert of_job(lines, job) == [(0, "arrival", 0), (0, "cancel", None)], job
    for job in ("nothing", "bad submit", "short"):
        assert of_job(lines, job) == []
    assert of_job(lines, "late start") == [(3, "arrival", 2), (5, "departure", None)]
    assert of_job(lines, "good") == [(0, "arrival", 0), (1, "resize", 2), (5, "departure", None)]
    assert log.account.count(drops=True) == {RowStatus.FIELDS: 1, RowStatus.NO_TIME: 1, RowStatus.BAD_TIME: 1}
    assert "line 5: when the job ended cannot be read (end 'soon')" in log.account.lines()


def test_an_observation_opens_and_closes_where_it_is_told(tmp_path: Path) -> None:
    text = "job,submit,start,end,cores\nbefore,0,1,5,1\nwaits,2,12,14,2\nruns,3,4,20,3\nafter,30,31,32,1\n"
    log = imported(text, tmp_path, since="10", until="15")
    accounted(log)
    assert told(log, tmp_path) == [
        (0, "start", "", "", None),
        (0, "present", "all", "waits", 0),
        (0, "present", "all", "runs", 3),
        (2, "resize", "all", "waits", 2),
        (4, "departure", "all", "waits", None),
        (5, "end", "", "", None),
    ]
    assert log.account.count(drops=True) == {RowStatus.OUTSIDE: 2}


def test_rows_of_one_name_are_one_job_unless_it_ended(tmp_path: Path) -> None:
    text = (
        "job,submit,start,end,cores,state\na,0,1,3,2,resized\na,3,3,5,4,resized\na,,7,9,1,done\n"
        "b,0,1,2,1,failed\nb,2,4,6,1,done\nc,0,1,2,1,resized\nc,2,9,8,1,done\nc,3,10,11,1,done\n"
    )
    log = imported(text, tmp_path)
    accounted(log)
    lines = told(log, tmp_path)
    assert of_job(lines, "a") == [
        (0, "arrival", 0), (1, "resize", 2), (3, "resize", 4), (5, "resize", 0), (7, "resize", 1),
        (9, "departure", None),
    ]  # fmt: skip
    assert of_job(lines, "b")[-1] == (2, "cancel", None)
    assert of_job(lines, "b#2") == [(2, "arrival", 0), (4, "resize", 1), (6, "departure", None)]
    assert log.account.count(drops=False) == {RowStatus.BACKWARDS: 1}


# --- a naive twin ---------------------------------------------------------------------------------


def naive_table(rows: Sequence[tuple[float, float, float, float, str]]) -> dict[float, list[float]]:
    """Departures and job-time by width, job by job."""
    table: dict[float, list[float]] = defaultdict(lambda: [0.0, 0.0])
    close = max(max(submit, start, end) for submit, start, end, _, _ in rows)
    for submit, start, end, cores, state in rows:
        over = {"running": close, "pending": close}.get(state, end)
        begun = close if state == "pending" else start
        table[0.0][1] += begun - submit
        if state != "pending":
            table[cores][1] += over - start
        if state == "completed":
            table[cores][0] += 1
    return table


@pytest.mark.parametrize("seed", range(4))
def test_a_random_table_has_the_statistics_of_its_jobs(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    jobs = 3000
    submit = np.round(np.cumsum(rng.exponential(1.0, jobs)), 3)
    start = np.round(submit + rng.choice([0.0, 1.0], jobs) * rng.exponential(5.0, jobs), 3)
    end = np.round(start + rng.exponential(20.0, jobs), 3)
    cores = rng.integers(1, 9, jobs)
    state = rng.choice(["completed", "failed", "running", "pending"], jobs, p=[0.8, 0.1, 0.05, 0.05])
    rows = [*zip(submit.tolist(), start.tolist(), end.tolist(), cores.tolist(), state.tolist(), strict=True)]
    lines = ["submit,start,end,cores,state"]
    for s, b, e, c, how in rng.permutation(np.array(rows, dtype=object)).tolist():
        known = (s, "" if how == "pending" else b, "" if how in ("running", "pending") else e)
        lines.append(",".join(map(str, [*known, c, how])))
    ended = end[np.isin(state, ["completed", "failed"])].max()
    last = max(ended, start[state != "pending"].max(), submit.max())
    rows = [(s, min(b, last), min(e, last), c, how) for s, b, e, c, how in rows]
    log = imported("\n".join(lines), tmp_path)
    log.save(tmp_path / "log.csv.gz")
    seen = cw.load_events(tmp_path / "log.csv.gz", a_system(log)).statistics["all"]
    expected = naive_table(rows)
    assert seen.widths.tolist() == sorted(expected)
    assert seen.departures.tolist() == [expected[z][0] for z in sorted(expected)]
    assert seen.job_time == pytest.approx([expected[z][1] for z in sorted(expected)], rel=1e-9)
    assert math.isclose(log.duration, last - submit.min(), abs_tol=1e-6)


# --- how files and times are written ----------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("name", ["sacct-all.txt", "sacct-epoch.txt", "sacct.json", "jobcomp.txt"])
def test_byte_order_marks_change_nothing(tmp_path: Path, name: str, encoding: str) -> None:
    """What PowerShell's > and editors of Windows write: UTF-16, or UTF-8 with a mark."""
    text = (RECORDED / name).read_text()
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    plain, marked = import_log(RECORDED / name), tmp_path / name
    marked.write_bytes((mark + text.replace("\n", "\r\n")).encode(encoding))
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(marked.read_bytes()))
    (tmp_path / "plain").mkdir()
    for file in (marked, packed):
        log = import_log(file)
        assert log.format == plain.format
        assert told(log, tmp_path) == told(plain, tmp_path / "plain")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("1 0 5 10 2 -1 -1 2 -1 -1 1 3 -1 1 -1 -1 -1 -1\n", "swf"),
        ("name,time,application,num_replicas,batch_size\na,0,x,2,1\n", "pollux"),
        ("timestamp,duration,num_gpus,cluster\n0,5,1,a\n", "philly"),
        ("ID,Type,Submit Time,Start Time,End Time,Status,Nodes\n1,rigid,0,1,5,completed,2\n", "elastisim"),
        ("submit;end;cores\n0;5;1\n", "csv"),
    ],
)
def test_formats_are_known_behind_a_byte_order_mark(
    tmp_path: Path, text: str, format_: str, encoding: str
) -> None:
    (tmp_path / "log").write_text(text, encoding=encoding)
    assert import_log(tmp_path / "log").format == format_


def test_what_is_not_utf_16_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes("submit,end,cores\n0,5,1\n".encode("utf-16") + b"x")
    with pytest.raises(InvalidFile, match="not UTF-16 text"):
        import_log(tmp_path / "log")


DAY_FIRST = """job,submit,start,end,cores
a,29.03.2026 01:30,29.03.2026 03:30,29.03.2026 04:00,2
b,03.04.2026 10:00,03.04.2026 10:01,Unknown,2
"""


def test_dates_are_read_by_a_format(tmp_path: Path) -> None:
    written = {"time_format": "%d.%m.%Y %H:%M"}
    log = imported(DAY_FIRST, tmp_path, **written, unit="minutes")
    assert of_job(told(log, tmp_path), "a") == [
        (0, "arrival", 0.0),
        (120, "resize", 2.0),
        (150, "departure", None),
    ]
    assert of_job(told(log, tmp_path), "b")[0][0] == (5 * 24 + 8.5) * 60
    summer = imported(DAY_FIRST, tmp_path, **written, unit="minutes", zone="Europe/Amsterdam")
    assert of_job(told(summer, tmp_path), "a")[1][0] == 60.0  # the clock went forward in between
    since = imported(DAY_FIRST, tmp_path, **written, since="01.04.2026 00:00", unit="hours")
    assert told(since, tmp_path)[1][0] == 58.0
    american = DAY_FIRST.replace("29.03.2026", "03/29/2026").replace("03.04.2026", "04/03/2026")
    assert told(imported(american, tmp_path, time_format="%m/%d/%Y %H:%M"), tmp_path) == told(
        imported(DAY_FIRST, tmp_path, **written), tmp_path
    )
    zoned = DAY_FIRST.replace("2026 ", "2026 +0200 ")
    log = imported(zoned, tmp_path, time_format="%d.%m.%Y %z %H:%M")
    assert log.origin == datetime(2026, 3, 28, 23, 30, tzinfo=UTC).timestamp()


def test_dates_that_cannot_be_read_name_the_option(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFile, match=r"line 2: submit '29.03.2026 01:30' looks like a date: --time-format"
    ):
        imported(DAY_FIRST, tmp_path)
    with pytest.raises(InvalidFile, match=r"is not written as --time-format '%m/%d/%Y' says"):
        imported(DAY_FIRST, tmp_path, time_format="%m/%d/%Y")
    some = DAY_FIRST + "c,2026-04-03 10:00,2026-04-03 10:00,2026-04-03 11:00,1\n"
    assert any("looks like a date: --time-format" in note for note in imported(some, tmp_path).notes)
    soon = "job,submit,end,cores\na,0,5,1\nb,soon,5,1\n"
    assert imported(soon, tmp_path).notes == ()  # negative control: not a date
    for wrong in ("dd.mm.yyyy", "%Q", "%s"):
        with pytest.raises(InvalidInput, match="time format must be a pattern"):
            ImportOptions(time_format=wrong)


def test_seconds_and_milliseconds_are_not_mixed(tmp_path: Path) -> None:
    seconds = "job,start,end,cores\na,1773000000,1773000020,2\n"
    mixed = seconds + "b,1773000005000,1773000020000,2\n"
    with pytest.raises(InvalidFile, match=r"line 3: '1773000005000' looks like milliseconds.*line 2 has"):
        imported(mixed, tmp_path)
    within = "job,start,end,cores\na,1773000000,1773000020000,2\n"
    with pytest.raises(InvalidFile, match=r"line 2: '1773000020000' looks like milliseconds"):
        imported(within, tmp_path)
    milliseconds = "job,start,end,cores\na,1773000000000,1773000020500,2\n"
    with pytest.raises(InvalidFile, match=r"line 2: '1773000000000'.*--time-format milliseconds"):
        imported(milliseconds, tmp_path)
    log = imported(milliseconds, tmp_path, time_format="milliseconds")
    assert (log.duration, log.origin) == (20.5, 1773000000.0)
    assert imported(seconds, tmp_path).duration == 20.0
    lengths = "job,submit,duration,cores\na,1773000000000,2500,2\n"
    assert imported(lengths, tmp_path, time_format="milliseconds").duration == 2.5


PENDING = """JobID|JobName|User|Partition|State|Submit|Start|End|AllocCPUS
100|x|u|p|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:05|2026-03-01T10:10:00|4
101_[3-6,9%2]|x|u|p|PENDING|2026-03-01T10:02:00|Unknown|Unknown|0
101_2|x|u|p|COMPLETED|2026-03-01T10:02:00|2026-03-01T10:03:00|2026-03-01T10:04:00|4
102_[0-8:4]|x|u|p|CANCELLED by 0|2026-03-01T10:05:00|Unknown|2026-03-01T10:06:00|0
103_[1,5,...]|x|u|p|PENDING|2026-03-01T10:02:00|Unknown|Unknown|0
104_[0-4000000000]|x|u|p|PENDING|2026-03-01T10:02:00|Unknown|Unknown|0
"""


def test_tasks_of_an_array_that_wait_are_jobs_that_wait(tmp_path: Path) -> None:
    log = imported(PENDING, tmp_path, "sacct.txt")
    accounted(log)
    lines = told(log, tmp_path)
    for task in (3, 4, 5, 6, 9):
        assert of_job(lines, f"101_{task}") == [(120.0, "arrival", 0.0)]
    for task in (0, 4, 8):
        assert of_job(lines, f"102_{task}") == [(300.0, "arrival", 0.0), (360.0, "cancel", None)]
    assert (log.jobs, log.departures, log.cancellations) == (10, 2, 3)
    assert log.account.count(drops=True) == {RowStatus.ARRAY: 2}
    assert (
        "2 rows are arrays of 8 tasks that had not started: each task counts as a row, and as a job"
        in log.notes
    )
    assert [event for _, event, *_ in of_job(lines, "101_2")] == ["arrival", "resize", "departure"]


def test_tasks_of_an_array_in_json(tmp_path: Path) -> None:
    job = {
        "job_id": 7, "state": {"current": "PENDING"},
        "time": {"submission": 1773000000, "start": 0, "end": 0},
        "array": {"job_id": 7, "task_id": {"set": False, "number": 0}, "task": "1-3%2"}, "user": "u",
    }  # fmt: skip
    done = {
        **job, "job_id": 6, "array": {"job_id": 0, "task_id": {"set": False}, "task": ""},
        "state": {"current": ["COMPLETED"]}, "required": {"CPUs": 2},
        "time": {"submission": 1773000000, "start": 1773000001, "end": 1773000002},
    }  # fmt: skip
    file = tmp_path / "sacct.json"
    file.write_text(json.dumps({"meta": {"Slurm": {}}, "jobs": [job, done]}))
    log = import_log(file)
    assert (log.format, log.jobs, log.departures) == ("sacct-json", 4, 1)
