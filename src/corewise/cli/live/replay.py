"""``corewise live replay``: the proof that a journal leads to the same instructions and to the same state."""

from __future__ import annotations

from corewise.cli.live.journals import JournalName, opened
from corewise.cli.options import AsJson
from corewise.cli.output import emit
from corewise.cli.reporting import reporting
from corewise.cli.waiting import waiting

__all__ = ["replay"]


@reporting
def replay(journal: JournalName, as_json: AsJson = False) -> None:
    """Handle the events of a journal again, and prove that they lead to the same instructions and state.

    Exit code 2 and the first difference if they do not.
    """
    from corewise.live.journal.verification import verify_replay

    with opened(journal) as reader, waiting(f"Replaying {journal} ..."):
        proof = verify_replay(reader)
    emit(proof, as_json, title=f"{journal}: the same state and the same instructions")
