"""``corewise live replay``: the proof that a journal leads to the same instructions and to the same state."""

from __future__ import annotations

from corewise.cli.live.journals import JournalName, opened
from corewise.cli.options import AsJson
from corewise.cli.output import print_facts, print_json
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
    if as_json:
        print_json(proof.as_mapping())
        return
    lacking = f"; {proof.missing} of the last events are not in the journal" if proof.missing else ""
    print_facts(
        f"{journal}: the same state and the same instructions",
        [
            ("events", f"{proof.events:,}, of which {proof.refused} were refused, then as now"),
            ("instructions", f"{proof.instructions:,} as they are in the journal{lacking}"),
            ("state", f"SHA-256 {proof.state}"),
        ],
    )
