"""What README.md and the pages of docs/ show works, and prints what they say that it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.documents import LANGUAGES, ROOT, agree, blocks, check, pages, renewed, steps

TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages()}
TRIED = [name for name, text in TEXTS.items() if steps(text)]
INIT = "Wrote mine.toml. Next: edit it, then  corewise compare mine.toml"


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_a_page_shows_what_is_printed(name: str, tmp_path: Path) -> None:
    check(TEXTS[name], tmp_path)


@pytest.mark.parametrize("name", TEXTS)
def test_blocks_are_in_languages_that_are_known(name: str) -> None:
    used = {block.language for block in blocks(TEXTS[name])}
    assert {language for language in used if not language.startswith("{")} <= LANGUAGES


def test_the_pages_that_teach_have_something_to_try() -> None:
    assert {"README.md", "docs/planning.md", "docs/sweeps.md"} <= set(TRIED)
    shown = [step.kind for step in steps(TEXTS["README.md"]) if step.shown is not None]
    assert "python" in shown
    assert shown.count("sh") >= 5


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_lines_can_be_read_without_a_wide_window(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 120] == []


LINKED = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/paper.md",
    "docs/architecture.md",
    "docs/decisions/index.md",
)


@pytest.mark.parametrize("name", LINKED)
def test_links_lead_somewhere(name: str) -> None:
    file = ROOT / name
    links = re.findall(r"\]\(([^)]+)\)", file.read_text(encoding="utf-8"))
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        if link.startswith("https://"):
            continue
        target = file.parent / path if path else file
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, link


# --- the check itself -----------------------------------------------------------------------------


def _page(*parts: tuple[str, str]) -> str:
    return "\n\n".join(f"```{language}\n{source}\n```" for language, source in parts) + "\n"


RIGHT = {
    "a program": _page(("python", "print('two')\nprint(0.5)"), ("text", "two\n0.5")),
    "commands": _page(("sh", "corewise init mine.toml  # a file\n# no command"), ("console", INIT)),
    "a console": _page(("console", f"$ corewise init mine.toml\n{INIT}\n$ corewise --version")),
    "lines left out": _page(("python", "for i in range(9): print(i)"), ("output", "0\n…\n4\n...\n8")),
    "ends left out": _page(("python", "print('one two'); print(3)"), ("text", "one …\n3")),
    "nothing shown": _page(("python", "print(1)"), ("toml", "a = 1"), ("text", "not an output")),
    "prose between": _page(("python", "print(1)")) + "\nand\n\n" + _page(("text", "2")),
    "times": _page(("python", "print('took   12.5 s, 1,200 a second')"), ("text", "took 0.8 s, 3 a second")),
    "the last digits": _page(("python", "print(0.12345678, 3e-12)"), ("text", "0.12345679 4e-15")),
    "blank lines around": _page(("python", "print('\\n1\\n')"), ("text", "1")),
    "files of earlier blocks": _page(
        ("python", "open('x.txt', 'w').write('1'); print()\nprint(2)"),
        ("python", "print(open('x.txt').read())"),
        ("text", "1"),
    ),
    "files that are shown": "This `my.toml`:\n\n"
    + _page(("toml", "a = 1"), ("python", "print(open('my.toml').read())"), ("text", "a = 1")),
}
WRONG = {
    "a number": _page(("python", "print(0.5)"), ("text", "0.50001")),
    "a word": _page(("python", "print('two')"), ("text", "too")),
    "a sign": _page(("python", "print(-1)"), ("text", "1")),
    "a line too many": _page(("python", "print(1)"), ("text", "1\n2")),
    "a line too few": _page(("python", "print(1)\nprint(2)"), ("text", "1")),
    "after what was left out": _page(("python", "print(1)\nprint(2)"), ("text", "…\n3")),
    "the layout": _page(("python", "print('a  1')"), ("text", "a 1")),
    "an output that is missing": _page(("python", "print(1)"), ("console", "")),
    "an output of a command": _page(("sh", "corewise init mine.toml"), ("text", "Wrote yours.toml.")),
    "an output in a console": _page(("console", f"$ corewise init mine.toml\n{INIT}!")),
    "the second of two": _page(("console", f"$ corewise --version\n…\n$ corewise init mine.toml\n{INIT}!")),
    "an output without a command": _page(("console", "corewise 0\n$ corewise --version")),
    "a program that fails": _page(("python", "print(1)\nraise SystemExit(1)")),
    "a program that warns": _page(("python", "print(1)\nimport warnings\nwarnings.warn('old')")),
    "a program that says nothing": _page(("python", "x = 1")),
    "a command that fails": _page(("sh", "corewise init mine.toml\ncorewise init mine.toml")),
    "another command": _page(("sh", "ls")),
    "a block in a list": "- one\n\n  ```python\n  print(1)\n  ```\n",
    "an open block": "```python\nprint(1)\n",
}


@pytest.mark.parametrize("what", RIGHT)
def test_a_page_that_is_right_passes(what: str, tmp_path: Path) -> None:
    check(RIGHT[what], tmp_path)


@pytest.mark.parametrize("what", WRONG)
def test_a_page_that_is_wrong_fails(what: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check(WRONG[what], tmp_path)


def test_what_is_left_out_may_be_nothing() -> None:
    assert agree(["…"], [])
    assert agree(["1", "…", "2"], ["1", "2"])
    assert not agree(["1", "…", "2"], ["1", "3"])


def test_a_page_can_be_renewed(tmp_path: Path) -> None:
    """Only what differs is written anew."""
    page = _page(
        ("python", "for i in range(4): print(i)"), ("text", "0\n…"), ("python", "print(5)"), ("text", "4\n4")
    )
    assert renewed(page, tmp_path) == page.replace("4\n4", "5")
    assert renewed(_page(("console", "$ corewise init mine.toml\n?")), tmp_path) == _page(
        ("console", f"$ corewise init mine.toml\n{INIT}")
    )
