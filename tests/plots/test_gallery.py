"""Every figure fits its page, can be written and shown, and leaves matplotlib as it was."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import corewise as cw
import corewise.plots
from corewise.plots.policy import policy_heatmap
from corewise.plots.style import save_figure
from tests.helpers.figures import assert_fits_page, assert_written
from tests.helpers.gallery import PLOTS, cases

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("name", "count"), cases(PLOTS))
def test_no_text_leaves_the_figure_or_meets_another_panel(name: str, count: int, tmp_path: Path) -> None:
    figure = PLOTS[name][0](count)
    assert_fits_page(figure)
    if count == 2:
        assert_written(figure, tmp_path / "figure.pdf")


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_figures_are_written_in_every_format(ending: str, tmp_path: Path) -> None:
    assert_written(policy_heatmap(cw.Greedy(), cw.load_system("paper:2")), tmp_path / f"policy.{ending}")


def test_files_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    figure = policy_heatmap(cw.Equi(), cw.load_system("paper:2"))
    with pytest.raises(cw.errors.InvalidFile, match=r"policy\.pgn.*did you mean 'png'"):
        save_figure(figure, tmp_path / "policy.pgn")
    with pytest.raises(cw.errors.InvalidFile, match="cannot be written"):
        save_figure(figure, tmp_path / "missing" / "policy.png")


def test_a_notebook_shows_a_figure_as_an_image_no_wider_than_the_page() -> None:
    figure = pickle.loads(pickle.dumps(policy_heatmap(cw.Equi(), cw.load_system("paper:2"))))
    image = figure._repr_png_()
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    width = int.from_bytes(image[16:20], "big")  # the first chunk of a PNG says its size
    assert 72.0 * 4.0 < width < 120.0 * 4.4


def test_a_missing_matplotlib_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(cw.CorewiseError, match=r"corewise\[plot\]"):
        policy_heatmap(cw.Equi(), cw.load_system("paper:2"))


def test_figures_are_found_by_name() -> None:
    assert corewise.plots.policy_heatmap is policy_heatmap
    for name in dir(corewise.plots):
        assert callable(getattr(corewise.plots, name))


def test_matplotlib_is_imported_late_and_pyplot_never() -> None:
    """Also by the figures of experiments; in a process of its own, as others may have imported both."""
    program = (
        "import sys, corewise.plots\n"
        "[getattr(corewise.plots, name) for name in dir(corewise.plots)]\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import matplotlib\n"
        "keys = sorted(set(matplotlib.rcParams) - {'backend'})  # asking for it imports pyplot\n"
        "settings = [matplotlib.rcParams[key] for key in keys]\n"
        "from tests.helpers.gallery import PLOTS, RESEARCH\n"
        "for draw, counts in (*PLOTS.values(), *RESEARCH.values()):\n"
        "    draw(min(counts))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert [matplotlib.rcParams[key] for key in keys] == settings\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
