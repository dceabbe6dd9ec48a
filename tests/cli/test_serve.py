"""``corewise serve``: started, stopped and started again; one line and exit code 2 where it cannot."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from typer.testing import CliRunner

from corewise.cli.main import app
from corewise.errors import InvalidInput, JournalUnavailable
from corewise.live.client import Client
from corewise.live.journal.journal import Journal
from corewise.live.service import server
from corewise.live.service.pool_file import load_pool
from tests.helpers.serving import POOL, service, threads
from tests.helpers.waiting import until

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


# --- signals and what it cannot go on from ----------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory with a pool file, in which services start quickly."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(server, "open_service", partial(server.open_service, solver=threads))
    (tmp_path / "pool.toml").write_text(POOL)
    return tmp_path


def meanwhile(act: Callable[[str], None]) -> Callable[..., None]:
    """Return what does something in a thread once a service answers, and then has it stop."""

    def begin(address: str, _runtime: Any) -> None:
        def run() -> None:
            try:
                act(address)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=run).start()

    return begin


def serve(ready: Callable[..., None]) -> None:
    """Serve the pool in this thread, which is the main one, as the command does."""
    server.serve(load_pool("pool.toml"), Path("pool.db"), Path("pool.db.token"), ready=ready)


@pytest.mark.usefixtures("folder")
def test_sigterm_is_heeded_before_anything_was_answered() -> None:
    late: list[str] = []

    def stop_once_more() -> None:
        late.append("it was lost")
        os.kill(os.getpid(), signal.SIGTERM)

    again = threading.Timer(20.0, stop_once_more)
    again.start()
    serve(lambda _address, _runtime: os.kill(os.getpid(), signal.SIGTERM))
    again.cancel()
    assert late == []


def test_sighup_reloads_the_token_and_the_limits(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    second = "y" * 43
    seen: list[object] = []

    def admitted(address: str, token: str) -> bool:
        try:
            Client(address, token, patience=5.0).set_mode("steer")
        except InvalidInput:
            return False
        return True

    def limits(address: str) -> list[tuple[int, int]]:
        jobs = Client(address, patience=5.0).allocation()["jobs"]
        return [(row["least"], row["most"]) for row in jobs]

    def act(address: str) -> None:
        first = (folder / "pool.db.token").read_text().strip()
        client = Client(address, first, patience=5.0)
        client.arrived("a", "one")
        client.set_limits("two", most=5)
        (folder / "pool.db.token").write_text(second)
        (folder / "pool.toml").write_text(
            POOL.replace('name = "one"', 'name = "one"\nmin_cores = 2\nmax_cores = 3')
            + "\n[control]\npatience = 77.0\n[service]\nlargest_body = 300\n"
        )
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: admitted(address, second))
        until(lambda: limits(address) == [(2, 3)])
        seen.append(admitted(address, first))
        again = Client(address, second, patience=5.0)
        with pytest.raises(InvalidInput, match="413: a body has at most 300 bytes"):
            again.arrived("b" * 190, "one")
        again.arrived("b", "two")
        seen.append(limits(address)[1])  # as it was set by a request: the file has not changed there
        # Files that cannot be used: all stays as it was.
        (folder / "pool.db.token").chmod(0o644)
        (folder / "pool.toml").write_text("cores = ")
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: "limits stay as they were" in heard())
        seen.append(admitted(address, second))
        with pytest.raises(InvalidInput, match="413"):
            again.arrived("b" * 190, "one")

    log: list[str] = []

    def heard() -> str:
        log.append(capfd.readouterr().err)
        return "".join(log)

    serve(meanwhile(act))
    lines = [json.loads(line) for line in heard().splitlines()]
    said = [line["message"] for line in lines]
    assert seen == [False, (1, 5), True]
    assert "reloaded the token: it has changed" in said
    assert "what else has changed in the pool file is for the next start" in said
    assert any("the token stays as it was" in line and "mode 644" in line for line in said)
    assert any("limits stay as they were" in line and "pool.toml" in line for line in said)
    assert said[-1] == "stopped"
    assert second not in heard()


@pytest.mark.usefixtures("folder")
def test_a_service_that_cannot_go_on_ends_with_a_code_to_start_it_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = server.open_service

    def lost(*arguments: Any, **options: Any) -> Any:
        def remove() -> None:
            until((folder / "pool.db-wal").exists)
            (folder / "pool.db").unlink()

        monkeypatch.setattr("corewise.live.run.runner._LOOK", 0.05)
        threading.Timer(0.5, remove).start()
        return opened(*arguments, **options)

    monkeypatch.setattr(server, "open_service", lost)
    done = CliRunner().invoke(app, ["serve", "pool.toml", "--journal", "pool.db", "--port", "0"])
    assert done.exit_code == 75
    assert "serves 8 cores for one, two" in done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: the pool cannot go on: ")
    assert "pool.db was removed while it was open" in last


@pytest.mark.usefixtures("folder")
def test_a_disk_that_is_full_at_the_start_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise JournalUnavailable("pool.db: cannot be written: database or disk is full")

    monkeypatch.setattr(Journal, "open", full)
    done = CliRunner().invoke(app, ["serve", "pool.toml", "--journal", "pool.db", "--port", "0"])
    assert (done.exit_code, done.stdout) == (75, "")
    assert done.stderr == "error: pool.db: cannot be written: database or disk is full\n"


def test_the_first_line_moves_no_cursor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pool.toml").write_text(POOL.replace('"two"', '"\\u001b[2Jtwo"'))
    opened = server.open_service

    def stopping(*arguments: Any, **options: Any) -> Any:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return opened(*arguments, **options)

    monkeypatch.setattr(signal, "SIGTERM", signal.SIGUSR1)  # not that of the tests, if it comes too early
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    monkeypatch.setattr(server, "open_service", stopping)
    try:
        done = CliRunner().invoke(app, ["serve", "pool.toml", "--journal", "pool.db", "--port", "0"])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert "serves 8 cores for one, \\x1b[2Jtwo; the token is in pool.db.token" in done.stdout
    assert "\x1b" not in done.stdout
