"""One version, said in one place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from typer.testing import CliRunner

import corewise as cw
from corewise.cli.main import app

ROOT = Path(__file__).parents[2]


def test_the_build_reads_the_version_where_python_does() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    source = (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text()
    # What hatch looks for, by default.
    found = re.search(r'^__version__ *= *"(?P<version>[^"]+)"', source, re.MULTILINE)
    assert found is not None
    assert found["version"] == cw.__version__


def test_the_citation_has_the_version() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == cw.__version__


def test_the_command_line_says_the_version() -> None:
    answer = CliRunner().invoke(app, ["--version"])
    assert answer.output == f"corewise {cw.__version__}\n"
