"""Kills of a pool's process in the middle of its work, and what its journal must then hold.

A writer goes through a stream of events as a pool does: journal first, handle second, keep the instructions,
acknowledge last. It says what it is about to append, and what it has acknowledged, in a file of its own; that
file is not synchronised, which is no matter, since what is killed is the writer and not the machine.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.instruments.live_stream import ABOUT, new_controller, stream, told_of
from benchmarks.measure import ROOT
from corewise.errors import InvalidInput
from corewise.live.journal.journal import Journal
from corewise.live.journal.replay import replay, replayed
from corewise.live.state.instructions import Instruction
from corewise.observation.events import Event
from corewise.observation.journal import JournalReader

__all__ = ["Victim", "Writers", "faults", "said_by", "told_by"]

_REPEATS = 3  # events sent again with every batch
_SNAPSHOTS = 0.1  # of batches are followed by a snapshot


@dataclass(frozen=True)
class Victim:
    """A writer: its journal, where it says what it does, and its seed.

    Attributes
    ----------
    journal, said : Path
        The files.
    seed : int
        For the sizes of its batches.
    orphan : bool
        Whether it starts a process that outlives it.
    """

    journal: Path
    said: Path
    seed: int
    orphan: bool = False

    def write(self, told: Sequence[Event]) -> None:
        """Go on with a stream where the journal ends, to its end, then wait to be killed."""
        rng = np.random.default_rng(self.seed)
        out = os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with Journal.open(self.journal, ABOUT) as journal:
            if self.orphan:
                _say(out, "orphan", _sleeper())
            controller = replayed(journal, new_controller)
            done = sum(1 for _ in journal.events())
            _say(out, "acknowledged", done)  # whoever sends these again is told that they are there
            while done < len(told):
                batch = list(told[done : done + int(rng.integers(1, 12))])
                again = [told[k] for k in rng.integers(0, done + 1, _REPEATS)]
                _say(out, "sent", done + len(batch))
                numbers = journal.append([*batch, *again], time.time())
                for seq, event in zip(numbers, batch, strict=False):
                    assert seq is not None
                    with suppress(InvalidInput):
                        journal.record(seq, controller.handle(event))
                done += len(batch)
                if rng.random() < _SNAPSHOTS:
                    journal.put_snapshot(done, controller.snapshot())
                _say(out, "acknowledged", done)
            time.sleep(60.0)


def _sleeper() -> int:
    """Return a process that does nothing for a while."""
    pid = os.fork()
    if not pid:
        time.sleep(60.0)
        os._exit(0)
    return pid


def _say(out: int, what: str, number: int) -> None:
    os.write(out, f"{json.dumps([what, number])}\n".encode())


class Writers:
    """A process that starts writers quickly, by forking: it has imported all they need.

    Parameters
    ----------
    jobs, seed : int
        Those of the stream that they go through.
    """

    def __init__(self, jobs: int, seed: int) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", __name__, str(jobs), str(seed)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Writers:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def start(self, victim: Victim) -> int:
        """Return the process that writes."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(asdict(victim), default=str), file=self._server.stdin, flush=True)
        return int(self._server.stdout.readline())

    @staticmethod
    def kill(pid: int) -> None:
        """Kill a writer, and wait until it is gone."""
        os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(0.0005)


def _serve(jobs: int, seed: int) -> None:
    told = stream(jobs, seed)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what is killed
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if not pid:
            os.close(0)
            os.close(1)
            victim = Victim(Path(asked["journal"]), Path(asked["said"]), asked["seed"], asked["orphan"])
            victim.write(told)
            os._exit(0)
        print(pid, flush=True)


def said_by(victim: Victim) -> dict[str, int]:
    """Return the last number of each kind that a writer said."""
    if not victim.said.exists():
        return {}
    return dict(map(json.loads, victim.said.read_text().splitlines()))


def told_by(told: Sequence[Event]) -> list[list[dict[str, object]]]:
    """Return the instructions that a controller gives at each event of a stream, as a journal keeps them."""
    controller = new_controller()
    answers = []
    for event in told:
        instructions: list[Instruction] = []
        with suppress(InvalidInput):
            instructions = controller.handle(event)
        answers.append(told_of(instructions))
    return answers


def faults(
    victim: Victim, told: Sequence[Event], answers: Sequence[Sequence[dict[str, object]]]
) -> list[str]:
    """Return what is wrong with a journal whose writer was killed; nothing should be."""
    if not victim.journal.exists() or not victim.journal.stat().st_size:
        return ["acknowledged without a journal"] if said_by(victim).get("acknowledged") else []
    with closing(sqlite3.connect(f"{victim.journal.as_uri()}?mode=rw", uri=True)) as database:
        if not database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            return []  # killed while it was made
        sound = database.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    with Journal.read(victim.journal) as reader:
        return [*([] if sound else ["not sound"]), *_wrong(reader, said_by(victim), told, answers)]


def _wrong(
    reader: JournalReader,
    said: dict[str, int],
    told: Sequence[Event],
    answers: Sequence[Sequence[dict[str, object]]],
) -> list[str]:
    found = list(reader.events())
    count, acknowledged, sent = len(found), said.get("acknowledged", 0), said.get("sent", 0)
    wrong = []
    if count < acknowledged:
        wrong.append(f"{acknowledged} events were acknowledged, {count} are there")
    if count not in (acknowledged, sent):
        wrong.append(f"{count} events are there: neither the {acknowledged} acknowledged nor the {sent} sent")
    if found != list(enumerate(told[:count], start=1)):
        wrong.append("the events are not those sent, once and in order")
    expected = [(k, one) for k, some in enumerate(answers[:count], start=1) for one in some]
    kept = [(event, one) for _, event, one in reader.instruction_mappings()]
    rest = expected[len(kept) :]
    if kept != expected[: len(kept)] or (kept and rest and kept[-1][0] == rest[0][0]):
        wrong.append("the instructions kept are not those of whole events, in order")
    whole = new_controller()
    steps = replay(reader, whole)
    if expected != [(step.seq, one) for step in steps for one in told_of(step.instructions)]:
        wrong.append("replay gives other instructions")
    if replayed(reader, new_controller).snapshot() != whole.snapshot():
        wrong.append("replay from the snapshot gives another state")
    return wrong


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
