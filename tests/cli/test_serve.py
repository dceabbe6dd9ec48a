"""``corewise serve``: started, stopped and started again; one line and exit code 2 where it cannot."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from typer.testing import CliRunner

from corewise.cli.main import app
from corewise.live.client import Client
from corewise.live.journal import Journal
from tests.helpers.serving import POOL, service

COMMAND = [sys.executable, "-m", "corewise", "serve", "pool.toml", "--journal", "pool.db", "--port", "0"]


def failed(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["serve", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.slow
def test_a_service_starts_stops_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pool.toml").write_text(POOL)
    seen = []
    for options in ([], ["--watch"]):
        process = subprocess.Popen(
            [*COMMAND, *options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            address, _, rest = process.stdout.readline().partition(" ")
            assert rest == "serves 8 cores for one, two; the token is in pool.db.token\n"
            token = (tmp_path / "pool.db.token").read_text().strip()
            client = Client(address, token)
            if not options:
                client.arrived("a", "one")
                taken = failed("pool.toml", "--journal", "other.db", "--port", address.rsplit(":", 1)[1])
                assert "Address already in use" in taken
                used = failed("pool.toml", "--journal", "pool.db", "--port", "0")
                assert "another pool has this journal open" in used
            seen.append((client.report()["mode"], [row["told"] for row in client.allocation()["jobs"]]))
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0
            lines = [json.loads(line) for line in errors.splitlines()]
            assert [line["message"] for line in lines] == ["started", "stopped"]
            assert token not in errors
        finally:
            process.kill()
            process.wait()
    assert seen == [("steer", [8]), ("watch", [8])]
    with Journal.read(tmp_path / "pool.db") as journal:
        assert [event.kind for _, event in journal.events() if event.kind != "tick"] == [
            "mode-changed",
            "job-arrived",
            "mode-changed",
        ]


def test_what_cannot_be_served_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pool.toml").write_text(POOL)
    (tmp_path / "wrong.toml").write_text(POOL + "[contol]\n")
    (tmp_path / "known.token").write_text("x" * 43)
    (tmp_path / "known.token").chmod(0o644)
    (tmp_path / "text.db").write_text("no journal")
    common = ["pool.toml", "--port", "0", "--journal"]
    assert "wrong.toml: pool: unknown key 'contol'; did you mean 'control'?" in failed(
        "wrong.toml", "--journal", "a.db"
    )
    assert "nowhere.toml" in failed("nowhere.toml", "--journal", "a.db")
    known = failed(*common, "a.db", "--token-file", "known.token")
    assert "known.token: others can read or change the token (mode 644); chmod 600 it" in known
    assert "text.db is not a journal" in failed(*common, "text.db")
    assert "--port must be at most 65535" in failed("pool.toml", "--journal", "a.db", "--port", "65536")
    assert "cannot listen at 256.1.1.1" in failed(*common, "a.db", "--host", "256.1.1.1")
    if os.geteuid() and socket.has_ipv6:  # root may listen anywhere
        assert "Permission denied" in failed("pool.toml", "--journal", "a.db", "--port", "80")


def test_a_service_is_watched_in_the_terminal(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        running.client().arrived("a", "one")
        shown = CliRunner().invoke(app, ["live", "watch", running.address, "--once"], env={"COLUMNS": "120"})
        assert shown.exit_code == 0
        assert "steer: 0 of 8 cores held by 1 jobs, by equi" in shown.stdout
        assert "not adopted: 0 of 50 departures of the first window" in shown.stdout
        assert "class one: one job to hold 8 of 8 cores" in " ".join(shown.stdout.split())
        as_json = CliRunner().invoke(app, ["live", "watch", running.address, "--once", "--json"])
        assert json.loads(as_json.stdout)["allocation"]["jobs"][0]["told"] == 8
    for url, why in ((running.address, "no answer from http"), ("pool.db", "url must be like")):
        done = CliRunner().invoke(app, ["live", "watch", url])
        assert (done.exit_code, done.stderr.count("\n"), why in done.stderr) == (2, 1, True)
