"""Hostile command lines: whether each ends soon, with a word, with the right exit code and no traceback.

    python benchmarks/hostile.py [--only WORD] [--json FILE]

Every line runs as a process of its own, one at a time, in a directory of bad files. A line is at fault if it
shows a traceback or a warning, ends with another exit code than it should, is refused in more than one line
or in none, lets control characters or a number that is none reach the terminal, says nothing for ten seconds,
or takes longer than a minute without having said so. Some twelve minutes on an idle machine; exits with 1 if
any line is at fault.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.instruments import hostile_pools
from benchmarks.instruments.bad_files import GOOD, write_bad_files

DONE, REFUSED, FAILED = (0,), (2,), (1,)
EITHER = (0, 2)
_SILENCE, _LONGEST = 10.0, 60.0  # seconds
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
_NO_NUMBER = re.compile(r"\b(nan|inf)\b")
_WAITING = re.compile(r": (compiling, once|.* so far.*)$")
_ANNOUNCED = re.compile(r"^note: .* takes about \d+ ", re.MULTILINE)  # the first thing said, if at all


@dataclass(frozen=True)
class Line:
    """A command line, and which exit codes are right."""

    words: tuple[str, ...]
    expected: tuple[int, ...]
    out: str = "pipe"  # or the path of a device, or "closed", or "gone"
    env: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the line as one would type it."""
        before = "".join(f"{name}={value} " for name, value in self.env.items())
        after = "" if self.out == "pipe" else f" > {self.out}"
        words = [word if len(word) < 60 else f"{word[:40]}…" for word in self.words]
        return ascii(f"{before}corewise {' '.join(words)}{after}")[1:-1]


@dataclass(frozen=True)
class Outcome:
    """What came of a command line."""

    line: str
    code: int | None
    seconds: float
    first_word: float
    faults: list[str]
    said: str


def lines() -> Iterator[Line]:
    """Yield the command lines."""
    yield from _systems()
    yield from _words()
    yield from _policies()
    yield from _runs()
    yield from _data()
    yield from _studies()
    yield from _refused(*hostile_pools.refused())
    yield from _done(*hostile_pools.accepted())
    yield from _saturated()
    yield from _outputs()


def _refused(*commands: str) -> Iterator[Line]:
    for command in commands:
        yield Line(tuple(command.split("|")), REFUSED)


def _done(*commands: str) -> Iterator[Line]:
    for command in commands:
        yield Line(tuple(command.split("|")), DONE)


def _systems() -> Iterator[Line]:
    """Every bad system file, with one verb or another; and those that only look bad."""
    verbs = ("solve", "evaluate|--policy|equi", "compare", "simulate|--policy|whittle|--departures|100")
    names = sorted(path.name for path in Path("bad").iterdir())
    for i, name in enumerate(names):
        verb, *options = verbs[i % len(verbs)].split("|")
        yield Line((verb, f"bad/{name}", *options), REFUSED)
    for i, name in enumerate(sorted(path.name for path in Path("odd").iterdir())):
        verb, *options = verbs[i % len(verbs)].split("|")
        yield Line((verb, f"odd/{name}", *options), EITHER)
    yield from _refused(
        "solve|nowhere.toml",
        "solve|.",
        "solve|/dev/null",
        "solve|/dev/zero",
        "solve|",
        "solve|paper:9",
        "solve|paper:",
        "solve|loop",
        "solve|no\x1b[31m\nsuch\tfile",
        "solve|" + "x" * 5000,
        "solve|caf\udce9.toml",
        "solve|overload.toml",
        "solve|just-one.toml",
        "evaluate|overload.toml|--policy|equi",
        "compare|overload.toml",
        "plan|overload.toml|--target|0",
        "learn|overload.toml|--algorithm|1a|--departures|10|--steps|2",
    )


def _words() -> Iterator[Line]:
    """Words that mean nothing."""
    yield from _refused(
        "nonsense",
        "solv|paper:1",
        "solve",
        "solve|paper:1|paper:2",
        "solve|paper:1|--capcity|5",
        "solve|paper:1|--capacity",
        "solve|paper:1|--capacity|0",
        "solve|paper:1|--capacity|-1",
        "solve|paper:1|--capacity|abc",
        "solve|paper:1|--capacity|1e3",
        "solve|paper:1|--capacity|99999999999",
        "solve|paper:1|--capacity|5,5,5",
        "solve|paper:1|--capacity|",
        "solve|paper:1|--capacity|5,",
        "solve|paper:1|--capacity|" + "9" * 5000,
        "solve|paper:1|--capacity|" + ",".join(["9"] * 3000),
        "solve|odd-cores.toml|--whole-cores",
        "solve|paper:1|--save|/proc/nowhere/x",
        "solve|paper:1|--save|.",
        "solve|paper:1|--save|/dev/full",
        "solve|paper:1|--plot|x.nonsense",
        "solve|paper:1|--plot|/dev/full",
        "solve|good.toml|--save|good.toml",
        "solve|paper:1|--json|yes",
        "--nonsense",
        "init|good.toml",
        "init|.",
        "init|/proc/nowhere/x.toml",
        "init|/dev/full",
    )
    yield from _done(
        "--version", "--help", "solve|--help", "learn|--help", "init|new.toml", "solve|paper:1|--json"
    )
    yield Line(("simulate", "overload.toml", "--policy", "equi", "--departures", "500"), EITHER)


def _policies() -> Iterator[Line]:
    """Policies that are none, and saved ones that were tampered with."""
    policies = (
        "",
        "nonsense",
        "Equi ",
        "fixed",
        "fixed:",
        "fixed:1",
        "fixed:0.5,0.6",
        "fixed:nan,1",
        "fixed:inf,1",
        "fixed:-1,2",
        "fixed:a,b",
        "fixed:1e308,1e308",
        "fixed:0.5,0.5,0",
        "priority",
        "priority:",
        "priority:one",
        "priority:one,one",
        "priority:one,three",
        "priority:one,two,one",
        "equi:1",
        "optimal:2",
        "whittle:",
        "./nowhere",
        ".",
        "good.toml",
        "/dev/null",
        "/dev/zero",
        "x\x1b]0;title\x07",
        "\u202egnp.evil",
        "y" * 4000,
    )
    for policy in policies:
        yield Line(("evaluate", "paper:1", "--policy", policy), REFUSED)
    for path in sorted(Path("saved").iterdir()):
        yield Line(("evaluate", "paper:1", "--policy", str(path)), REFUSED)
    yield from _done("evaluate|paper:1|--policy|best.policy", "evaluate|paper:1|--policy|fixed:0,1")
    yield from _refused(
        "evaluate|paper:2|--policy|cut.policy",
        "evaluate|many.toml|--policy|whittle",
        "evaluate|many.toml|--policy|optimal",
        "solve|many.toml",
        "evaluate|many.toml|--policy|fixed:1",
        f"simulate|many.toml|--policy|fixed:1{',0' * 199}|--departures|9",
        "evaluate|one.toml|--policy|best.policy",
    )


def _runs() -> Iterator[Line]:
    """Simulations and the loop."""
    simulate = "simulate|paper:1|--policy|equi|"
    for option in (
        "",
        "--departures|0",
        "--departures|-5",
        "--departures|abc",
        "--departures|nan",
        "--departures|inf",
        "--departures|1e30",
        "--departures|1.5",
        "--time|0",
        "--time|-1",
        "--time|nan",
        "--time|inf",
        "--departures|9|--time|9",
        "--departures|9|--seed|-1",
        "--departures|9|--seed|x",
        "--departures|9|--seed|1e40",
        "--departures|9|--start|1",
        "--departures|9|--start|a,b",
        "--departures|9|--start|-1,0",
        "--departures|9|--start|1e300,1",
        "--departures|9|--replications|0",
        "--departures|9|--percentiles|101",
        "--departures|9|--percentiles|nan",
        "--departures|9|--percentiles|",
        "--departures|9|--per-job",
        "--departures|9|--events|.",
        "--departures|9|--events|/proc/nowhere/log.csv",
        "--departures|9|--plot|x.txt",
        "--departures|1e12|--events|log.csv",
        "--departures|9|--replications|2|--events|log.csv",
        "--departures|9|--events|/dev/full",
    ):
        yield Line(tuple(f"{simulate}{option}".strip("|").split("|")), REFUSED)
    yield from _done(
        f"{simulate}--departures|1",
        f"{simulate}--time|1e-300",
        "simulate|many.toml|--policy|equi|--departures|1000",
        "simulate|many.toml|--policy|whittle|--departures|1000",
        f"{simulate}--departures|99|--events|log.csv|--seed|1",
    )
    learn = "learn|paper:1|--algorithm|1b|--departures|20|--steps|2|"
    for option in (
        "--algorithm|2c",
        "--departures|0",
        "--departures|nan",
        "--steps|0",
        "--steps|-1",
        "--steps|1e30",
        "--power|nan",
        "--power|-1",
        "--power|abc",
        "--power|1e300",
        "--seed|-1",
        "--policy|nonsense",
        "--policy|best.policy",
        "--resume|.",
        "--resume|good.toml",
        "--resume|best.policy",
        "--resume|cut.run",
        "--resume|/proc/nowhere/run",
        "--plot|x.txt",
    ):
        yield Line(tuple(f"{learn}{option}".split("|")), REFUSED)
    for path in sorted(Path("runs").iterdir()):
        yield Line(tuple(f"{learn}--resume|{path}".split("|")), REFUSED)
    yield from _done(f"{learn}--seed|1")


def _data() -> Iterator[Line]:
    """Logs and tables of measurements."""
    for path in sorted(Path("logs").iterdir()):
        yield Line(("estimate", "paper:1", str(path)), REFUSED)
    for path in sorted(Path("curves").iterdir()):
        yield Line(("fit", str(path)), REFUSED)
    yield from _refused(
        "estimate|paper:1|.",
        "estimate|paper:1|nowhere.csv",
        "estimate|paper:1|/dev/zero",
        "estimate|paper:1|log0.csv|--level|2",
        "estimate|paper:1|log0.csv|--level|nan",
        "estimate|paper:1|log0.csv|--family|nonsense",
        "estimate|paper:1|log0.csv|--save|.",
        "estimate|paper:1|log0.csv|--save|log0.csv",
        "estimate|one.toml|log0.csv",
        "estimate|paper:1|log0.csv|--unknown-size-rate|three",
        "fit|.",
        "fit|nowhere.csv",
        "fit|/dev/zero",
    )
    yield from _done(
        "estimate|paper:1|log0.csv",
        "estimate|paper:1|log0.csv|--json",
        "estimate|paper:1|log0.csv|--family|auto",
    )


def _studies() -> Iterator[Line]:
    """Sweeps, plans, comparisons, the paper."""
    for path in sorted(Path("sweeps").iterdir()):
        yield Line(("sweep", str(path), "--workers", "1"), REFUSED)
    sweep = "sweep|sweep.toml|"
    yield from _refused(
        f"{sweep}--dask|foo",
        f"{sweep}--dask|tcp://127.0.0.1:1",
        f"{sweep}--dask|",
        f"{sweep}--workers|0",
        f"{sweep}--workers|x",
        f"{sweep}--out|x.txt",
        f"{sweep}--out|.",
        f"{sweep}--out|/proc/nowhere/x.csv",
        f"{sweep}--out|full.csv|--workers|1",
        f"{sweep}--out|log0.csv",
        f"{sweep}--out|good.toml",
        f"{sweep}--out|sweep.toml",
        f"{sweep}--out|damaged.csv",
        f"{sweep}--out|other.csv",
        "sweep|.",
        "sweep|nowhere.toml",
    )
    yield from _done(f"{sweep}--workers|1|--out|rows.csv", f"{sweep}--workers|1|--out|rows.csv")
    plan = "plan|paper:1|--target|"
    yield from _refused(
        *(f"{plan}{target}" for target in ("0", "-1", "nan", "inf", "abc", "", "1e-300", "1e400"))
    )
    yield from _done(f"{plan}1e300")
    yield from _refused(
        "compare|paper:1|--events|0",
        "compare|paper:1|--events|nan",
        "compare|paper:1|--seed|-1",
        "compare|paper:1|--policy|nonsense",
        "compare|paper:1|--exact|--seed|1",
        "compare|paper:1|--capacity|0",
        "reproduce|example-9|--out|r",
        "reproduce|example-1|--out|good.toml",
        "reproduce|figure-1|--out|/dev/full",
        "reproduce|figure-1|--out|r|--seed|x",
        "reproduce|figure-1|--out|r|--workers|0",
        "reproduce|figure-1",
        "reproduce|figure-1|--out|/proc/nowhere",
    )
    yield Line(("compare", "many.toml", "--events", "50000", "--policy", "whittle"), DONE)


def _saturated() -> Iterator[Line]:
    """Loads just below one, more cores than anybody has: an answer or a refusal, and nobody waits long."""
    for name in ("two-0.999.toml", "three-0.95.toml", "one-1e5.toml", "four-0.995.toml"):
        for words in (("solve", name), ("compare", name), ("evaluate", name, "--policy", "equi")):
            yield Line(words, EITHER)
        yield Line(("simulate", name, "--policy", "whittle", "--departures", "1e5"), DONE)


def _outputs() -> Iterator[Line]:
    """Output that nobody reads, cannot be written, or is read on something strange."""
    quick = (
        ("solve", "paper:1"),
        ("solve", "paper:1", "--json"),
        ("evaluate", "paper:1", "--policy", "equi"),
        ("--help",),
        ("--version",),
        ("solve", "--help"),
        ("simulate", "paper:1", "--policy", "equi", "--departures", "99"),
        ("estimate", "paper:1", "log0.csv"),
        ("fit", "curve.csv"),
        ("compare", "paper:1"),
    )
    for words in quick:
        yield Line(words, REFUSED, out="/dev/full")
        yield Line(words, (1,), out="gone")
    for words in quick[:4]:
        yield Line(words, EITHER, out="closed")
    for columns in ("0", "1", "40", "-7", "abc", "999999999", ""):
        yield Line(("solve", "paper:1"), DONE, env={"COLUMNS": columns})
        yield Line(("compare", "odd/names.toml"), DONE, env={"COLUMNS": columns})
    for env in (
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        {"TERM": "dumb"},
        {"TERM": "nonsense"},
        {"NO_COLOR": "1"},
        {"FORCE_COLOR": "1"},
        {"HOME": "/proc/nowhere"},
        {"NUMBA_CACHE_DIR": "/proc/nowhere"},
        {"TMPDIR": "/proc/nowhere"},
        {"LINES": "0"},
        {"PYTHONUTF8": "0", "LC_ALL": "POSIX"},
        {"MPLCONFIGDIR": "/proc/nowhere"},
    ):
        yield Line(("solve", "odd/names.toml"), DONE, env=env)


# --- running them -----------------------------------------------------------------------------


def run(line: Line) -> Outcome:
    """Run a command line, and say what is wrong with how it went."""
    command = [sys.executable, "-m", "corewise", *line.words]
    environment = {**os.environ, **line.env}
    target: int = subprocess.PIPE
    if line.out.startswith("/"):
        target = os.open(line.out, os.O_WRONLY)
    elif line.out == "gone":
        reader, target = os.pipe()
        os.close(reader)
    if line.out == "closed":
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=target,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    if target != subprocess.PIPE:
        os.close(target)
    texts, first = _heard(process, began)
    seconds = time.monotonic() - began
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        code = None
    else:
        code = process.returncode
    out, err = (text.decode(errors="replace") for text in texts)
    faults = [*_faults(line, code, out, err)]
    if min(first, seconds) > _SILENCE:
        faults.append(f"silent for {min(first, seconds):.0f} s")
    return Outcome(str(line), code, round(seconds, 2), round(first, 2), faults, (err or out)[-300:])


def _heard(process: subprocess.Popen[bytes], began: float) -> tuple[tuple[bytes, bytes], float]:
    """Return what a process says on stdout and stderr until it ends or a minute is over, and when first."""
    heard = {"out": b"", "err": b""}
    first = float("inf")
    with selectors.DefaultSelector() as selector:
        for name, stream in (("out", process.stdout), ("err", process.stderr)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, name)
        while selector.get_map() and time.monotonic() - began < _LONGEST:
            for key, _ in selector.select(0.1):
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    selector.unregister(key.fileobj)
                first = min(first, time.monotonic() - began)
                heard[key.data] += piece
    while process.poll() is None and time.monotonic() - began < _LONGEST:
        time.sleep(0.02)
    return (heard["out"], heard["err"]), first


def _faults(line: Line, code: int | None, out: str, err: str) -> Iterator[str]:
    if code is None:
        if not _ANNOUNCED.search(err):
            yield f"not over after {_LONGEST:g} s"
    elif code not in line.expected:
        yield f"exit code {code} instead of {' or '.join(map(str, line.expected))}"
    if "Traceback" in out + err:
        yield "traceback"
    if "Warning" in err:
        yield "warning"
    said = [
        text
        for text in err.splitlines()
        if text.strip() and not text.startswith(("Usage:", "Try '", "note:")) and not _WAITING.search(text)
    ]
    if code == 2 and len(said) != 1:
        yield f"refused in {len(said)} lines"
    if code == 2 and len(err) > 2000:
        yield f"refused in {len(err)} characters"
    if "FORCE_COLOR" not in line.env and _CONTROL.search(out + err):
        yield "control characters"
    if _NO_NUMBER.search(out):
        yield "a number that is none"


def main() -> None:
    """Run all command lines, and print those at fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those that contain a word")
    parser.add_argument("--json", type=Path, help="write all outcomes")
    options = parser.parse_args()
    target = options.json.resolve() if options.json else None
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_bad_files(GOOD)
        hostile_pools.write_pool_files()
        for line in lines():
            if options.only not in str(line):
                continue
            outcome = run(line)
            outcomes.append(outcome)
            if outcome.faults:
                print(f"{outcome.seconds:5.1f} s  {outcome.line}: {', '.join(outcome.faults)}", flush=True)
                print(f"         {ascii(outcome.said)[1:-1]}", flush=True)
        os.chdir("/")
    faulty = sum(bool(outcome.faults) for outcome in outcomes)
    slowest = max((outcome.seconds for outcome in outcomes), default=0.0)
    print(f"{len(outcomes)} command lines, {faulty} at fault, the slowest took {slowest:.1f} s")
    if target:
        target.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    sys.exit(1 if faulty else 0)


if __name__ == "__main__":
    main()
