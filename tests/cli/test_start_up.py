"""The command line starts without what is slow to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("numpy", "numba", "scipy", "matplotlib", "rich")


def _imported(arguments: str) -> list[str]:
    """Return which of the slow packages are loaded after running the command line with `arguments`."""
    program = (
        "import sys\n"
        "from corewise.cli.main import app\n"
        f"app({arguments}, standalone_mode=False)\n"
        f"print('LOADED', [name for name in {SLOW!r} if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return eval(result.stdout.rpartition("LOADED ")[2])  # type: ignore[no-any-return]


@pytest.mark.parametrize("arguments", ["['--help']", "['solve', '--help']", "['--version']"])
def test_help_and_version_import_nothing_slow(arguments: str) -> None:
    assert _imported(arguments) == []


@pytest.mark.slow
def test_the_check_sees_what_is_imported() -> None:
    assert "numpy" in _imported("['evaluate', 'paper:1', '--policy', 'equi']")


def test_importing_corewise_is_light() -> None:
    program = "import sys, corewise; print([m for m in ('numpy', 'numba', 'scipy') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
