"""Files that version 0.2 wrote: a journal of a service, with a snapshot."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from corewise.live.journal.journal import Journal
from corewise.live.journal.pool_configuration import controller_of
from corewise.live.journal.replay import replayed
from corewise.live.journal.verification import verify_replay
from corewise.live.service.pool_file import load_pool
from corewise.observation.event_logs import load_events
from tests.helpers.serving import POOL, service

THERE = Path(__file__).parent / "v0_2"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return Path(shutil.copy(THERE / "pool.db", tmp_path / "pool.db"))


def require_same(found: Any, expected: Any, where: str) -> None:
    """Require that all that was said is said again; more may be said now."""
    if isinstance(expected, Mapping):
        for key, value in expected.items():
            require_same(found[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) >= len(expected), where
        for k, value in enumerate(expected):
            require_same(found[k], value, f"{where}.{k}")
    else:
        assert found == expected, where


def test_a_journal_leads_to_the_same_numbers_and_instructions(journal: Path) -> None:
    expected = json.loads((THERE / "expected.json").read_text())
    with Journal.read(journal) as reader:
        proof = verify_replay(reader)
        report = replayed(reader, partial(controller_of, reader)).report().as_mapping()
    assert (proof.events, proof.refused, proof.instructions, proof.missing) == (240, 0, 66, 0)
    require_same(report, {key: value for key, value in expected.items() if key != "events"}, "report")


def test_a_service_goes_on_with_it(journal: Path) -> None:
    text = f"{POOL}\n[control]\nleast_seen = 5\nwindow = 20\n"
    with service(journal.parent, text) as running:
        client = running.client()
        before = client.report()
        assert (before["jobs"], before["responses"]["count"], before["windows"]) == (3, 57, 2)
        last = client.instructions(0)["last"]
        assert last >= 66
        client.reconcile([{"job": "job-57", "job_class": "two", "cores": 4}])
        assert client.report()["jobs"] == 1
        assert client.instructions(last)["last"] > last
    with Journal.read(journal) as reader:
        assert verify_replay(reader).refused == 0
    (journal.parent / "pool.toml").write_text(text)
    log = load_events(journal, load_pool(journal.parent / "pool.toml").system)
    assert log.path.departures == 57
