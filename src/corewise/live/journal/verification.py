"""Replay verification: the events of a journal, handled again, give the same instructions and state.

Every instruction in the journal is compared with the one that the event leads to now; in a journal of an
earlier version all but alerts, of which there may be more now. Those of the last events before a crash may be
missing, as they are not waited for. The events are handled twice, and the state after them (jobs, statistics,
estimates, policy) must be the same to the last bit; its digest is reported, so that two machines can be
compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from corewise.errors import InvalidFile
from corewise.kit.jsonable import plain
from corewise.kit.report import Report
from corewise.live.journal.pool_configuration import controller_of
from corewise.live.journal.replay import Replayed, replay
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import Alert, instruction_to_mapping
from corewise.observation.journal import JournalReader

__all__ = ["ReplayVerification", "state_digest", "verify_replay"]


@dataclass(frozen=True)
class ReplayVerification:
    """Result of the replay verification of a journal.

    Attributes
    ----------
    events, refused : int
        The events that were handled again, and how many of them were refused, as they were then.
    instructions, missing : int
        The instructions that are the same as those in the journal, and those that the journal lacks.
    state : str
        The SHA-256 of the state in the end.
    """

    events: int
    refused: int
    instructions: int
    missing: int
    state: str

    def report(self) -> Report:
        """Return what was compared, and the digest of the state."""
        lacking = f"; {self.missing} of the last events are not in the journal" if self.missing else ""
        facts = [
            ("events", f"{self.events:,}, of which {self.refused} were refused, then as now"),
            ("instructions", f"{self.instructions:,} as they are in the journal{lacking}"),
            ("state", f"SHA-256 {self.state}"),
        ]
        return Report("The same state and the same instructions", facts)


def verify_replay(journal: JournalReader) -> ReplayVerification:
    """Handle the events of a journal again and compare the instructions with those in it.

    Raises
    ------
    InvalidFile
        If they lead to other instructions, or not always to the same state.
    """
    upto = journal.last
    controller = controller_of(journal)
    recorded = _Recorded(journal)
    events = refused = same = missing = 0
    for step in replay(journal, controller, upto=upto):
        kept, lacking = recorded.matched(step)
        events, refused = events + 1, refused + (step.refused is not None)
        same, missing = same + kept, missing + lacking
    again = controller_of(journal)
    for _ in replay(journal, again, upto=upto):
        pass
    state = state_digest(controller)
    if state_digest(again) != state:
        raise InvalidFile(f"{journal.path}: handled twice, its events lead to different states")
    return ReplayVerification(events, refused, same, missing, state)


class _Recorded:
    """The instructions of a journal, in order, as far as they were read."""

    def __init__(self, journal: JournalReader) -> None:
        self._path, self._instructed = journal.path, journal.instructed
        self._older = "lateness" not in (journal.about.get("options") or {})
        self._rows: Iterator[tuple[int, int, dict[str, Any]]] = journal.instruction_mappings()
        self._next = next(self._rows, None)

    def _comparable(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return instructions without what versions before 0.3 did not have: generations, and some alerts."""
        if not self._older:
            return rows
        decisions = [row for row in rows if row["kind"] != Alert.kind]
        return [{key: value for key, value in row.items() if key != "generation"} for row in decisions]

    def matched(self, step: Replayed) -> tuple[int, int]:
        """Return how many instructions of an event are in the journal, and how many it lacks."""
        made = [instruction_to_mapping(one) for one in step.instructions]
        if step.seq > self._instructed:
            return 0, len(made)
        rows = []
        while self._next is not None and self._next[1] == step.seq:
            rows.append(self._next[2])
            self._next = next(self._rows, None)
        found, there = (
            [_encoded(row) for row in of] for of in (self._comparable(made), self._comparable(rows))
        )
        if there != found:
            raise InvalidFile(
                f"{self._path}: event {step.seq} leads to other instructions: "
                f"{_listed(there)} in the journal, {_listed(found)} now"
            )
        return len(rows), 0


def state_digest(controller: Controller) -> str:
    """Return the SHA-256 of the state of a controller."""
    learner = controller.learner
    seen = learner.memory.recall() if learner.state.k else None
    state = {
        "report": controller.report().as_mapping(),
        "jobs": controller.jobs.snapshot(),
        "tally": controller.tally.snapshot(),
        "seen": seen
        and [[row.widths.tolist(), row.departures.tolist(), row.job_time.tolist()] for row in seen.classes],
    }
    return sha256(_encoded(state).encode()).hexdigest()


def _encoded(values: Any) -> str:
    return json.dumps(plain(values), sort_keys=True)


def _listed(instructions: list[str]) -> str:
    return ", ".join(instructions) or "none"
