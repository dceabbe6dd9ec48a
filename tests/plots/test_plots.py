"""The heat map shows what the policy does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.plots.policy import policy_heatmap
from corewise.plots.style import save_figure

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def system() -> cw.System:
    return cw.load_system("paper:2")


def test_the_image_is_the_share_of_the_first_class(system: cw.System) -> None:
    axes = policy_heatmap(cw.Equi(), system, capacity=(7, 4)).axes[0]
    (image,) = axes.images
    shown = image.get_array()
    assert isinstance(shown, np.ma.MaskedArray)
    assert shown.shape == (5, 8)  # rows are n2, columns n1
    assert image.get_clim() == (0.0, 1.0)
    n2, n1 = np.indices((5, 8))
    np.testing.assert_allclose(shown.filled(-1.0)[1:, 1:], (n1 / (n1 + n2 + (n1 + n2 == 0)))[1:, 1:])
    mask = np.ma.getmaskarray(shown)
    assert mask[0, 0]
    assert mask.sum() == 1
    assert tuple(image.get_extent()) == (-0.5, 7.5, -0.5, 4.5)


def test_axes_and_colour_bar_say_what_they_show(system: cw.System) -> None:
    figure = policy_heatmap(cw.Whittle(), system, title="Whittle")
    axes, bar = figure.axes
    assert axes.get_xlabel() == "jobs of class one, $n_1$"
    assert axes.get_ylabel() == "jobs of class two, $n_2$"
    assert bar.get_ylabel() == "fraction of cores held by class one"
    assert figure.get_suptitle() == "Whittle"


@pytest.mark.parametrize(("cores", "most"), [(2, 10), (20, 24), (1000, 50)])
def test_the_range_follows_the_cores_within_reason(cores: float, most: int) -> None:
    jobs = [cw.JobClass(name, 0.1, 1.0, cw.Amdahl(0.5)) for name in ("a", "b")]
    (image,) = policy_heatmap(cw.Equi(), cw.System(cores, jobs)).axes[0].images
    assert tuple(image.get_extent()) == (-0.5, most + 0.5, -0.5, most + 0.5)


def test_a_solved_policy_is_shown_within_its_box(system: cw.System) -> None:
    solution = cw.solve(system, capacity=(6, 9))
    (image,) = policy_heatmap(solution.policy, system).axes[0].images
    assert tuple(image.get_extent()) == (-0.5, 6.5, -0.5, 9.5)


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_figures_are_written(ending: str, system: cw.System, tmp_path: Path) -> None:
    path = tmp_path / f"policy.{ending}"
    save_figure(policy_heatmap(cw.Greedy(), system), path)
    assert path.stat().st_size > 1000
    if ending == "png":
        assert path.read_bytes().startswith(PNG)


def test_no_text_leaves_the_figure() -> None:
    """Long names, and names that look like mathematics, stay within the page."""
    jobs = [cw.JobClass(name, 0.1, 1.0, cw.Amdahl(0.5)) for name in ("costs $5 or $6 each", "x" * 80)]
    figure = policy_heatmap(cw.Equi(), cw.System(12, jobs), title="A title")
    figure.draw_without_rendering()
    page = figure.bbox.extents
    for axes in figure.axes:
        inner = axes.get_tightbbox()
        assert inner is not None
        assert inner.x0 >= page[0]
        assert inner.y0 >= page[1]
        assert inner.x1 <= page[2]
        assert inner.y1 <= page[3]


@pytest.mark.parametrize("classes", [1, 3])
def test_other_numbers_of_classes_are_refused(classes: int) -> None:
    jobs = [cw.JobClass(f"c{i}", 0.1, 1.0, cw.Amdahl(0.5)) for i in range(classes)]
    with pytest.raises(cw.errors.InvalidInput, match=f"two classes, the system has {classes}: c0"):
        policy_heatmap(cw.Equi(), cw.System(4, jobs))


def test_bad_calls_raise_our_own_errors(system: cw.System, tmp_path: Path) -> None:
    with pytest.raises(cw.errors.InvalidPolicy, match="expected a policy"):
        policy_heatmap("equi", system)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="'paper:2'"):
        policy_heatmap(cw.Equi(), "paper:2")  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="capacity"):
        policy_heatmap(cw.Equi(), system, capacity=0)
    figure = policy_heatmap(cw.Equi(), system)
    with pytest.raises(cw.errors.InvalidFile, match=r"policy\.pgn.*did you mean 'png'"):
        save_figure(figure, tmp_path / "policy.pgn")
    with pytest.raises(cw.errors.InvalidFile, match="cannot be written"):
        save_figure(figure, tmp_path / "missing" / "policy.png")


def test_a_missing_matplotlib_is_said(system: cw.System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(cw.CorewiseError, match=r"corewise\[plot\]"):
        policy_heatmap(cw.Equi(), system)


def test_pyplot_and_its_global_state_are_not_touched() -> None:
    program = (
        "import sys, corewise as cw, matplotlib\n"
        "from corewise.plots.policy import policy_heatmap\n"
        "settings = lambda: [matplotlib.rcParams[key] for key in ('font.size', 'savefig.dpi')]\n"
        "before = settings()\n"
        "policy_heatmap(cw.Equi(), cw.load_system('paper:2'))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert settings() == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
