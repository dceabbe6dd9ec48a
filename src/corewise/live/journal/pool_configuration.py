"""The controller of a journal, made of the configuration that the journal holds."""

from __future__ import annotations

from typing import Any

from corewise.errors import InvalidFile, InvalidInput
from corewise.live.state.configuration import Configuration
from corewise.live.state.controller import Controller, configuration_in
from corewise.observation.journal import JournalReader
from corewise.policies.saved import policy_from_bytes

__all__ = ["controller_of"]


def controller_of(
    journal: JournalReader, snapshot: bytes | None = None, own: Configuration | None = None
) -> Controller:
    """Return the controller of a journal as it was before the first event, or that of a snapshot.

    `own` is the configuration of the caller, which may have an algorithm that cannot be made from a name.
    """
    values = journal.about if snapshot is None else configuration_in(snapshot)
    if own is not None and own.mapping["recipe"] is None and own.is_described_by(values):
        known = own
    else:
        try:
            known = Configuration.from_mapping(values)
        except InvalidInput as error:
            raise InvalidFile(f"{journal.path}: {error}") from None

    def policy(digest: str) -> Any:
        return policy_from_bytes(journal.policy(digest), f"policy {digest}")

    if snapshot is not None:
        return Controller.of(snapshot, known.algorithm, policy, known.options)
    began = journal.about.get("opened", 0.0)
    return Controller(known.algorithm, policy, time=began, options=known.options)
