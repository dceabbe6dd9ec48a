"""The service keeps strangers out, stays up whatever they send, and writes nothing that it refuses."""

from __future__ import annotations

import json
import random
import re
import socket
import stat
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from corewise.errors import InvalidFile, InvalidInput
from corewise.live.journal.journal import Journal
from corewise.live.service import access, server
from corewise.live.service.access import Access, Token
from corewise.live.service.pool_file import load_pool
from corewise.live.service.wire import BATCH
from tests.helpers.serving import POOL, Service, service

ARRIVAL = {"kind": "job-arrived", "id": "1", "job": "a", "job_class": "one"}
WRITES = [
    ("POST", "/v1/events", ARRIVAL),
    ("PUT", "/v1/mode", {"mode": "hold"}),
    ("PUT", "/v1/limits", {"job_class": "one", "least": 2}),
]


def events_in(folder: Path) -> int:
    with Journal.read(folder / "pool.db") as journal:
        return sum(1 for _ in journal.events())


def test_nothing_is_written_without_the_token(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        right = running.token
        flipped = ("a" if right[0] != "a" else "b") + right[1:]
        wrong = [None, "", flipped, right + "x", right[:-1], f" {right}x", right.swapcase(), "é" * 43]
        before = events_in(tmp_path)
        for method, path, body in WRITES:
            for token in wrong:
                status, headers, problem = running.ask(method, path, body, token=token)
                assert (status, headers["www-authenticate"], problem["status"]) == (401, "Bearer", 401)
                assert right not in json.dumps(problem)
            assert running.ask(method, path, body, Authorization=f"Basic {right}")[0] == 401
        assert events_in(tmp_path) == before
        assert [running.ask(*write, token=right)[0] for write in WRITES] == [200, 200, 200]


def test_reading_needs_the_token_where_others_can_reach_it(tmp_path: Path) -> None:
    with service(tmp_path, host="0.0.0.0") as running:
        here = replace(running, address=running.address.replace("0.0.0.0", "127.0.0.1"))
        for path in ("/v1/allocation", "/v1/report", "/v1/stream", "/metrics", "/v1/nothing"):
            assert here.ask("GET", path)[0] == 401
        assert here.ask("GET", "/v1/allocation", token=here.token)[0] == 200
        assert [here.ask("GET", path)[0] for path in ("/", "/healthz", "/readyz")] == [200, 200, 200]


def test_a_service_behind_a_proxy_needs_the_token_for_reading(tmp_path: Path) -> None:
    with service(tmp_path, f'{POOL}\n[service]\nhosts = ["pool.example.org"]\n') as running:
        assert running.ask("GET", "/v1/report", Host="pool.example.org")[0] == 401
        assert running.ask("GET", "/v1/report", Host="Pool.example.org:443", token=running.token)[0] == 200
        assert running.ask("GET", "/v1/report", Host="elsewhere.example.org", token=running.token)[0] == 421


def test_a_name_that_points_here_from_elsewhere_reads_nothing(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        port = running.address.rsplit(":", 1)[1]
        assert running.ask("GET", "/v1/report", Host=f"localhost:{port}")[0] == 200
        assert running.ask("GET", "/v1/report", Host=f"attacker.example:{port}")[0] == 421
        assert running.ask("GET", "/v1/report", Host="")[0] == 421


def test_every_answer_keeps_foreign_scripts_out(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        for path in ("/", "/v1/report", "/v1/nothing", "/static/uplot.min.js"):
            headers = running.ask("GET", path)[1]
            assert headers["content-security-policy"].startswith("default-src 'self';")
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers


REFUSED = [
    (b"", 400, "not JSON"),
    (b"{", 400, "not JSON"),
    (b"[" * 10_000 + b"]" * 10_000, 400, "not JSON"),
    (b'{"kind":' * 10_000, 400, "not JSON"),
    (b"[]", 422, "at least 1 item"),
    (json.dumps([ARRIVAL] * (BATCH + 1)).encode(), 422, f"at most {BATCH} items"),
    (b"null", 422, ""),
    (b'"job-arrived"', 422, ""),
    (b"{}", 422, "kind is missing"),
    (json.dumps({**ARRIVAL, "kind": "job-arived"}).encode(), 422, "did you mean 'job-arrived'?"),
    (json.dumps({**ARRIVAL, "kind": "solved"}).encode(), 422, "unknown kind of event 'solved'"),
    (json.dumps({**ARRIVAL, "id": 7}).encode(), 422, "id must be a line of 1 to 200 characters, got 7"),
    (json.dumps({**ARRIVAL, "id": "x" * 201}).encode(), 422, "id must be a line of 1 to 200 characters"),
    (json.dumps({**ARRIVAL, "id": "a\nb"}).encode(), 422, r"id must be a line of 1 to 200 characters"),
    (
        json.dumps({**ARRIVAL, "least": True}).encode(),
        422,
        "least must be a whole number, got True",
    ),
    (json.dumps({**ARRIVAL, "least": 0}).encode(), 422, "least must be at least 1, got 0"),
    (json.dumps({**ARRIVAL, "least": 3, "most": 2}).encode(), 422, "least must be at most most, got 3 and 2"),
    (json.dumps({**ARRIVAL, "time": 1e11}).encode(), 422, "ahead of the clock"),
    (json.dumps({**ARRIVAL, "time": float("nan")}).encode(), 422, "time must be finite, got nan"),
    (json.dumps({**ARRIVAL, "colour": "red"}).encode(), 422, "unknown key 'colour'"),
    (json.dumps({**ARRIVAL, "job_class": "three"}).encode(), 409, "three"),
    (json.dumps({**ARRIVAL, "least": 9}).encode(), 409, "needs 9 cores, and the pool has 8"),
    (b'{"kind":"cores-held","id":"1","job":"a","cores":1e400}', 422, "cores must be a whole number, got inf"),
    (
        b'{"kind":"progress","id":"1","job":"a","amount":1e300}',
        422,
        "amount must be at most 1e+12, got 1e+300",
    ),
]


def test_whatever_is_wrong_is_refused_and_named(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        before = events_in(tmp_path)
        for body, wanted, text in REFUSED:
            status, headers, problem = running.ask("POST", "/v1/events", body, token=running.token)
            assert (status, headers["content-type"]) == (wanted, "application/problem+json"), body[:80]
            assert text in problem["detail"], problem
            assert "Traceback" not in json.dumps(problem)
        for body in (b"{", b"[" * 10_000, b'{"mode": "wtch"}', b'{"mode": 1}', b'{"mode": "hold", "x": 1}'):
            assert running.ask("PUT", "/v1/mode", body, token=running.token)[0] in {400, 422}
        limits = {"job_class": "three"}
        status, _, problem = running.ask("PUT", "/v1/limits", limits, token=running.token)
        assert (status, "'three'" in problem["detail"]) == (409, True)
        assert running.ask("GET", "/v1/instructions?after=-1")[0] == 422
        assert running.ask("GET", "/v1/instructions?after=x")[2]["detail"].endswith("got 'x'")
        assert running.ask("DELETE", "/v1/events", token=running.token)[0] == 405
        assert events_in(tmp_path) == before
        assert running.ask("POST", "/v1/events", ARRIVAL, token=running.token)[0] == 200


def test_a_body_has_a_largest_size(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        host, port = running.address.removeprefix("http://").split(":")
        head = f"POST /v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {running.token}\r\n"
        with socket.create_connection((host, int(port)), timeout=10) as announced:
            announced.sendall(f"{head}Content-Length: {100 << 20}\r\n\r\n".encode())
            assert announced.recv(100).startswith(b"HTTP/1.1 413")
        sent = 0
        with socket.create_connection((host, int(port)), timeout=10) as unannounced:
            unannounced.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
            try:
                while sent < 100 << 20:
                    unannounced.sendall(chunk)
                    sent += 0x10000
            except OSError:
                pass
        assert sent < 20 << 20  # what is in the buffers of the sockets, and no more
        assert running.ask("GET", "/readyz")[0] == 200


def test_whoever_is_slow_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_SLOWEST", 0.3)
    monkeypatch.setattr(server, "_SLOWEST", 0.3)
    with service(tmp_path) as running:
        host, port = running.address.removeprefix("http://").split(":")
        head = f"POST /v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {running.token}\r\n"
        with (
            socket.create_connection((host, int(port)), timeout=10) as slow_body,
            socket.create_connection((host, int(port)), timeout=10) as slow_head,
            socket.create_connection((host, int(port)), timeout=10) as silent,
        ):
            slow_body.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            slow_head.sendall(head.encode())
            assert slow_body.recv(100).startswith(b"HTTP/1.1 408")
            assert slow_head.recv(100) == b""
            assert silent.recv(100) == b""
        assert running.ask("GET", "/readyz")[0] == 200


def connected(running: Service, *, token: str | None = None, path: str | None = "/healthz") -> socket.socket:
    """Return a connection that stays open, by which something was asked, if it was."""
    host, port = running.address.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)), timeout=10)
    if path is not None:
        shown = "" if token is None else f"Authorization: Bearer {token}\r\n"
        made.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{shown}\r\n".encode())
        assert answered(made).startswith(b"HTTP/1.1 200")
    return made


def answered(connection: socket.socket) -> bytes:
    """Return an answer with its body; of a stream, as far as it has come."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += connection.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length is not None and len(body) < int(length[1]):
        body += connection.recv(65536)
    return head


def closed(connection: socket.socket) -> bool:
    """Return whether the service has closed a connection; it must have, or must not for a while."""
    connection.settimeout(1.0)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_connections_that_have_shown_the_token_keep_their_places(tmp_path: Path) -> None:
    """Silent, idle, refused and reading ones make room for others, in this order, the oldest first."""
    with ExitStack() as stack, service(tmp_path, f"{POOL}\n[service]\nmost_connections = 5\n") as running:
        keep = stack.enter_context
        scheduler = keep(connected(running, token=running.token))
        reader = keep(connected(running, path="/v1/stream"))
        silent = keep(connected(running, path=None))
        idle = keep(connected(running))
        wrong = keep(connected(running, token="x" * 43))
        flood = [keep(connected(running, path=None)) for _ in range(4)]
        assert [closed(one) for one in (silent, idle, wrong)] == [True] * 3
        assert closed(flood[0])
        assert not closed(reader)
        assert running.ask("POST", "/v1/events", ARRIVAL, token=running.token)[0] == 200
        scheduler.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answered(scheduler).startswith(b"HTTP/1.1 200")


def test_a_scheduler_is_heard_in_a_burst_of_silent_connections(tmp_path: Path) -> None:
    """All of them wait to be accepted at the same time, more than there are places before it and after."""
    with ExitStack() as stack, service(tmp_path, f"{POOL}\n[service]\nmost_connections = 5\n") as running:
        keep, host = stack.enter_context, running.address.removeprefix("http://")
        assert running.ask("GET", "/healthz")[0] == 200  # it answers by now
        loop = running.runtime.notifier._loop
        assert loop is not None
        loop.call_soon_threadsafe(time.sleep, 0.5)
        before = [keep(connected(running, path=None)) for _ in range(10)]
        scheduler = keep(connected(running, path=None))
        head = f"GET /v1/report HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {running.token}\r\n\r\n"
        scheduler.sendall(head.encode())
        after = [keep(connected(running, path=None)) for _ in range(30)]
        assert answered(scheduler).startswith(b"HTTP/1.1 200")
        assert all(closed(one) for one in (*before, *after[:20]))


def test_there_is_no_place_where_all_have_shown_the_token(tmp_path: Path) -> None:
    with ExitStack() as stack, service(tmp_path, f"{POOL}\n[service]\nmost_connections = 3\n") as running:
        for _ in range(3):
            stack.enter_context(connected(running, token=running.token))
        with connected(running, path=None) as fourth:
            assert b"503 Service Unavailable" in fourth.recv(1000)


def test_readers_do_not_use_up_the_places_of_the_scheduler(tmp_path: Path) -> None:
    with ExitStack() as stack, service(tmp_path, f"{POOL}\n[service]\nmost_readers = 2\n") as running:
        streams = [stack.enter_context(connected(running, path="/v1/stream")) for _ in range(2)]
        for path in ("/v1/stream", "/v1/instructions?wait=30", "/v1/report"):
            status, headers, problem = running.ask("GET", path)
            assert (status, headers["retry-after"]) == (503, "1")
            assert problem["detail"] == "too many readers: 2 requests without the token are being answered"
        assert running.ask("GET", "/healthz")[0] == 200
        assert running.ask("GET", "/v1/report", token=running.token)[0] == 200
        assert running.ask("POST", "/v1/events", ARRIVAL, token=running.token)[0] == 200
        streams[0].close()
        for _ in range(500):
            if running.ask("GET", "/v1/report")[0] == 200:
                break
            time.sleep(0.01)
        assert running.ask("GET", "/v1/report")[0] == 200


def test_requests_without_the_token_do_not_use_up_the_rate_of_the_scheduler(tmp_path: Path) -> None:
    with service(tmp_path, f"{POOL}\n[service]\nmost_requests = 20\n") as running:
        statuses = [running.ask("GET", "/healthz")[0] for _ in range(60)]
        assert statuses[:30] == [200] * 30
        assert 429 in statuses
        assert running.ask("GET", "/v1/report", token="x" * 43)[0] == 429
        assert running.ask("POST", "/v1/events", ARRIVAL, token=running.token)[0] == 200


def test_a_hundred_streams_that_go_away_while_they_are_looked_up(tmp_path: Path) -> None:
    """Readers that leave at once, while events come in: each is taken in, and the last reader sees them."""
    with service(tmp_path) as running:
        host, port = running.address.removeprefix("http://").split(":")
        look = running.runtime.runner.asked(lambda _: time.sleep(0.2))  # the looks of readers wait behind it
        for number in range(100):
            with socket.create_connection((host, int(port)), timeout=10) as one:
                one.sendall(f"GET /v1/stream HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
                one.recv(10)
                if number % 10 == 0:
                    running.client().arrived(f"job-{number}", "one")
        look.result(30.0)
        assert running.ask("GET", "/readyz")[0] == 200
        state = next(running.client().states())
        assert len(state["allocation"]["jobs"]) == 10


OWN = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://127.0.0.1:1"},  # another port of this machine is another origin
    {"Origin": "http://localhost"},
    {"Origin": "file://"},
    {"Origin": "http://{host}.evil.example"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "CROSS-SITE"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
]


def test_pages_of_another_origin_neither_read_nor_write(tmp_path: Path) -> None:
    reads = ["/", "/v1/stream", "/v1/report", "/v1/instructions?wait=30", "/metrics", "/healthz", "/nothing"]
    with service(tmp_path) as running:
        host = running.address.removeprefix("http://")
        before = events_in(tmp_path)
        for headers in FOREIGN:
            sent = {name: value.format(host=host) for name, value in headers.items()}
            for method, path, body in [*(("GET", path, None) for path in reads), *WRITES]:
                status, named, problem = running.ask(method, path, body, token=running.token, **sent)
                assert (status, problem["status"]) == (403, 403), (sent, path)
                assert "access-control-allow-origin" not in named
            assert running.ask("OPTIONS", "/v1/events", **sent)[0] == 403
        assert events_in(tmp_path) == before
        # A link to the page from elsewhere is one, to anything else it is not.
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert running.ask("GET", "/", **link)[0] == 200
        assert running.ask("GET", "/v1/stream", **link)[0] == 403
        assert running.ask("POST", "/", **link)[0] == 403


def test_the_page_itself_and_programs_read_and_write(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        own = {**OWN, "Origin": running.address}
        assert running.ask("GET", "/v1/report", **OWN)[0] == 200
        assert [running.ask(*write, token=running.token, **own)[0] for write in WRITES] == [200] * 3
        port = running.address.rsplit(":", 1)[1]
        other_name = {**OWN, "Origin": f"http://localhost:{port}", "Host": f"localhost:{port}"}
        assert running.ask("PUT", "/v1/mode", {"mode": "hold"}, token=running.token, **other_name)[0] == 200
        assert running.ask("GET", "/", **{"Sec-Fetch-Site": "none"})[0] == 200  # typed in
        assert running.ask("GET", "/v1/report")[0] == 200


@pytest.mark.parametrize(
    ("host", "origin", "wanted"),
    [
        ("pool.example.org", "https://pool.example.org", 200),  # the proxy passes the name on
        ("{here}", "https://pool.example.org", 200),  # or calls the service by its address
        ("pool.example.org", "https://Pool.Example.org:443", 200),
        ("pool.example.org:8443", "https://pool.example.org:8443", 200),
        ("{here}", "https://other.example.org:8443", 200),  # named with its port
        ("{here}", "https://other.example.org", 403),
        ("{here}", "https://pool.example.org:8443", 403),
        ("pool.example.org", "https://example.org", 403),
        ("pool.example.org", "https://evil.example", 403),
        ("evil.example", "https://evil.example", 421),
    ],
)
def test_behind_a_proxy_its_page_is_the_own_one(tmp_path: Path, host: str, origin: str, wanted: int) -> None:
    named = 'hosts = ["pool.example.org", "other.example.org:8443"]'
    with service(tmp_path, f"{POOL}\n[service]\n{named}\n") as running:
        host = host.format(here=running.address.removeprefix("http://"))
        mode = {"mode": "hold"}
        status, _, _ = running.ask("PUT", "/v1/mode", mode, token=running.token, Host=host, Origin=origin)
        assert status == wanted


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b[2J\x1b]0;title\x07",
    "a\u202eb",
    "'; DROP TABLE event; --",
    "../../etc/passwd",
    "{{7*7}}",
    "é" * 200,
    "j" * 200,
]


def test_hostile_names_are_only_names(tmp_path: Path) -> None:
    """They come back as they are in JSON, and move no cursor in a problem or in the metrics."""
    with service(tmp_path) as running:
        client = running.client()
        for number, name in enumerate(HOSTILE):
            body = {"kind": "job-arrived", "id": str(number), "job": name, "job_class": "one"}
            status, headers, answer = running.ask("POST", "/v1/events", body, token=running.token)
            assert headers["x-content-type-options"] == "nosniff"
            if status == 200:
                assert client.explanation(name)["job"] == name
            else:
                assert (status, answer["status"]) == (422, 422)
            stray = {"kind": "progress", "id": f"f{number}", "job": f"no {name}"[:200], "amount": 1.0}
            status, _, problem = running.ask("POST", "/v1/events", stray, token=running.token)
            assert status in {409, 422}
            assert problem["detail"].isprintable()
        names = [row["job"] for row in client.allocation()["jobs"]]
        assert set(names) <= set(HOSTILE)
        assert {HOSTILE[0], HOSTILE[4], HOSTILE[-1]} <= set(names)
        for name in ("j" * 201, "", "a\nb", "a\x00b"):
            body = {"kind": "job-arrived", "id": "long", "job": name, "job_class": "one"}
            assert running.ask("POST", "/v1/events", body, token=running.token)[0] == 422
        assert "alert(1)" not in running.ask("GET", "/metrics")[2].decode()
        assert running.ask("GET", "/readyz")[0] == 200


def test_bytes_at_random_do_not_bring_it_down(tmp_path: Path) -> None:
    rng = random.Random(3)
    with service(tmp_path) as running:
        host, port = running.address.removeprefix("http://").split(":")
        whole = (
            f"POST /v1/events HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n".encode() + b'{"a": 1}\n'
        )
        for _ in range(100):
            noise = bytearray(whole)
            for _ in range(rng.randint(1, 6)):
                noise[rng.randrange(len(noise))] = rng.randrange(256)
            with socket.create_connection((host, int(port)), timeout=10) as one:
                one.sendall(bytes(noise))
        assert running.ask("GET", "/readyz")[0] == 200


# --- the token's file and the pool's ----------------------------------------------------------------


def test_a_token_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "token"
    Token.of_file(path)
    text = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(text.strip()) == 43  # 256 bits
    assert Token.of_file(path).admits(b"bearer " + text.strip().encode())
    assert text.strip() not in repr(Token.of_file(path))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("mode", "content", "why"),
    [
        (0o640, "x" * 43, "others can read or change the token .mode 640.; chmod 600 it"),
        (0o604, "x" * 43, "mode 604"),
        (0o600, "short", "one word of 16 to 1000 characters"),
        (0o600, "", "one word"),
        (0o600, "two words of a token", "one word"),
        (0o600, "é" * 43, "not ASCII"),
    ],
)
def test_a_token_that_is_none_is_refused(tmp_path: Path, mode: int, content: str, why: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(InvalidFile, match=why):
        Token.of_file(path)


def test_where_a_token_cannot_be_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="no token can be read: no such file or directory"):
        Token.of_file(tmp_path / "nowhere" / "token")
    with pytest.raises(InvalidFile, match="no token can be read"):
        Token.of_file(tmp_path)


def test_access_tells_names_apart() -> None:
    access = Access(Token("x" * 43), loopback=True, hosts=("localhost", "[::1]"))
    assert [access.is_called(name) for name in ("localhost", "LOCALHOST:80", "[::1]:80", "[::1]")] == [
        True
    ] * 4
    assert not any(access.is_called(name) for name in ("", "localhost.example", "localhost:80:80", "::1"))


@pytest.mark.parametrize(
    ("added", "why"),
    [
        ("[sevrice]\n", "pool: unknown key 'sevrice'; did you mean 'service'?"),
        ("[control]\npatiense = 3.0\n", "control: unknown key 'patiense'; did you mean 'patience'?"),
        ("[control]\npatience = -1.0\n", "control: patience must be positive, got -1.0"),
        ("[control]\nleast_seen = 1.5\n", "control: least_seen must be a whole number, got 1.5"),
        ("[service]\nlargest_body = 0\n", "largest_body must be at least 1, got 0"),
        ("[service]\nmost_requests = inf\n", "most_requests must be finite, got inf"),
        ("[service]\nhosts = [1]\n", "hosts must be names such as"),
        ("[service]\nmost_readers = 0\n", "most_readers must be at least 1, got 0"),
        ("[service]\nroot_path = 'x/'\n", "root_path must be like '/corewise', got 'x/'"),
        ("[[service]]\n", "service is a table: write .service."),
        ("[[class]]\nnmae = 1\n", "unknown key 'nmae'; did you mean 'name'?"),
    ],
)
def test_a_pool_file_names_what_is_wrong(tmp_path: Path, added: str, why: str) -> None:
    path = tmp_path / "pool.toml"
    path.write_text(f"{POOL}\n{added}")
    with pytest.raises(InvalidFile, match="pool") as refused:
        load_pool(path)
    assert why.replace(".service.", "[service]") in str(refused.value)


def test_a_port_that_is_taken_is_said() -> None:
    with (
        server.listening("127.0.0.1", 0) as taken,
        pytest.raises(InvalidInput, match=r"cannot listen at 127\.0\.0\.1 port \d+: Address already in use"),
        server.listening("127.0.0.1", taken.getsockname()[1]),
    ):
        pass
