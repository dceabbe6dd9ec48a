"""Hostile command lines about logs of other programs and live pools, and the files that they need.

A line is words with bars between them, as in `benchmarks/hostile.py`.
"""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from time import sleep

import corewise as cw
from corewise.live.engines.base import Holding, Rounds
from corewise.live.engines.executor import ExecutorEngine

__all__ = ["accepted", "refused", "write_pool_files"]

_HEADER = "id,user,submitted,started,ended,cores,state\n"
_COLUMNS = (
    "--job|id|--submit|submitted|--start|started|--end|ended|--cores|cores|--state|state|--done|done|"
    "--unfinished|failed"
)
_JOB_LOG = "time,event,class,job,cores\n"
_POOL = 'cores = 8\n[[class]]\nname = "one"\nspeedup = { family = "amdahl", p = 0.5 }\n'

_BAD_STATES = {
    "empty.csv": "",
    "prose.csv": "Dear all,\nthere are no jobs here.\n",
    "no-class.csv": "name,held\na,1\n",
    "unknown-class.csv": "name,class\na,oen\n",
    "unknown-column.csv": "name,class,cores\na,one,1\n",
    "twice.csv": "name,class\na,one\na,two\n",
    "nan.csv": "name,class,attained\na,one,nan\n",
    "infinite.csv": "name,class,remaining\na,one,inf\n",
    "negative.csv": "name,class,held\na,one,-1\n",
    "limits.csv": "name,class,min_cores,max_cores\na,one,4,2\n",
    "speeds.csv": "name,class,speeds\na,one,0 one 2\n",
    "no-speeds.csv": "name,class,speeds\na,one,0\n",
    "object.json": '{"name": "a"}',
    "numbers.json": "[1, 2]",
    "nested.json": "[" * 5000,
    "nan.json": '[{"name": "a", "class": "one", "attained": NaN}]',
    "text.json": '[{"name": "a", "class": "one", "held": "two"}]',
    "list.json": '[{"name": ["a"], "class": {"b": 1}}]',
}
_ODD_STATES = {
    "header.csv": "name,class,held\n",
    "fields.csv": "name,class,held\na,one\n",
    "crowded.csv": "name,class,held\na,one,1e9\n",
    "names.csv": 'name,class\n"a\x1b[31m,\nb",one\n\u202eb,two\n',
    "large.csv": "name,class,remaining\na,one,1e300\nb,two,1e-300\n",
    "falls.csv": "name,class,held,speeds\na,one,2,0 1 1.5 0.5\n",
}


def _table(rows: int, cores: str = "2", state: str = "done") -> str:
    return _HEADER + "".join(f"j{k},u{k % 2},{k}.0,{k}.5,{k + 3}.0,{cores},{state}\n" for k in range(rows))


_TABLES = {
    "jobs.csv": _table(40),
    "one-job.csv": _table(1),
    "all-failed.csv": _table(20, state="failed"),
    "states.csv": _table(20, state="vanished"),
    "no-cores.csv": _table(20, cores="0"),
    "many-cores.csv": _table(20, cores="1e6"),
    "strange-cores.csv": _table(20, cores="two"),
    "infinite.csv": _table(20, cores="inf"),
    "header.csv": _HEADER,
    "empty.csv": "",
    "prose.csv": "Dear all,\nthere is no log here.\n",
    "zones.csv": _HEADER
    + "a,u,2024-01-01T00:00:00,2024-01-01T00:01:00,2024-01-01T00:02:00,2,done\n"
    + "b,u,2024-01-01T00:00:00+01:00,2024-01-01T00:01:00Z,2024-01-01T00:02:00Z,2,done\n",
    "backwards.csv": _HEADER + "a,u,9,5,1,2,done\n",
    "twice.csv": _HEADER + 2 * "a,u,1,2,3,2,done\n",
}
_EVENT_LOGS = {
    "one-class.csv": _JOB_LOG + "0,arrival,a,1,2\n1,departure,a,1,\n",
    "header.csv": _JOB_LOG,
    "never-left.csv": _JOB_LOG + "0,arrival,a,1,2\n5,end,,,\n",
    "cancelled.csv": _JOB_LOG + "".join(f"{k},arrival,a,{k},2\n{k}.5,cancel,a,{k},\n" for k in range(20)),
    "nameless.csv": "time,event,class,job,cores:a\n0,arrival,a,,2\n1,departure,a,,0\n",
}
_POOLS = {
    "nearest.toml": _POOL.replace("cores", "coers"),
    "no-class.toml": "cores = 8\n",
    "control.toml": _POOL + "[control]\nleast_sen = 3\n",
    "window.toml": _POOL + "[control]\nwindow = -1\n",
    "limits.toml": _POOL + '[service]\nlargest_body = "much"\n',
    "hosts.toml": _POOL + "[service]\nhosts = 7\n",
    "half.toml": _POOL.replace("8", "8.5"),
    "least.toml": _POOL + "min_cores = 5\nmost_cores = 2\n",
    "above.toml": _POOL + "min_cores = 9\n",
    "empty.toml": "",
}


def write_pool_files() -> None:
    """Write all of them to the current directory."""
    folders = {"tables": _TABLES, "joblogs": _EVENT_LOGS, "pools": _POOLS}
    folders |= {"states": _BAD_STATES, "odd-states": _ODD_STATES}
    for folder, files in folders.items():
        Path(folder).mkdir()
        for name, text in files.items():
            (Path(folder) / name).write_text(text, newline="")
    whole = gzip.compress(_table(2000).encode())
    Path("tables/cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    Path("tables/no.csv.gz").write_bytes(b"not compressed at all\n")
    Path("tables/binary.csv").write_bytes(bytes(range(256)) * 50)
    Path("states/binary.csv").write_bytes(bytes(range(256)) * 50)
    Path("pool.toml").write_text(_POOL)
    Path("mapping.toml").write_text('submit = "submited"\nend = "ended"\ncores = "cores"\n')
    Path("unknown.toml").write_text('submti = "submitted"\n')
    Path("types.csv").write_text("class,cores,throughput\na,1,1\na,2,2\nb,1,1\nb,2,-1\n")
    Path("alike.csv").write_text("class,cores,throughput\na,1,1\na,1,1\nb,1,1\n")
    Path("open.token").write_text("x" * 40)
    Path("open.token").chmod(0o644)  # others can read it
    _write_journals()


def _rounds(job: Holding) -> Rounds:
    yield [partial(sleep, 0.001)] * job.cores


def _write_journals() -> None:
    Path("journals").mkdir()
    engine = ExecutorEngine(ThreadPoolExecutor(4))
    with cw.LivePool([cw.JobClass("one", speedup=cw.Amdahl(0.5))], engine, "good.db") as pool:
        for _ in range(3):
            pool.run("one", _rounds).result()
    whole = Path("good.db").read_bytes()
    Path("journals/empty.db").write_bytes(b"")
    Path("journals/cut.db").write_bytes(whole[: len(whole) // 2])
    Path("journals/text.db").write_text("no journal\n")
    Path("journals/changed.db").write_bytes(whole[:4096] + bytes(4096) + whole[8192:])
    with closing(sqlite3.connect("journals/foreign.db")) as other, other:
        other.execute("create table things (id integer)")
    shutil.copy("good.db", "journals/newer.db")
    with closing(sqlite3.connect("journals/newer.db")) as newer, newer:
        newer.execute("update about set value = replace(value, 'journal 1', 'journal 99')")


def refused() -> Iterator[str]:
    """Yield the command lines that must be refused, in one line."""
    good = {"jobs.csv", "one-job.csv", "all-failed.csv", "twice.csv"}
    for path in sorted(Path("tables").iterdir()):
        if path.name not in good:
            yield f"import|{path}|{_COLUMNS}|--out|out.csv"
    table = f"import|tables/jobs.csv|{_COLUMNS}|--out|"
    yield from (
        "import|.|--out|out.csv",
        "import|nowhere.csv|--out|out.csv",
        "import|/dev/null|--out|out.csv",
        "import|tables/jobs.csv|--out|out.csv|--format|nonsense",
        "import|tables/jobs.csv|--out|out.csv|--format|swf",
        "import|tables/jobs.csv|--out|out.csv|--format|sacct-json",
        "import|tables/jobs.csv|--out|out.csv|--submit|submited|--end|ended|--cores|cores",
        "import|tables/jobs.csv|--out|out.csv|--mapping|mapping.toml",
        "import|tables/jobs.csv|--out|out.csv|--mapping|unknown.toml",
        "import|tables/jobs.csv|--out|out.csv|--mapping|nowhere.toml",
        f"{table}out.csv|--class|usr",
        f"{table}out.csv|--class|user|--class-pattern|(",
        f"{table}out.csv|--classes|0",
        f"{table}out.csv|--pool|0",
        f"{table}out.csv|--pool|nan",
        f"{table}out.csv|--zone|Mars/Olympus",
        f"{table}out.csv|--unit|fortnights",
        f"{table}out.csv|--since|yesterday",
        f"{table}out.csv|--since|30|--until|20",
        f"{table}.",
        f"{table}/proc/nowhere/out.csv",
        f"{table}/dev/full",
    )
    for path in sorted(Path("joblogs").iterdir()):
        yield f"advise|{path}|--out|advice"
    yield from (
        "advise|.|--out|advice",
        "advise|nowhere.csv|--out|advice",
        "advise|tables/prose.csv|--out|advice",
        "advise|tables/cut.csv.gz|--out|advice",
        "advise|log0.csv|--out|good.toml",
        "advise|log0.csv|--out|/proc/nowhere/advice",
        "advise|log0.csv|--out|advice|--cores|0",
        "advise|log0.csv|--out|advice|--cores|1",
        "advise|log0.csv|--out|advice|--cores|nan",
        "advise|log0.csv|--out|advice|--seed|-1",
        "advise|log0.csv|--out|advice|--throughput|nowhere.csv",
        "advise|log0.csv|--out|advice|--throughput|tables/prose.csv",
        "advise|log0.csv",
        "allocate|paper:1|--policy|equi|--jobs|one=-1",
        "allocate|paper:1|--policy|equi|--jobs|one=1.5",
        "allocate|paper:1|--policy|equi|--jobs|one=nan",
        "allocate|paper:1|--policy|equi|--jobs|oen=1",
        "allocate|paper:1|--policy|equi|--jobs|one=1,one=2",
        "allocate|paper:1|--policy|equi|--jobs|one",
        "allocate|paper:1|--policy|nonsense",
        "allocate|odd-cores.toml|--policy|equi|--whole-cores",
        "allocate|paper:1|--policy|equi|--save|/dev/full",
        "allocate|nowhere.toml|--policy|equi|--jobs|one=1",
        "plan|paper:1",
        "plan|paper:1|--target|oen=0.5",
        "plan|paper:1|--target|one:p101=0.5",
        "plan|paper:1|--target|one=nan",
        "plan|paper:1|--target|0.5|--cores|0",
        "plan|paper:1|--target|0.5|--cores|x",
        "plan|paper:1|--target|0.5|--price|-1",
        "plan|paper:1|--target|0.5|--log|nowhere.csv",
        "plan|paper:1|--target|0.5|--max-cores|0",
        "fit|types.csv",
        "fit|alike.csv",
        "fit|types.csv|--by|clas",
        "fit|curve.csv|--by|type",
        "fit|curve.csv|--where|cores",
        "fit|curve.csv|--where|cores=99",
        "fit|curve.csv|--time|seconds",
        "fit|curve.csv|--family|free|--level|1",
        "live|demo|--engine|teapot",
        "live|demo|--seconds|0",
        "live|demo|--seconds|nan",
        "live|demo|--seed|-1",
        "live|demo|--plot|x.txt|--seconds|1",
        "live|doctor|--engine|teapot",
        "live|doctor|--at|/proc/nowhere",
        "live|explain|good.db|nobody",
        "live|events|good.db|--since|x",
        "live|watch|http://127.0.0.1:1|--once",
        "live|watch|not an address|--once",
        "live|watch|http://127.0.0.1:1|--once|--token-file|nowhere",
        "live|nonsense",
        "serve|nowhere.toml|--journal|s.db|--port|0",
        "serve|.|--journal|s.db|--port|0",
        "serve|pool.toml|--journal|s.db|--port|-1",
        "serve|pool.toml|--journal|s.db|--port|99999",
        "serve|pool.toml|--journal|s.db|--port|x",
        "serve|pool.toml|--journal|s.db|--port|0|--host|nowhere.invalid",
        "serve|pool.toml|--journal|s.db|--port|0|--token-file|open.token",
        "serve|pool.toml|--journal|s.db|--port|0|--token-file|.",
        "serve|pool.toml|--journal|.|--port|0",
        "serve|pool.toml|--journal|/proc/nowhere/s.db|--port|0",
        "serve|good.toml|--journal|good.db|--port|0",
        "estimate|paper:1|good.db",
        "estimate|one.toml|good.db|--family|nonsense",
    )
    for path in (*sorted(Path("states").iterdir()), Path()):
        yield f"allocate|paper:1|--jobs|{path}"
    yield from (
        "allocate|paper:1|--jobs|nowhere.csv",
        "allocate|paper:1|--jobs|odd-states/falls.csv|--whole|--pause|-1",
        "allocate|paper:1|--jobs|odd-states/falls.csv|--pause|1",
        "allocate|odd-cores.toml|--jobs|odd-states/falls.csv|--whole",
    )
    for path in sorted(Path("pools").iterdir()):
        yield f"serve|{path}|--journal|s.db|--port|0"
    for path in sorted(Path("journals").iterdir()):
        for verb in ("status", "replay", "events"):
            yield f"live|{verb}|{path}"
        yield f"estimate|one.toml|{path}"
        if path.name != "empty.db":  # an empty file becomes a journal
            yield f"serve|pool.toml|--journal|{path}|--port|0"


def accepted() -> Iterator[str]:
    """Yield command lines that look bad and are not."""
    yield from (
        f"import|tables/jobs.csv|{_COLUMNS}|--out|in.csv",
        f"import|tables/jobs.csv|{_COLUMNS}|--out|in.csv.gz|--json",
        f"import|tables/all-failed.csv|{_COLUMNS}|--out|failed.csv",
        "allocate|paper:1|--policy|equi",
        "allocate|paper:1|--policy|equi|--jobs|one=100000,two=0",
        *(f"allocate|paper:1|--jobs|{path}" for path in sorted(Path("odd-states").iterdir())),
        "allocate|paper:1|--jobs|odd-states/falls.csv|--whole|--pause|0.1",
        "live|status|good.db",
        "live|status|good.db|--json",
        "live|events|good.db|--since|-1",
        "live|events|good.db|--since|999",
        "live|replay|good.db",
    )
