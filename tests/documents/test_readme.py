"""What the README and docs/planning.md show works; docs/sweeps.md is in test_cli_sweep.py."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corewise.cli.main import app

HOME = Path(__file__).parents[2]
TEXTS = {name: (HOME / name).read_text(encoding="utf-8") for name in ("README.md", "docs/planning.md")}


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def _all_blocks(language: str) -> list[str]:
    return [block for text in TEXTS.values() for block in _blocks(text, language)]


@pytest.mark.parametrize("name", TEXTS)
def test_there_is_something_to_try(name: str) -> None:
    text = TEXTS[name]
    assert _blocks(text, "python")
    assert _blocks(text, "sh")
    assert not set(re.findall(r"^```(\w+)", text, flags=re.MULTILINE)) - {"python", "sh", "toml"}


@pytest.mark.parametrize("block", _all_blocks("python"))
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


@pytest.mark.parametrize("block", _all_blocks("sh"))
def test_commands_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in block.splitlines():
        command, *arguments = shlex.split(line, comments=True) or ["corewise", "--version"]
        assert command == "corewise", line
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{line}\n{result.output}"
