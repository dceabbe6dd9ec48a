"""Archives: what is written comes back, and whatever is wrong with a file is told as `InvalidFile`."""

from __future__ import annotations

import io
import json
import pathlib
import struct
import zipfile
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.kit.archive import read_archive, write_archive

File = pathlib.Path
KIND, WHAT = "corewise test 1", "saved test"


def test_what_is_written_comes_back(tmp_path: File) -> None:
    about = {"name": "é ∞ \x00 end", "numbers": [1, 0.1, 2**70, float("inf")], "none": None}
    arrays = {"a.b": np.array([0.1, -0.0, np.nan]), "empty": np.empty((0, 3)), "whole": np.arange(4)}
    write_archive(tmp_path / "file", KIND, about, arrays)
    told, found = read_archive(tmp_path / "file", KIND, WHAT)
    assert told == {"format": KIND, **about}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def test_another_format_is_named(tmp_path: File) -> None:
    write_archive(tmp_path / "file", "corewise test 2", {}, {})
    with pytest.raises(
        cw.errors.InvalidFile, match="has the format 'corewise test 2', not 'corewise test 1'"
    ):
        read_archive(tmp_path / "file", KIND, WHAT)


@pytest.mark.parametrize("value", [object(), np.arange(3), {1, 2}, {(1, 2): 3}], ids=type)
def test_what_is_not_plain_is_not_written(value: Any, tmp_path: File) -> None:
    with pytest.raises(cw.errors.InvalidInput, match="file: what is to be saved must be plain values"):
        write_archive(tmp_path / "file", KIND, {"x": [value]}, {})
    assert [*tmp_path.iterdir()] == []


def array_bytes(value: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array(value), allow_pickle=True)
    return stream.getvalue()


def with_header(header: str, data: bytes = b"") -> bytes:
    """An array's bytes with a header of our own."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


GOOD = array_bytes(json.dumps({"format": KIND}))
DAMAGED: dict[str, dict[str, bytes]] = {
    "nothing in it": {},
    "no description": {"a.npy": array_bytes([1.0])},
    "description is no JSON": {"about.npy": array_bytes("{")},
    "description is a list": {"about.npy": array_bytes("[1]")},
    "description without a format": {"about.npy": array_bytes("{}")},
    "description nested deeply": {"about.npy": array_bytes("[" * 100_000)},
    "description of many": {"about.npy": array_bytes(["{}", "{}"])},
    "not an array": {"about.npy": GOOD, "a.npy": b"hello"},
    "nothing": {"about.npy": GOOD, "a.npy": b""},
    "objects": {"about.npy": GOOD, "a.npy": array_bytes([{}, None])},
    "header cut off": {"about.npy": GOOD, "a.npy": GOOD[:9]},
    "header not closed": {"about.npy": GOOD, "a.npy": with_header("{'descr': '<f8', 'shape': (")},
    "header quoted badly": {"about.npy": GOOD, "a.npy": with_header("{'descr': '''<f8")},
    "header indented": {"about.npy": GOOD, "a.npy": with_header("if 1:\n    1\n  2")},
    "header of another": {"about.npy": GOOD, "a.npy": with_header("{'descr': '<f8'}")},
    "header runs nothing": {"about.npy": GOOD, "a.npy": with_header("print('never')")},
    "header nested deeply": {"about.npy": GOOD, "a.npy": with_header("(" * 3000)},
    "too few numbers": {
        "about.npy": GOOD,
        "a.npy": with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (9,)}", bytes(8)),
    },
    "more numbers than there is room for": {
        "about.npy": GOOD,
        "a.npy": with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (9" + "0" * 15 + ",)}"),
    },
    "fewer than none": {
        "about.npy": GOOD,
        "a.npy": with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-3,)}", bytes(8)),
    },
}


@pytest.mark.parametrize("case", DAMAGED)
def test_files_that_are_not_what_they_should_be(case: str, tmp_path: File) -> None:
    with zipfile.ZipFile(tmp_path / "file", "w") as file:
        for name, content in DAMAGED[case].items():
            file.writestr(name, content)
    with pytest.raises(cw.errors.InvalidFile, match=r"file is not a (usable|saved) test"):
        read_archive(tmp_path / "file", KIND, WHAT)
    with zipfile.ZipFile(tmp_path / "good", "w") as file:
        file.writestr("about.npy", GOOD)
    assert read_archive(tmp_path / "good", KIND, WHAT) == ({"format": KIND}, {})


def test_what_unpacks_to_too_much_is_refused_before(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the directory of the archive says, which also bounds what is unpacked."""
    file = tmp_path / "file"
    write_archive(file, KIND, {}, {"zeros": np.zeros(10_000)})
    assert file.stat().st_size < 2000
    monkeypatch.setattr("corewise.kit.archive._MOST_BYTES", 80_000)
    monkeypatch.setattr("numpy.load", None)  # nothing is unpacked
    with pytest.raises(cw.errors.InvalidFile, match="file is not a usable test: it unpacks to 0 MiB"):
        read_archive(file, KIND, WHAT)
    with pytest.raises(cw.errors.InvalidFile, match=r"file unpacks to 0 MiB, more than"):
        write_archive(file, KIND, {}, {"zeros": np.zeros(10_001)})


@pytest.mark.parametrize("shape", ["(9,)", "(2, 9)", "(10**12,)", "(0,)"])
def test_an_array_has_the_size_that_its_header_says(shape: str, tmp_path: File) -> None:
    said = with_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}", bytes(80))
    with zipfile.ZipFile(tmp_path / "file", "w") as archive:
        archive.writestr("about.npy", GOOD)
        archive.writestr("a.npy", said)
    with pytest.raises(cw.errors.InvalidFile, match="is not a usable test"):
        read_archive(tmp_path / "file", KIND, WHAT)
