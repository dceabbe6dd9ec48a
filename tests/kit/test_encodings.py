"""Encodings of text files: byte-order marks and UTF-16 become plain UTF-8."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from corewise.kit.encodings import as_utf8, opened_as_utf8
from corewise.kit.files import read_column

TEXT = "zeit;käse \u20ac \U0001f600\n" * 3000
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"]


def written(encoding: str, text: str = TEXT) -> bytes:
    return ("\ufeff" * (encoding == "utf-16-be") + text).encode(encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_is_the_same_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    content = written(encoding)
    assert as_utf8(content) == TEXT.encode()
    for size in (1, 7, 65536, -1):
        file = opened_as_utf8(io.BufferedReader(io.BytesIO(content)))
        parts = list(iter(lambda: file.read(size), b""))  # noqa: B023  # called at once
        assert b"".join(parts) == TEXT.encode()
    (tmp_path / "numbers.csv").write_bytes(written(encoding, "size\n1.5\n2\n"))
    assert read_column(tmp_path / "numbers.csv") == [1.5, 2.0]


def test_what_is_no_text_is_left_as_it_is() -> None:
    for content in (b"", b"\xff", b"\xff\xfe\x00", b"\xfe\xff\xd8\x00\x00\x41", b"\x7fELF"):
        assert as_utf8(content) == content
    with pytest.raises(OSError, match="not UTF-16"):
        opened_as_utf8(io.BufferedReader(io.BytesIO(b"\xff\xfe\x41"))).read()


def test_closing_closes_the_file_beneath() -> None:
    beneath = io.BufferedReader(io.BytesIO(written("utf-16")))
    with opened_as_utf8(beneath) as file:
        assert file.read(4) == b"zeit"
    assert beneath.closed
