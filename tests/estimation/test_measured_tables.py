"""Tables of several types of jobs: three forms of the same measurements, and what is wrong with a table."""

from __future__ import annotations

from pathlib import Path

import pytest

import corewise as cw
from corewise.errors import InvalidFile
from corewise.estimation.throughput.tables import curves_in_table

CORES = (1, 2, 4, 8)
TYPES = {"render": cw.Amdahl(0.9), "etl": cw.Amdahl(0.5)}
SPEED = {name: [10.0 * float(curve.rate(z)) for z in CORES] for name, curve in TYPES.items()}

LONG = "class,cores,throughput\n" + "".join(
    f"{name},{z},{y!r}\n" for name in TYPES for z, y in zip(CORES, SPEED[name], strict=True)
)
DOWN = "cores,render,etl\n" + "".join(
    f"{z},{a!r},{b!r}\n" for z, a, b in zip(CORES, SPEED["render"], SPEED["etl"], strict=True)
)
ACROSS = "class,1,2,4,8\n" + "".join(f"{name},{','.join(map(repr, SPEED[name]))}\n" for name in TYPES)


@pytest.mark.parametrize(
    "text", [LONG, DOWN, ACROSS, LONG.replace("class", "job_type"), ACROSS + "etl,10,,,\n"]
)
def test_every_form_gives_the_same_curves(tmp_path: Path, text: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text(text)
    found = curves_in_table(str(file), family="amdahl")
    assert list(found) == list(TYPES)
    for name, curve in TYPES.items():
        assert found[name].parameters["p"] == pytest.approx(curve.p, abs=1e-6)
        assert found[name].scale == pytest.approx(10.0, rel=1e-6)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks_change_nothing(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text(LONG, encoding=encoding)
    assert list(curves_in_table(str(file), family="amdahl")) == list(TYPES)


def test_a_column_by_another_name(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(LONG.replace("class", "queue"))
    assert list(curves_in_table(str(file), by="queue", family="amdahl")) == list(TYPES)
    with pytest.raises(InvalidFile, match="no column 'queu'; did you mean 'queue'"):
        curves_in_table(str(file), by="queu")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cores,throughput\n1,2\n2,3\n", "of which types of jobs"),
        ("1,2,4\n3,4,5\n", "no header"),
        ("class,cores,throughput\na,1,x\n", "line 2: throughput of 'a' must be a number, got 'x'"),
        ("class,cores,throughput\na,0,1\n", "line 2: cores must be positive"),
        ("class,cores,throughput\n,1,1\n", "line 2: it does not say of which type"),
        ("class,1,2\na,5,-1\n", "line 2: throughput of 'a' must be positive"),
        ("", "empty"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(InvalidFile, match=said):
        curves_in_table(str(file))
