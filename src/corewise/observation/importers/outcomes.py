"""What became of a job, and the words that logs have for it.

Slurm's words are those of its manual (https://slurm.schedmd.com/sacct.html, *Job State Codes*); the others
are what traces and hand-made tables say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from corewise.errors import InvalidInput, nearest

__all__ = ["JobOutcome", "outcome_of", "vocabulary"]


class JobOutcome(IntEnum):
    """JobOutcome of a stretch of a job: how it ended, or that it did not."""

    DONE = 0
    UNFINISHED = 1
    RUNNING = 2
    WAITING = 3
    RESIZED = 4
    UNSAID = 5


_WORDS = {
    JobOutcome.DONE: "completed cd complete done success successful succeeded finished pass passed ok exited "
    "ended",
    JobOutcome.UNFINISHED: "failed f fail failure error cancelled ca canceled killed timeout to timed "
    "timedout timed_out terminated preempted pr node_fail nf out_of_memory oom boot_fail bf deadline dl "
    "revoked rv special_exit se launch_failed reconfig_fail lost aborted evicted stopped crashed requeued rq "
    "requeue_fed rf requeue_hold rh expired",
    JobOutcome.RUNNING: "running r completing cg suspended s signaling si stage_out so",
    JobOutcome.WAITING: "pending pd queued waiting configuring cf held resv_del_hold rd submitted",
    JobOutcome.RESIZED: "resizing rs resized",
    JobOutcome.UNSAID: "unknown none null nan n/a",
}


def vocabulary(done: Iterable[str] = (), unfinished: Iterable[str] = ()) -> Mapping[str, JobOutcome]:
    """Return what each word means, with words of one's own for jobs that are done or left unfinished."""
    words = {word: outcome for outcome, known in _WORDS.items() for word in known.split()}
    words[""] = JobOutcome.UNSAID
    words |= {word.strip().lower(): JobOutcome.DONE for word in done}
    return words | {word.strip().lower(): JobOutcome.UNFINISHED for word in unfinished}


def outcome_of(state: str, words: Mapping[str, JobOutcome]) -> JobOutcome:
    """Return what a state means: the whole of it, or its first word ("CANCELLED by 1000")."""
    text = state.strip().lower()
    found = words.get(text)
    if found is None:
        found = words.get(text.split()[0].rstrip("+"))
    if found is None:
        raise InvalidInput(
            f"unknown state {state!r}{nearest(text, sorted(word for word in words if len(word) > 2))}; "
            "say what it means with --done or --unfinished"
        )
    return found
