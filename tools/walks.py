"""Files of corewise that seven walks pass through, at one or several revisions.

    python tools/walks.py                       the working tree
    python tools/walks.py ca9fbc4 HEAD .        revisions side by side; `.` is the working tree
    python tools/walks.py --files . advise      also the files, in the order in which a walk reaches them

A file is passed if a function of it is called while the walk is under way. Calls at import, ``__init__.py``
and compiled code are not counted. Every process and thread that a walk starts is watched. In brackets:
without ``errors.py``, ``kit`` and ``_kernels``, which are no stations of a walk. The walks:

- solve, estimate, learn, advise, import: the verb, from its first line to its last;
- job: jobs of a live pool over threads, from ``run`` to their results and to a policy solved for them;
- event: one event that is posted to ``corewise serve`` and answered.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
TIMEOUT = 120.0
BEGIN = "--"
"""Note of a process that its walk begins here; what it did before, to get ready, does not count."""
WATCH = '''
"""Note the files of corewise of which a function is called."""
import os, signal, sys, threading

TREE, NOTES, BEGIN = os.environ["WALK_TREE"], os.environ["WALK_NOTES"], os.environ["WALK_BEGIN"]
seen = set()

def note(frame, event, _):
    if event != "call":
        return
    file = frame.f_code.co_filename
    if file in seen or not file.startswith(TREE) or file.endswith("__init__.py"):
        return
    above = frame
    while above is not None:
        if above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(TREE):
            if not above.f_code.co_filename.endswith("__main__.py"):
                return
        above = above.f_back
    seen.add(file)
    with open(NOTES, "a") as notes:
        notes.write(f"{os.getpid()} {file[len(TREE):]}\\n")

def begin(*_):
    seen.clear()
    with open(NOTES, "a") as notes:
        notes.write(f"{os.getpid()} {BEGIN}\\n")

sys.setprofile(note)
threading.setprofile(note)
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGUSR2, begin)
'''
SYSTEM = """cores = 16
[[class]]
name = "etl"
arrival_rate = 4.0
size_rate = 1.0
speedup = { family = "amdahl", p = 0.35 }
[[class]]
name = "training"
arrival_rate = 1.5
size_rate = 0.25
speedup = { family = "amdahl", p = 0.95 }
"""
SLURM = """JobID|JobName|Partition|Submit|Start|End|State|AllocCPUS|ElapsedRaw
1|etl|main|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:05:10|COMPLETED|4|300
2|train|main|2026-01-01T00:01:00|2026-01-01T00:01:10|2026-01-01T00:11:10|COMPLETED|8|600
3|etl|main|2026-01-01T00:02:00|2026-01-01T00:02:10|2026-01-01T00:07:10|COMPLETED|4|300
"""
JOBS = """
import os, signal, time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
import corewise as cw

def rounds(job):
    for _ in range(2):
        yield [partial(time.sleep, 0.001)] * job.cores

if __name__ == "__main__":
    classes = [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.5)) for name in ("a", "b")]
    engine = cw.live.engines.ExecutorEngine(ThreadPoolExecutor(4))
    algorithm = cw.algorithm_1b(cw.System(4, classes), departures=10)
    with cw.LivePool(classes, engine=engine, algorithm=algorithm) as pool:
        os.kill(os.getpid(), signal.SIGUSR2)
        end = time.monotonic() + 60
        while pool.report().windows < 1 and time.monotonic() < end:
            for job in [pool.run(name, rounds) for name in "abab"]:
                job.result()
"""


class Walker:
    """Runs walks on one source tree, in a folder of its own."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.folder, self.notes = folder, folder / "notes.txt"
        (folder / "sitecustomize.py").write_text(WATCH)
        (folder / "system.toml").write_text(SYSTEM)
        (folder / "pool.toml").write_text(SYSTEM)
        (folder / "slurm.txt").write_text(SLURM)
        (folder / "jobs.py").write_text(JOBS)
        self.plain = os.environ | {"PYTHONPATH": str(source)}
        self.watched = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(folder), str(source)]),
            "WALK_TREE": f"{source / 'corewise'}{os.sep}",
            "WALK_NOTES": str(self.notes),
            "WALK_BEGIN": BEGIN,
        }
        self.verb(
            "simulate",
            "system.toml",
            "--policy",
            "equi",
            "--departures",
            "2000",
            "--seed",
            "1",
            "--events",
            "log.csv",
        )

    def verb(self, *words: str, watched: bool = False) -> None:
        """Run a verb of the command line."""
        self.run(["-m", "corewise", *words], watched=watched)

    def run(self, words: list[str], *, watched: bool) -> None:
        """Run Python with these arguments."""
        environment = self.watched if watched else self.plain
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stdout}{done.stderr}")

    def event(self) -> None:
        """Post an event to a service; only what happens then is counted."""
        words = ["-m", "corewise", "serve", "pool.toml", "--journal", "pool.db", "--port", "8437"]
        server = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.watched,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            token = self._wait_until_served(self.folder / "pool.db.token")
            server.send_signal(signal.SIGUSR2)
            time.sleep(1.0)
            event = {"kind": "job-arrived", "time": time.time(), "id": "1", "job": "a1", "job_class": "etl"}
            request = urllib.request.Request(
                "http://127.0.0.1:8437/v1/events",
                json.dumps(event).encode(),
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                answer.read()
            lines = self.notes.read_text().splitlines(keepends=True)
        finally:
            server.terminate()
            server.wait()
        self.notes.write_text("".join(line for line in lines if line.startswith(f"{server.pid} ")))

    @staticmethod
    def _wait_until_served(token: Path) -> str:
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen("http://127.0.0.1:8437/healthz", timeout=5.0):
                    return token.read_text().strip()
            except OSError:
                time.sleep(0.2)
        raise SystemExit("the service does not answer")

    def files(self, walk: str) -> list[str]:
        """Return the files that a walk passes, in the order in which it reaches them."""
        self.notes.write_text("")
        self._walks()[walk]()
        notes = [line.split(" ", 1) for line in self.notes.read_text().splitlines()]
        for position in [i for i, (_, file) in enumerate(notes) if file == BEGIN]:
            process = notes[position][0]
            notes = [[p, f] for i, (p, f) in enumerate(notes) if p != process or i > position]
        return list(dict.fromkeys(file for _, file in notes))

    def _walks(self) -> dict[str, Callable[[], None]]:
        def verb(*words: str) -> Callable[[], None]:
            return lambda: self.verb(*words, watched=True)

        learn = (
            "learn",
            "paper:1",
            "--algorithm",
            "1b",
            "--departures",
            "100",
            "--steps",
            "3",
            "--seed",
            "1",
        )
        return {
            "solve": verb("solve", "system.toml"),
            "estimate": verb("estimate", "system.toml", "log.csv"),
            "learn": verb(*learn),
            "advise": verb("advise", "log.csv", "--cores", "16", "--out", "report"),
            "job": lambda: self.run(["jobs.py"], watched=True),
            "event": self.event,
            "import": verb("import", "slurm.txt", "--out", "imported.csv"),
        }


WALKS = ("solve", "estimate", "learn", "advise", "job", "event", "import")


def source_at(revision: str, folder: Path) -> Path:
    """Return the folder ``src`` of a revision, unpacked; that of the working tree for ``.``."""
    if revision == ".":
        return ROOT / "src"
    packed = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def _counts(files: list[str]) -> str:
    stations = [file for file in files if not file.startswith(("kit/", "errors")) and "_kernels" not in file]
    return f"{len(files)} ({len(stations)})"


def main() -> None:
    """Print a table of walks by revisions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="revisions and walks")
    parser.add_argument("--files", action="store_true", help="print the files too")
    options = parser.parse_args()
    walks = [name for name in options.names if name in WALKS] or list(WALKS)
    revisions = [name for name in options.names if name not in WALKS] or ["."]
    found: dict[str, dict[str, list[str]]] = {}
    for revision in revisions:
        with tempfile.TemporaryDirectory() as tree, tempfile.TemporaryDirectory() as folder:
            walker = Walker(source_at(revision, Path(tree)), Path(folder))
            found[revision] = {walk: walker.files(walk) for walk in walks}
    print(f"{'':10}" + "".join(f"{revision:>10}" for revision in revisions))
    for walk in walks:
        print(f"{walk:10}" + "".join(f"{_counts(found[revision][walk]):>10}" for revision in revisions))
    every = {
        revision: [file for files in found[revision].values() for file in files] for revision in revisions
    }
    print(f"{'all':10}" + "".join(f"{_counts(every[revision]):>10}" for revision in revisions))
    if options.files:
        for revision in revisions:
            for walk in walks:
                print(f"\n{walk}, {revision}: " + " ".join(found[revision][walk]))


if __name__ == "__main__":
    main()
