"""The decisions: one dated page each, numbered without gaps, and all of them in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")
INDEX = (FOLDER / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", range(1, len(PAGES) + 1))
def test_a_decision_has_a_title_a_number_a_date_and_a_place_in_the_index(number: int) -> None:
    page = PAGES[number - 1]
    title, empty, line, *_ = page.read_text(encoding="utf-8").splitlines()
    assert page.name.startswith(f"{number:04d}-")
    assert title.startswith("# ")
    assert empty == ""
    found = re.fullmatch(r"Decision (\d{4}) · (\d{4}-\d{2}-\d{2}) · `(\w+)`", line)
    assert found is not None
    assert found[1] == f"{number:04d}"
    row = f"| {found[1]} | {found[2]} | [{title.removeprefix('# ')}]({page.name}) |"
    assert row in INDEX.splitlines()


def test_the_index_has_nothing_else() -> None:
    assert len(re.findall(r"^\| \d{4} \|", INDEX, flags=re.MULTILINE)) == len(PAGES)


def test_lines_can_be_read_without_a_wide_window() -> None:
    for page in PAGES:
        assert [line for line in page.read_text(encoding="utf-8").splitlines() if len(line) > 120] == []


def test_dates_rise_with_the_numbers() -> None:
    dates = [page.read_text(encoding="utf-8").splitlines()[2].split(" · ")[1] for page in PAGES]
    assert dates == sorted(dates)
