"""What all tests of the command line share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_word_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine makes quick commands slow, and then they would say so on stderr."""
    monkeypatch.setattr("corewise.cli.waiting._COMPILING", 1e9)
