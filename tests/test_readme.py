"""What the README shows works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corewise.cli.main import app

TEXT = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_the_readme_has_something_to_try() -> None:
    assert _blocks("python")
    assert _blocks("sh")
    assert not set(re.findall(r"^```(\w+)", TEXT, flags=re.MULTILINE)) - {"python", "sh", "toml"}


@pytest.mark.parametrize("block", _blocks("python"))
def test_python_blocks_run(block: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.mark.parametrize("block", _blocks("sh"))
def test_commands_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in block.splitlines():
        command, *arguments = shlex.split(line, comments=True) or ["corewise", "--version"]
        assert command == "corewise", line
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{line}\n{result.output}"
