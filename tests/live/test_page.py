"""The page, in a real browser: it follows a run and a restart, and changes nothing without the token."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

import corewise as cw
from benchmarks.instruments.lossy_scheduler import Emulated, LossyScheduler
from tests.helpers.serving import POOL, proxy, service, web

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 30_000.0  # milliseconds, on a busy machine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH to look at the page with"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page whose scripts may not fail, nor ask for anything that is not there."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    yield opened
    opened.close()
    assert [text for text in wrong if "ERR_CONNECTION_REFUSED" not in text and "401" not in text] == []


def test_the_page_follows_a_run_and_a_restart(tmp_path: Path, page: Any) -> None:
    text = f"{POOL}\n[control]\nwindow = 15\npatience = 0.3\n"
    with service(tmp_path, text) as running:
        port = int(running.address.rsplit(":", 1)[1])
        client = running.client()
        page.goto(running.address)
        page.wait_for_selector("#link[data-state=live]")
        assert page.text_content("#alarms li") == "none"
        assert page.text_content("#jobs tbody") == "no jobs"
        assert page.text_content("#reason") == "not adopted: 0 of 15 departures of the first window"
        client.present("stuck", "two", 8)
        client.arrived("a/b", "one")
        page.wait_for_selector("#alarms .alert")
        assert "job 'stuck' was told 4 cores and still holds 8" in page.text_content("#alarms")
        page.wait_for_selector("#jobs tbody tr:nth-child(2)")
        assert "class one: one job to hold 4 of 8 cores" in page.text_content("#jobs tbody tr:nth-child(2)")
        assert page.text_content("#policy td.here") == "4"
        client.ended("stuck", "cancelled")
        client.ended("a/b", "cancelled")
        classes = {"one": Emulated(5.0, 6.0, cw.Amdahl(0.3)), "two": Emulated(5.0, 4.0, cw.Amdahl(0.9))}
        scheduler = LossyScheduler(running.address, running.token, classes, clients=2, loss=0.0)
        run = threading.Thread(target=scheduler.run, args=(7.0,), kwargs={"drain": True})
        run.start()
        page.wait_for_selector("#cores canvas")
        page.wait_for_selector("#learned p:has-text('departures')")
        run.join()
        page.wait_for_selector("#jobs tbody:has-text('no jobs')")
    page.wait_for_selector("#link[data-state=gone]")
    with service(tmp_path, text, port=port) as running:
        page.wait_for_selector("#link[data-state=live]")
        running.client().arrived("after", "one")
        page.wait_for_selector("#jobs tbody:has-text('after')")


def test_the_mode_is_switched_with_the_token_and_not_without(tmp_path: Path, page: Any) -> None:
    with service(tmp_path) as running:
        page.goto(running.address)
        page.wait_for_selector("#mode[data-mode=steer]")
        page.select_option("#mode", "hold")
        page.click("#control button")
        page.wait_for_selector("#said[data-state=bad]")
        assert "no token was shown" in page.text_content("#said")
        assert running.client().report()["mode"] == "steer"
        # By keyboard alone: from the mode to the token to the button.
        page.focus("#mode")
        page.keyboard.press("w")
        page.keyboard.press("Tab")
        page.keyboard.type(running.token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#said[data-state=good]")
        page.wait_for_selector("#mode[data-mode=watch]")
        assert running.client().report()["mode"] == "watch"
        assert running.token not in page.content()


def test_the_page_reads_with_a_token_where_it_must(tmp_path: Path, page: Any) -> None:
    with service(tmp_path, f'{POOL}\n[service]\nhosts = ["pool.example.org"]\n') as running:
        page.goto(running.address)
        page.wait_for_selector("#link[data-state=gone]")
        page.fill("#token", running.token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#link[data-state=live]")


@pytest.mark.parametrize("strips", [True, False])
def test_the_page_works_below_a_path(tmp_path: Path, page: Any, strips: bool) -> None:
    """Behind a proxy that takes the path away, and behind one that passes it on."""
    options = "" if strips else '\n[service]\nroot_path = "/pools/night"\n'
    with (
        service(tmp_path, POOL + options) as running,
        proxy(running.address, "/pools/night", strips=strips) as address,
    ):
        page.goto(f"{address}/pools/night/")
        page.wait_for_selector("#mode[data-mode=steer]")
        running.client().arrived("behind", "one")
        page.wait_for_selector("#jobs tbody:has-text('behind')")
        page.wait_for_selector("#policy td")
        page.select_option("#mode", "hold")
        page.fill("#token", running.token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#said[data-state=good]")
        assert running.client().report()["mode"] == "hold"


FOREIGN = """async (address) => {
  for (let i = 0; i < 30; i++) {
    const stop = new AbortController();
    fetch(`${address}/v1/stream`, { mode: "no-cors", signal: stop.signal }).catch(() => 0);
    await new Promise((done) => setTimeout(done, 10 * (i % 3)));
    stop.abort();
  }
  const opaque = { method: "POST", mode: "no-cors", body: "{}" };
  await fetch(`${address}/v1/events`, opaque).catch(() => 0);
}"""


def test_a_page_of_another_origin_gets_nothing(tmp_path: Path, browser: Any) -> None:
    with service(tmp_path) as running, web({"/": b"<!doctype html><p>other"}) as elsewhere:
        other = browser.new_page()
        other.goto(elsewhere)
        other.evaluate(FOREIGN, running.address)
        other.close()
        statuses = {
            line.split('"')[1]
            for line in running.ask("GET", "/metrics")[2].decode().splitlines()
            if line.startswith("corewise_http_requests_total{")
        }
        assert statuses == {"403"}
        assert running.client().arrived("a", "one")["accepted"] == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_small_screen(tmp_path: Path, browser: Any, scheme: str) -> None:
    with service(tmp_path) as running:
        running.client().arrived("a-job-with-a-name-that-is-long-" * 4, "one")
        page = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme=scheme)
        page.goto(running.address)
        page.wait_for_selector("#jobs tbody td:last-child")
        page.wait_for_selector("#policy td")
        time.sleep(0.2)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        ink, paper = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert (_light(ink), _light(paper)) == ((0, 1) if scheme == "light" else (1, 0))
        card = page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
        cells = page.evaluate(
            "[...document.querySelectorAll('#policy td')].map((one) => getComputedStyle(one).backgroundColor)"
        )
        soft = page.evaluate("getComputedStyle(document.querySelector('.none')).color")
        assert min(_contrast(ink, _over(cell, card)) for cell in cells) >= READABLE
        assert _contrast(soft, _over(card, card)) >= READABLE
        page.close()


READABLE = 4.5  # the least contrast of small text, by WCAG 2.2, 1.4.3


def _parts(colour: str) -> list[float]:
    """Red, green, blue and opacity of a computed colour."""
    found = [float(part) for part in colour.split("(")[1][:-1].replace(",", " ").replace("/", " ").split()]
    return [*found, 1.0][:4]


def _over(colour: str, below: str) -> str:
    """A colour on top of another, seen through it."""
    *top, opacity = _parts(colour)
    mixed = [opacity * a + (1.0 - opacity) * b for a, b in zip(top, _parts(below), strict=False)]
    return f"rgb({' '.join(map(str, mixed))})"


def _contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG defines it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255.0 for value in _parts(colour)[:3])
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _light(colour: str) -> int:
    return int(_luminance(colour) > 0.2)


def test_contrasts_are_those_of_the_standard() -> None:
    assert _contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21.0)
    assert _contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.005)
