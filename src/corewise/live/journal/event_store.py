"""Event stores of a live pool: the protocol that a journal satisfies, and one in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import Any, ClassVar, Protocol

from corewise.live.state.instructions import Instruction
from corewise.observation.events import Event

__all__ = ["EventStore", "InMemory"]


class EventStore(Protocol):
    """Event store: what a live pool needs of a journal.

    Attributes
    ----------
    durable : bool
        Whether it is there after a crash, so that snapshots are of use.
    """

    durable: ClassVar[bool]

    @property
    def snapshot_at(self) -> int:
        """The number of the event behind which the last snapshot was made; 0 if there is none."""
        ...

    def append(
        self, events: Iterable[Event], received: float, shared: Sequence[bool] | None = None
    ) -> list[int | None]:
        """Write events, and return their numbers when they are safe; None for one that was there already.

        `shared` says of each whether cores are shared behind it, which of a batch is so at its end only.
        """
        ...

    def known(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return the events with these ids that were written before, by id and as plain values."""
        ...

    def record(self, event_seq: int, instructions: Sequence[Instruction]) -> None:
        """Keep what the controller made of an event."""
        ...

    def require_in_place(self) -> None:
        """Raise `JournalLost` if what is written is not kept any more."""
        ...

    def put_policy(self, content: bytes) -> str:
        """Keep a policy, and return its digest."""
        ...

    def policy(self, digest: str) -> bytes:
        """Return a policy by its digest."""
        ...

    def put_snapshot(self, seq: int, content: bytes) -> None:
        """Keep the state after an event in the place of the last snapshot."""
        ...

    def close(self) -> None:
        """Write what is to be written."""
        ...


class InMemory:
    """Event store of a pool without a journal: it numbers events, keeps policies, and drops all else."""

    durable: ClassVar[bool] = False
    snapshot_at = 0

    def __init__(self) -> None:
        self._policies: dict[str, bytes] = {}
        self._numbers = count(1)

    def append(
        self,
        events: Iterable[Event],
        received: float,  # noqa: ARG002
        shared: Sequence[bool] | None = None,  # noqa: ARG002
    ) -> list[int | None]:
        """Number events."""
        return [next(self._numbers) for _ in events]

    def known(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:  # noqa: ARG002
        """Return none: events of this process are reported once."""
        return {}

    def record(self, event_seq: int, instructions: Sequence[Instruction]) -> None:
        """Keep nothing."""

    def require_in_place(self) -> None:
        """Accept: there is no file to be lost."""

    def put_policy(self, content: bytes) -> str:
        """Keep a policy, and return its digest."""
        digest = sha256(content).hexdigest()
        self._policies[digest] = content
        return digest

    def policy(self, digest: str) -> bytes:
        """Return a policy by its digest."""
        return self._policies[digest]

    def put_snapshot(self, seq: int, content: bytes) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Let it be forgotten."""
