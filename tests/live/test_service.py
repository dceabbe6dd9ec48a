"""The service: what is acknowledged is safe, what is told twice counts once, and a restart goes on."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest

pytest.importorskip("starlette")

from corewise.errors import CorewiseError, InvalidInput
from corewise.live.client import Client
from corewise.live.journal.journal import Journal
from corewise.live.service.server import listening
from corewise.observation import events as happened
from tests.helpers.serving import POOL, Service, proxy, service


def arrival(number: int, job_class: str = "one") -> dict[str, object]:
    return {"kind": "job-arrived", "id": f"a{number}", "job": f"job-{number}", "job_class": job_class}


def journaled(folder: Path) -> list[happened.Event]:
    with Journal.read(folder / "pool.db") as journal:
        return [event for _, event in journal.events()]


def told(service: Service) -> dict[str, int]:
    return {row["job"]: row["told"] for row in service.client().allocation()["jobs"]}


def test_what_is_acknowledged_is_in_the_journal(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        for number in range(3):
            status, _, answer = running.ask("POST", "/v1/events", arrival(number), token=running.token)
            assert (status, answer["accepted"], answer["duplicates"]) == (200, 1, 0)
            assert [event.id for event in journaled(tmp_path) if event.id.startswith("a")][-1] == f"a{number}"


def test_what_is_told_twice_counts_once(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        batch = [arrival(1), arrival(2), arrival(1)]
        first = running.ask("POST", "/v1/events", batch, token=running.token)[2]
        again = running.ask("POST", "/v1/events", batch, token=running.token)[2]
    assert (first["accepted"], first["duplicates"]) == (2, 1)
    assert (again["accepted"], again["duplicates"], again["instructions"]) == (0, 3, [])


def test_a_batch_is_taken_in_whole_or_not_at_all(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        before = len(journaled(tmp_path))
        batch = [arrival(1), {"kind": "cores-held", "id": "f", "job": "job-9", "cores": 1}]
        status, headers, problem = running.ask("POST", "/v1/events", batch, token=running.token)
        assert (status, headers["content-type"]) == (409, "application/problem+json")
        assert (
            problem["detail"]
            == "event 2 of 2, 'f': cores-held: no job 'job-9' is there; did you mean 'job-1'?"
        )
        assert len(journaled(tmp_path)) == before
        assert running.ask("POST", "/v1/events", batch[:1], token=running.token)[0] == 200


def test_instructions_are_fetched_by_number_and_awaited(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        client, found = running.client(), []
        waiting = threading.Thread(target=lambda: found.append(client.instructions(0, wait=10.0)))
        waiting.start()
        time.sleep(0.05)
        client.arrived("a", "one")
        waiting.join()
        assert [(row["number"], row["job"], row["cores"]) for row in found[0]["instructions"]] == [
            (1, "a", 8)
        ]
        client.held("a", 8)
        client.arrived("b", "two")
        assert [(row["job"], row["cores"]) for row in client.instructions(1)["instructions"]] == [("a", 4)]
        client.held("a", 4)  # only what a job has given back can be told to another
        assert [(row["job"], row["cores"]) for row in client.instructions(2)["instructions"]] == [("b", 4)]
        none_yet = client.instructions(3, wait=0.01)
        assert (none_yet["instructions"], none_yet["last"]) == ([], 3)


def test_instructions_beyond_memory_come_from_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corewise.live.service.runtime._KEPT", 2)
    with service(tmp_path) as running:
        client = running.client()
        for number in range(4):
            client.arrived(f"job-{number}", "one")
            for told in client.instructions(0)["instructions"]:  # all of them again: the last one counts
                client.held(told["job"], told["cores"])
        everything = client.instructions(0)["instructions"]
        last = client.instructions(0)["last"]
        assert [row["number"] for row in everything] == list(range(1, last + 1))
        assert last > 4
        assert client.instructions(2)["instructions"] == everything[2:]
    with service(tmp_path) as running:
        assert running.client().instructions(0)["instructions"] == everything


def test_nothing_is_moved_where_it_is_only_watched(tmp_path: Path) -> None:
    with service(tmp_path, watch=True) as running:
        client = running.client()
        client.present("a", "one", 6)
        client.arrived("b", "two")
        assert client.instructions(0)["instructions"] == []
        assert client.report()["would_have_moved"] > 0
        client.set_mode("steer")
        assert {row["job"] for row in client.instructions(0)["instructions"]} == {"a", "b"}


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        client = running.client()
        client.arrived("a", "one")
        client.held("a", 8)
        client.set_limits("two", least=2, most=3)
        client.arrived("b", "two")
        client.set_mode("hold")
        before, last = client.allocation(), client.instructions(0)
    with service(tmp_path) as running:
        after = running.client().allocation()
        assert {**after, "time": 0.0} == {**before, "time": 0.0}
        assert after["mode"] == "hold"
        assert running.client().instructions(0) == last


def test_an_explanation_is_in_words(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        client = running.client()
        client.arrived("a/b c", "one")
        assert client.explanation("a/b c")["text"].startswith("class one: one job to hold 8 of 8 cores")
        with pytest.raises(InvalidInput, match="404: no job 'a' is there"):
            client.explanation("a")


def test_a_resize_that_is_not_confirmed_is_told_of_and_not_counted_on(tmp_path: Path) -> None:
    with service(tmp_path, f"{POOL}\n[control]\npatience = 0.05\n") as running:
        client = running.client()
        client.present("a", "one", 8)
        client.arrived("b", "one")
        for _ in range(400):
            alerts = client.report()["alerts"]
            if alerts:
                break
            time.sleep(0.01)
        assert alerts[0]["text"] == "job 'a' was told 4 cores and still holds 8"
        assert told(running) == {"a": 4, "b": 0}  # its cores are still taken
        client.held("a", 4)
        assert told(running) == {"a": 4, "b": 4}


def test_the_stream_tells_of_changes(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        client = running.client()
        states = client.states()
        assert next(states)["allocation"]["jobs"] == []
        client.arrived("a", "one")
        rows = next(states)["allocation"]["jobs"]
        assert [(row["job"], row["told"]) for row in rows] == [("a", 8)]
        assert "class one" in rows[0]["why"]


def test_estimates_and_history_are_there_after_a_window_and_after_a_restart(tmp_path: Path) -> None:
    with service(tmp_path, f"{POOL}\n[control]\nwindow = 150\n") as running:
        client, now = running.client(), time.time()
        for batch in range(10):
            events: list[happened.Event] = []
            for k in range(20):
                name, at = f"{batch}-{k}", now + batch * 5.0 + 0.2 * k
                events += [
                    happened.JobArrived(at, f"{name}a", name, "one" if k % 2 else "two"),
                    happened.CoresHeld(at, f"{name}h", name, 1 + k % 4),
                    happened.JobFinished(at + 0.1 + 0.1 * (k % 3), f"{name}f", name),
                ]
            client.tell(sorted(events, key=lambda event: event.time))
        for _ in range(1000):  # inferences come from the solver, some time after
            estimates = client.estimates()
            if estimates["classes"]["one"] and estimates["classes"]["one"]["departures"] > 70:
                break
            time.sleep(0.02)
        assert {row["departures"] for row in estimates["classes"].values()} == {75}
        assert len(estimates["history"]) >= 1
        history = running.ask("GET", "/v1/history")[2]
        assert len(history["time"]) == len(history["classes"][0]["jobs"]) > 20
        table = running.ask("GET", "/v1/policy")[2]
        assert (table["cores"][3][0], table["cores"][0][3], table["cores"][2][2]) == (8, 0, 4)
    with service(tmp_path, f"{POOL}\n[control]\nwindow = 150\n") as running:
        assert running.client().estimates() == estimates
        assert running.ask("GET", "/v1/history")[2] == history


def test_metrics_are_those_of_the_report(tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    with service(tmp_path) as running:
        running.client().arrived("a", "one")
        text = running.ask("GET", "/metrics")[2].decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["corewise_jobs", "one"] == 1.0
    assert found["corewise_cores_told", "one"] == found["corewise_pool_cores",] == 8.0
    assert found["corewise_mode", "steer"] == found["corewise_ready",] == 1.0
    assert (found["corewise_policy_adopted",], found["corewise_departures_seen", "two"]) == (0.0, 0.0)
    assert found["corewise_departures_needed", "two"] == 10.0


def test_a_full_disk_is_said_and_events_are_taken_in_again_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was acknowledged is lost, nothing that was refused is there."""
    monkeypatch.setattr("corewise.live.run.runner._RETRY", 0.05)
    with service(tmp_path) as running:
        assert running.ask("POST", "/v1/events", arrival(1), token=running.token)[0] == 200
        with monkeypatch.context() as full:
            full.setattr(
                "corewise.live.journal.journal.transaction",
                lambda *_: (_ for _ in ()).throw(OSError("disk full")),
            )
            status, _, problem = running.ask("POST", "/v1/events", arrival(2), token=running.token)
            assert (status, "disk full" in problem["detail"]) == (503, True)
            for path in ("/healthz", "/readyz"):
                status, _, problem = running.ask("GET", path)
                assert (status, "disk full" in problem["detail"]) == (503, True)
            assert running.ask("GET", "/v1/report")[0] == 200
            assert "corewise_ready 0.0" in running.ask("GET", "/metrics")[2].decode()
            status, _, _ = running.ask("PUT", "/v1/mode", {"mode": "hold"}, token=running.token)
            assert status == 503
        for _ in range(1000):
            if running.ask("GET", "/healthz")[0] == 200:  # without an event of a scheduler
                break
            time.sleep(0.01)
        assert [running.ask("GET", path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
        answer = running.ask("POST", "/v1/events", arrival(2), token=running.token)[2]
        assert (answer["accepted"], answer["duplicates"]) == (1, 0)
        last = running.client().instructions(0)
    assert [event.id for event in journaled(tmp_path) if event.kind == "job-arrived"] == ["a1", "a2"]
    with service(tmp_path) as running:  # the instructions in the journal have no gap either
        assert running.client().instructions(0) == last


def test_a_journal_that_is_removed_ends_the_service(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with service(tmp_path) as running:
        assert running.ask("POST", "/v1/events", arrival(1), token=running.token)[0] == 200
        for end in ("", "-wal", "-shm", "-lock"):
            (tmp_path / f"pool.db{end}").unlink()
        status, _, problem = running.ask("POST", "/v1/events", arrival(2), token=running.token)
        assert (status, "pool.db was removed while it was open" in problem["detail"]) == (503, True)
        assert running.runtime.runner.failed
        for _ in range(1000):
            if not running.thread.is_alive():  # it has stopped by itself
                break
            time.sleep(0.01)
        assert not running.thread.is_alive()
    assert "the pool cannot go on" in caplog.text


def test_a_client_is_patient_and_says_when_nobody_answers(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        port = int(running.address.rsplit(":", 1)[1])
    client = Client(running.address, running.token, patience=20.0)
    late = threading.Thread(target=lambda: client.arrived("a", "one"))
    late.start()
    with service(tmp_path, port=port) as running:
        late.join()
        assert told(running) == {"a": 8}
    with pytest.raises(CorewiseError, match="no answer from http"):
        Client(running.address, patience=0.1).report()
    with pytest.raises(InvalidInput, match="url must be like"):
        Client("pool.db")


def test_events_are_answered_after_the_runner_was_closed(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        running.runtime.runner.close()
        told = {"kind": "job-arrived", "id": "1", "job": "a", "job_class": "one"}
        status, _, problem = running.ask("POST", "/v1/events", told, token=running.token)
        assert (status, problem["detail"]) == (503, "the pool is closed")


def test_an_internal_error_is_a_problem_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_body: bytes) -> None:
        raise RuntimeError("secret")

    with service(tmp_path) as running:
        monkeypatch.setattr("corewise.live.service.wire.reported_events", fail)
        status, headers, problem = running.ask("POST", "/v1/events", [], token=running.token)
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert problem["detail"] == "internal error, see the server log"


def test_what_many_tell_at_once_is_written_once_each(tmp_path: Path) -> None:
    """Clients at once, of whom some tell the same: each event is there once, and all are answered."""
    with service(tmp_path) as running:
        rows = [arrival(k % 20) for k in range(40)]
        with ThreadPoolExecutor(16) as pool:
            answers = list(
                pool.map(lambda row: running.ask("POST", "/v1/events", row, token=running.token)[2], rows)
            )
        assert sum(answer["accepted"] for answer in answers) == 20
        assert sum(answer["duplicates"] for answer in answers) == 20
        jobs = running.client().allocation()["jobs"]
    assert sorted(job["job"] for job in jobs) == sorted(f"job-{k}" for k in range(20))
    ids = [event.id for event in journaled(tmp_path) if event.kind == "job-arrived"]
    assert sorted(ids) == sorted(f"a{k}" for k in range(20))


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_beginning() -> None:
    """Connections send at once what they have; those of a plain listener, the control, do not."""
    with listening("127.0.0.1", 0) as ours, socket.create_server(("127.0.0.1", 0)) as plain:
        for listener, at_once in ((ours, True), (plain, False)):
            with socket.create_connection(listener.getsockname()):
                accepted, _ = listener.accept()
                with accepted:
                    set_ = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                    assert bool(set_) is at_once


# --- following --------------------------------------------------------------------------------------


def first(count: int, following: Iterator[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(row["job"], row["cores"]) for row in islice(following, count)]


def test_following_begins_with_what_is_not_carried_out_yet(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        client = running.client()
        client.arrived("a", "one")
        assert first(1, client.follow()) == [("a", 8)]  # it was told before
        client.held("a", 8)
        client.arrived("b", "two")
        client.held("a", 4)  # carried out, and so is not told again: only b's is left
        following = client.follow()
        assert first(1, following) == [("b", 4)]
        client.held("b", 4)
        client.finished("a")
        assert first(1, following) == [("b", 8)]  # and it goes on with what comes
    with service(tmp_path) as running:
        assert first(1, running.client().follow()) == [("b", 8)]


def test_following_does_not_repeat_what_was_overtaken(tmp_path: Path) -> None:
    """Carried out late, an old instruction would take cores that are another job's by now."""
    with service(tmp_path) as running:
        client = running.client()
        client.arrived("a", "one")
        client.held("a", 8)
        client.arrived("b", "one")
        client.held("a", 4)
        client.held("b", 4)
        client.arrived("c", "one")
        client.held("a", 3)
        told = {row["job"]: row["told"] for row in client.allocation()["jobs"] if row["told"] != row["held"]}
        found = first(len(told), client.follow())
        assert dict(found) == told
        assert len(found) < client.instructions(0)["last"]


def test_following_shrinks_before_it_grows(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        client = running.client()
        client.present("a", "one", 2)
        client.present("b", "one", 6)
        found = first(2, client.follow())
        assert found[0] == ("b", 4)


def test_a_number_of_another_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with service(tmp_path / "one") as running:
        client = running.client()
        assert client.arrived("a", "one")["journal"] == client.instructions(0)["journal"]
        journal, last = client.instructions(0)["journal"], client.instructions(0)["last"]
        assert client.allocation()["journal"] == journal
        status, _, problem = running.ask("GET", "/v1/instructions?after=5000&wait=20")
        assert (status, problem["status"]) == (409, 409)
        assert (
            problem["detail"]
            == f"after=5000 is beyond {last}, the last instruction of the journal '{journal}'"
        )
        with pytest.raises(InvalidInput, match="409: after=5000 is beyond"):
            next(client.follow(after=5000))
    with service(tmp_path / "one") as running:  # the same after a restart
        assert running.client().instructions(last, journal=journal)["journal"] == journal
    with service(tmp_path / "two") as running:
        client = running.client()
        client.arrived("a", "one")
        with pytest.raises(InvalidInput, match=f"409: after=1 is a number of the journal '{journal}'"):
            client.instructions(1, journal=journal)
        with pytest.raises(InvalidInput, match="409: after=1 is a number of the journal"):
            next(client.follow(1, journal=journal))
        assert first(1, client.follow(0)) == [("a", 8)]


def test_following_says_when_the_service_goes_on_with_another_journal(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with service(tmp_path / "one") as running:
        port = int(running.address.rsplit(":", 1)[1])
        token = running.token
        client = running.client()
        following = client.follow()
        client.arrived("a", "one")
        assert first(1, following) == [("a", 8)]
    (tmp_path / "two" / "pool.db.token").write_text(token)
    (tmp_path / "two" / "pool.db.token").chmod(0o600)
    with service(tmp_path / "two", port=port) as running:
        running.client().arrived("b", "one")
        with pytest.raises(InvalidInput, match="409: after=1 is a number of the journal"):
            next(following)


def test_the_example_in_the_documents_starts_its_own_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text()
    (example,) = [block for block in page.split("```") if "in client.follow():" in block]
    program = example.removeprefix("text\n")
    monkeypatch.chdir(tmp_path)

    class Started(Exception):
        pass

    def resize(job: str, cores: int) -> None:
        raise Started(job, cores)

    with service(tmp_path, POOL.replace('"one"', '"training"')) as running:
        assert "http://127.0.0.1:8410" in program
        with pytest.raises(Started) as started:
            exec(program.replace("http://127.0.0.1:8410", running.address), {"resize": resize})
    assert started.value.args == ("train-7", 8)


def test_a_client_follows_below_a_path(tmp_path: Path) -> None:
    with service(tmp_path, f'{POOL}\n[service]\nroot_path = "/pools/night"\n') as running:
        below = Client(f"{running.address}/pools/night", running.token, patience=5.0)
        below.arrived("a", "one")
        assert first(1, below.follow()) == [("a", 8)]
        assert next(below.states())["allocation"]["jobs"][0]["job"] == "a"
        status, headers, _ = running.ask("GET", "/pools/night")
        assert (status, headers["location"]) == (308, "/pools/night/")
        assert running.ask("GET", "/pools/nights/v1/report")[0] == 404
        assert running.ask("POST", "/pools/night/v1/events", arrival(1))[0] == 401
        description = running.ask("GET", "/pools/night/openapi.json")[2]
        assert description["servers"] == [{"url": "/pools/night"}]
        assert running.ask("GET", "/v1/report")[0] == 200  # a proxy may strip it as well


@pytest.mark.parametrize("strips", [True, False])
def test_all_that_the_page_asks_for_is_there_below_a_path(tmp_path: Path, strips: bool) -> None:
    options = "" if strips else '\n[service]\nroot_path = "/pools/night"\n'
    with (
        service(tmp_path, POOL + options) as running,
        proxy(running.address, "/pools/night", strips=strips) as address,
    ):
        page = f"{address}/pools/night/"

        def read(place: str) -> bytes:
            with urlopen(urljoin(page, place)) as answer:
                return bytes(answer.read()) if "stream" not in place else bytes(answer.readline())

        html, script = read("").decode(), read("static/page.js").decode()
        linked = re.findall(r'(?:href|src)="([^"#]+)"', html)
        asked = re.findall(r'(?:fetch|ask|refresh)\("([^"]+)"', script)
        assert len(linked) >= 8
        assert {"v1/stream", "v1/history", "v1/policy", "v1/mode"} <= set(asked)
        assert not [place for place in (*linked, *asked) if place.startswith("/") or "://" in place]
        for place in (*linked, *(place for place in asked if place != "v1/mode")):
            assert read(place), place
        client = Client(page, running.token, patience=5.0)
        client.set_mode("hold")
        assert client.report()["mode"] == "hold"
