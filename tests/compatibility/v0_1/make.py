"""How the other files of this folder were made: once, with corewise 0.1.0, and never again.

    python make.py FOLDER       # a Python that has corewise 0.1.0; FOLDER is this one

Systems, policies, logs, runs and sweeps are what `save_system` and the verbs of the command line wrote. Then
every command of `COMMANDS` was given to the same version, in a copy of the folder; what it printed with
``--json`` is in ``expected.json``, but for what differs from one time to the next (`PASSING`).
"""

from __future__ import annotations

import csv
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.main import app

PASSING = {"seconds", "parts", "worker", "events", "out", "sweep"}
"""Keys of the output that say how long it took, where and by whom."""

SWEEP = """\
seed = 5
systems = ["two.toml", "changing.toml"]
seeds = 2

[[simulate]]
policies = ["equi", "priority:large,small"]
departures = 500

[[evaluate]]
systems = ["two.toml"]
loads = [0.4, 0.7]
policies = ["whittle", "two.npz"]

[[learn]]
systems = ["two.toml"]
algorithms = ["1a", "1b"]
departures = 40
steps = 3
"""

COMMANDS = (
    "evaluate two.toml --policy two.npz",
    "evaluate two.toml --policy two-whole-cores.npz",
    "evaluate two.toml --policy two-blocking.npz --capacity 9",
    "evaluate changing.toml --policy two.npz",
    "evaluate three.toml --policy three.npz",
    "evaluate families.toml --policy whittle --capacity 4",
    "evaluate started.toml --policy equi",
    "evaluate estimated.toml --policy optimal",
    "simulate two.toml --policy two.npz --departures 300 --seed 7",
    "simulate changing.toml --policy equi --departures 300 --seed 7",
    "estimate two.toml per-class.csv",
    "estimate two.toml per-class.csv.gz",
    "estimate two.toml per-job.csv",
    "estimate unknown-arrivals.toml per-class.csv",
    "learn two.toml --resume run-1a.npz",
    "learn two.toml --resume run-1b.npz --steps 8",
    "learn three.toml --resume run-whittle.npz",
    "learn changing.toml --resume run-adaptive.npz",
    "learn two.toml --resume run-replay.npz --algorithm 1b --departures 40 --events per-class.csv",
    "sweep sweep.toml --out complete.csv --workers 1",
    "sweep sweep.toml --out half-done.csv --workers 1",
)


def main(folder: Path) -> None:
    """Write every file of the folder but this one."""
    if version("corewise") != "0.1.0":
        raise SystemExit(f"this is corewise {version('corewise')}: these are the files of 0.1.0")
    os.chdir(folder)
    make_systems()
    make_policies()
    make_logs()
    make_runs()
    make_sweeps()
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        os.chdir(copy)
        outputs = {command: lasting(json.loads(run(f"{command} --json"))) for command in COMMANDS}
    libraries = {name: version(name) for name in ("numpy", "scipy", "numba")}
    about = {"system": platform.system(), "machine": platform.machine(), **libraries}
    text = json.dumps({"about": about, "outputs": outputs}, indent=1, ensure_ascii=False)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def run(command: str, code: int = 0) -> str:
    """Give a command, and return what it prints."""
    result = CliRunner().invoke(app, command.split())
    if result.exit_code != code:
        raise SystemExit(f"corewise {command}: {result.output}")
    return result.stdout


def lasting(value: Any) -> Any:
    """Return an output without what differs from one time to the next."""
    if isinstance(value, dict):
        return {key: lasting(item) for key, item in value.items() if key not in PASSING}
    return [lasting(item) for item in value] if isinstance(value, list) else value


# --- the files --------------------------------------------------------------------------------


def make_systems() -> None:
    """Write systems with every family, weights, changes, and without arrival rates."""
    small = cw.JobClass("small", arrival_rate=1.5, size_rate=2.0, speedup=cw.Amdahl(0.3))
    large = cw.JobClass("large", arrival_rate=0.9, size_rate=0.5, speedup=cw.Amdahl(0.9), weight=2.5)
    middle = cw.JobClass("in between", arrival_rate=0.4, size_rate=1.0, speedup=cw.PowerLaw(0.6), weight=0.5)
    two, three = cw.System(6, [small, large]), cw.System(7.5, [small, middle, large])
    curves = (
        cw.Amdahl(0.3),
        cw.PowerLaw(0.5),
        cw.Gustafson(0.7),
        cw.Usl(0.05, 0.01),
        cw.Tabulated([(1.0, 1.0), (2.0, 1.75), (4.0, 2.5)]),
    )
    families = [
        cw.JobClass(f"λ-{curve.family}", arrival_rate=0.1, size_rate=1.0 + i / 3, speedup=curve, weight=1 + i)
        for i, curve in enumerate(curves)
    ]
    changes = [cw.Change(150.0, "large", cw.Amdahl(0.1)), cw.Change(1400 / 3, "large", cw.Amdahl(0.95))]
    slower = cw.JobClass("small", arrival_rate=1.2, size_rate=2.0, speedup=cw.Amdahl(0.5))
    unknown = [
        cw.JobClass(known.name, arrival_rate=None, size_rate=known.size_rate, speedup=known.speedup)
        for known in two.classes
    ]
    cw.save_system(two, "two.toml")
    cw.save_system(three, "three.toml")
    cw.save_system(cw.System(5, families), "families.toml")
    cw.save_system(cw.System(6, [slower, large], changes), "changing.toml")
    cw.save_system(cw.System(6, unknown), "unknown-arrivals.toml")
    run("init started.toml")


def make_policies() -> None:
    """Write optimal policies: of two and three classes, in whole cores, with blocking."""
    run("solve two.toml --save two.npz")
    run("solve two.toml --whole-cores --save two-whole-cores.npz")
    run("solve two.toml --capacity 9 --save two-blocking.npz")
    run("solve three.toml --capacity 6,5,8 --save three.npz")


def make_logs() -> None:
    """Write logs with the cores of every class, compressed and not, and with those of every job."""
    simulated = "simulate two.toml --policy two.npz --departures 250 --seed 3"
    run(f"{simulated} --start 2,1 --events per-class.csv")
    run(f"{simulated} --events per-class.csv.gz")
    run(f"{simulated} --events per-job.csv --per-job")
    run("estimate unknown-arrivals.toml per-class.csv --save estimated.toml")


def make_runs() -> None:
    """Write runs of the loop that were interrupted, one that was not, and one of a log from Python."""
    for windows, command in (
        (4, "two.toml --algorithm 1a --departures 40 --steps 8 --seed 11 --save run-1a.npz"),
        (
            3,
            "three.toml --algorithm 1b --departures 30 --power 0.5 --steps 6 --seed 13 --policy whittle"
            " --save run-whittle.npz",
        ),
        (
            7,
            "changing.toml --algorithm adaptive --departures 50 --steps 30 --seed 14 --between-alarms 20_000"
            " --save run-adaptive.npz",
        ),  # where an alarm is raised and not yet named
    ):
        with interrupted_after(windows):
            run(f"learn {command}", code=130)
    run("learn two.toml --algorithm 1b --departures 40 --steps 4 --seed 12 --save run-1b.npz")
    system = cw.load_system("two.toml")
    log = cw.load_events("per-class.csv", system)
    algorithm = cw.algorithm_1b(system, departures=40, steps=None)
    loop = cw.learn(cw.ReplayPlant(log.path), algorithm, diagnose=False)
    for _ in range(3):
        next(loop)
    loop.save("run-replay.npz")


@contextmanager
def interrupted_after(windows: int) -> Iterator[None]:
    """Press Ctrl-C in the window after so many."""
    real, begun = cw.SimulatedPlant.run, 0

    def called(plant: cw.SimulatedPlant, policy: cw.Policy, departures: int) -> cw.Statistics:
        nonlocal begun
        begun += 1
        if begun > windows:
            raise KeyboardInterrupt
        return real(plant, policy, departures)

    with mock.patch.object(cw.SimulatedPlant, "run", called):
        yield


def make_sweeps() -> None:
    """Write the rows of a whole sweep, and those of one that was cut off in the middle of a line."""
    Path("sweep.toml").write_text(SWEEP, encoding="utf-8")
    run("sweep sweep.toml --out complete.csv --workers 2")
    with Path("complete.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    for number, row in enumerate(rows):
        row[header.index("worker")] = f"worker:{number % 2 + 1}"  # not the name of somebody's machine
    with Path("complete.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    order = np.random.default_rng(1).permutation(len(rows))
    with Path("half-done.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([header, *(rows[i] for i in order[: len(rows) // 2])])
        file.write(",".join(rows[order[-1]])[:60])


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
