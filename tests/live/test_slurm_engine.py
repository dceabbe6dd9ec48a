"""The Slurm engine: recorded answers always, a Slurm that is emulated, and a real one where there is one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

import corewise as cw
from corewise.errors import CorewiseError, InvalidInput
from corewise.live.engines.slurm import Slurm, SlurmEngine, Started
from tests.helpers.engines import eventually
from tests.helpers.live_pools import solve_in_a_thread

CLASSES = [cw.JobClass("encode", arrival_rate=1.0, size_rate=1.0, speedup=cw.Amdahl(0.5))]

# As Slurm 22.05.8 answers: an allocation of eight nodes with a processor each, and four workers in it.
RECORDED = {
    ("squeue", "--noheader", "--jobs=1", "--format=%C"): (0, "8\n"),
    ("squeue", "--noheader", "--steps", "--jobs=1", "--format=%i %j"): (
        0,
        "1.extern extern\n1.0 encode-1.1\n1.1 encode-1.2\n1.2 encode-1.3\n1.3 encode-1.4\n",
    ),
    ("squeue", "--noheader", "--jobs=9", "--format=%C"): (
        1,
        "slurm_load_jobs error: Invalid job id specified\n",
    ),
    ("squeue", "--noheader", "--jobs=8", "--format=%C"): (0, ""),
}


def recorded(command: Sequence[str]) -> tuple[int, str]:
    return RECORDED[tuple(command)]


def test_what_slurm_has_answered_is_understood() -> None:
    slurm = Slurm(1, run=recorded)
    assert slurm.cores() == 8
    assert [slurm.steps()[f"encode-1.{k}"] for k in range(1, 5)] == ["1.0", "1.1", "1.2", "1.3"]
    with pytest.raises(CorewiseError, match="squeue failed with 1: 'slurm_load_jobs error: Invalid job id"):
        Slurm(9, run=recorded).cores()
    with pytest.raises(CorewiseError, match="Slurm knows no allocation 8"):
        Slurm(8, run=recorded).cores()
    with pytest.raises(InvalidInput, match="allocation must be at least 1"):
        Slurm(0)


def test_where_slurm_is_not_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CorewiseError, match="there is no command 'squeue': is Slurm installed here"):
        SlurmEngine(1)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    solve_in_a_thread(monkeypatch)


class FakeStep:
    """A worker: it runs until it is told to end, or there is no work left."""

    def __init__(self, slurm: FakeSlurm, name: str) -> None:
        self._slurm, self.name = slurm, name
        self._over = threading.Event()
        self._code = 0

    def wait(self) -> int:
        self._over.wait()
        return self._code

    def terminate(self) -> None:
        self.leave(143)

    def leave(self, code: int) -> None:
        self._code = code
        self._slurm.running.pop(self.name, None)
        self._over.set()


class FakeSlurm:
    """Slurm with eight processors, as its commands show it."""

    def __init__(self) -> None:
        self.running: dict[str, FakeStep] = {}
        self.commands: list[Sequence[str]] = []

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        if command[0] == "scancel":
            self.running[command[2][2:]].leave(143)
        if "--steps" in command:
            return 0, "".join(f"1.{name} {name}\n" for name in list(self.running))
        return 0, "8\n"

    def start(self, command: Sequence[str]) -> Started:
        self.commands.append(command)
        name = next(word for word in command if word.startswith("--job-name="))[11:]
        self.running[name] = FakeStep(self, name)
        return self.running[name]

    def engine(self) -> SlurmEngine:
        return SlurmEngine(Slurm(1, self.run, self.start))


def test_a_crew_grows_shrinks_and_finishes(quick: None) -> None:
    slurm = FakeSlurm()
    with cw.LivePool(CLASSES, slurm.engine()) as pool:
        first = pool.command("encode", ["worker", "queue-1"])
        eventually(lambda: len(slurm.running), 8)
        eventually(lambda: first.cores, 8)
        second = pool.command("encode", ["worker", "queue-2"])
        eventually(lambda: (first.cores, second.cores), (4, 4))
        kept = [name for name in slurm.running if name.startswith("encode-1.")]
        assert kept == [f"encode-1.{k}" for k in range(1, 5)]  # the newest have gone
        assert slurm.commands[0][:2] == ["srun", "--jobid=1"]
        assert slurm.commands[0][-2:] == ["worker", "queue-1"]
        for name in kept:
            slurm.running[name].leave(0)
        assert first.result() == 4
        eventually(lambda: second.cores, 8)
        for step in list(slurm.running.values()):
            step.leave(0)
        assert second.result() == 8
        report = pool.report()
    assert (report.classes[0].arrived, report.classes[0].finished) == (2, 2)


def test_a_worker_that_fails_ends_its_crew_and_one_that_is_cancelled_too(quick: None) -> None:
    slurm = FakeSlurm()
    with cw.LivePool(CLASSES, slurm.engine()) as pool:
        failing = pool.command("encode", ["worker"])
        eventually(lambda: failing.cores, 8)
        slurm.running["encode-1.3"].leave(1)
        with pytest.raises(CorewiseError, match="job 'encode-1' was ended: failed"):
            failing.result()
        assert slurm.running == {}
        cancelled = pool.command("encode", ["worker"])
        eventually(lambda: cancelled.cores, 8)
        assert cancelled.cancel()
        eventually(lambda: len(slurm.running), 0)
        eventually(lambda: pool.report().classes[0].ended, 2)


def test_an_engine_of_calls_runs_no_commands_and_the_other_way_round(quick: None) -> None:
    slurm = FakeSlurm()
    with cw.LivePool(CLASSES, slurm.engine()) as pool:
        with pytest.raises(InvalidInput, match="SlurmEngine runs commands, not calls"):
            pool.map("encode", partial(pow, 2), range(3))
        with pytest.raises(InvalidInput, match="command must be a list of words"):
            pool.command("encode", "worker queue")


ROOT = Path(__file__).resolve().parents[2]
WHOLE = ("slurmctld", "slurmd", "srun", "munged", "unshare")
REAL = """
import json, re, subprocess, sys, time
import corewise as cw
from corewise.live.engines.slurm import SlurmEngine
command = ["salloc", "--no-shell", "-N8", "--exclusive"]
said = subprocess.run(command, capture_output=True, text=True, check=True)
allocation = int(re.search(r"allocation (\\d+)", said.stderr).group(1))
make = cw.JobClass("encode", arrival_rate=1.0, size_rate=1.0, speedup=cw.Amdahl(0.5))
work = "trap 'exit 143' TERM; while [ ! -e done-$0 ]; do sleep 0.05; done"
took = {}

def until(check):
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < 60, [job.cores for job in jobs]
        time.sleep(0.01)
    return round(time.monotonic() - began, 3)

with cw.LivePool([make], SlurmEngine(allocation)) as pool:
    jobs = [pool.command("encode", ["sh", "-c", work, "one"], most=4)]
    took["four workers"] = until(lambda: jobs[0].cores == 4)
    pool.set_limits("encode", least=1, most=8)
    jobs += [pool.command("encode", ["sh", "-c", work, name], most=2) for name in ("two", "three", "four")]
    took["shrunk to two, three others grown"] = until(lambda: [job.cores for job in jobs] == [2, 2, 2, 2])
    open("done-two", "w"), open("done-three", "w"), open("done-four", "w")
    took["grown to four again"] = until(lambda: jobs[0].cores == 4)
    open("done-one", "w")
    results = [job.result() for job in jobs]
    row = pool.report().classes[0]
    print(json.dumps({"took": took, "results": results, "finished": row.finished}))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0 or any(shutil.which(name) is None for name in WHOLE),
    reason="no Slurm is installed here to try the engine on, or nobody may start one",
)
def test_a_job_of_four_workers_on_a_real_slurm(tmp_path: Path) -> None:
    script = str(ROOT / "benchmarks" / "instruments" / "slurm_cluster.sh")
    done = subprocess.run(
        ["bash", script, sys.executable, "-c", REAL],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    print(found)
    assert found["results"] == [4, 2, 2, 2]
    assert found["finished"] == 4
