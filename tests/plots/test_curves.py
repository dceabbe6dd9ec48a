"""The figure of speed-up curves shows the laws that they follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import corewise as cw
from corewise.kit.arrays import Floats
from corewise.plots.curves import speedup_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FRACTIONS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)


def figure_1(cores: float = 10.0) -> Figure:
    laws: dict[str, list[cw.SpeedUp]] = {
        "(a) Amdahl": [cw.Amdahl(p) for p in FRACTIONS],
        "(b) power": [cw.PowerLaw(p) for p in FRACTIONS],
    }
    return speedup_figure(laws, cores=cores)


def amdahl(z: Floats, p: float) -> Floats:
    return np.asarray(1.0 / (1.0 - p + p / z))


def power(z: Floats, p: float) -> Floats:
    return np.asarray(z**p)


def test_curves_are_those_of_the_paper() -> None:
    first, second = figure_1().axes
    for axes, law in ((first, amdahl), (second, power)):
        for one, p in zip(axes.lines, FRACTIONS, strict=True):
            z, speed = (np.asarray(part, dtype=float) for part in one.get_data())
            assert (z[0], z[-1]) == (0.0, 10.0)
            assert 1.0 in z
            np.testing.assert_array_equal(speed[z <= 1.0], z[z <= 1.0])
            np.testing.assert_allclose(speed[z > 1.0], law(z[z > 1.0], p))
        assert axes.get_xlabel() == "cores per job, $z$"
        assert {text.get_text() for text in axes.texts} == {f"$p$ = {p:.3g}" for p in FRACTIONS}
        assert len({tuple(one.get_color()) for one in axes.lines}) == 6
    assert first.get_title() == "(a) Amdahl"
    assert first.get_xlim() == second.get_xlim() == (0.0, 10.0)
    assert first.get_ylim() == second.get_ylim()
    assert 10.0**0.9 < first.get_ylim()[1] < 9.0  # linear curves leave at the top


@pytest.mark.slow
@pytest.mark.parametrize("cores", [2.0, 10.0, 100.0])
def test_labels_are_at_their_curves_and_apart(cores: float) -> None:
    figure = figure_1(cores)
    figure.draw_without_rendering()
    for axes in figure.axes:
        top = axes.get_ylim()[1]
        boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
        for text, box in boxes.items():
            others = [other for name, other in boxes.items() if name != text]
            assert not box.count_overlaps(others)
        linear = next(text for text in axes.texts if text.get_text() == "$p$ = 1")
        assert linear.xy == pytest.approx((top, top))  # type: ignore[attr-defined]
        ends = [text.xy[1] for text in axes.texts if text is not linear]  # type: ignore[attr-defined]
        assert ends == sorted(ends)
        assert ends[0] == 1.0


def test_any_curves_can_be_drawn_together() -> None:
    curves: dict[str, list[cw.SpeedUp]] = {
        "USL": [cw.Usl(0.05, 0.0), cw.Usl(0.05, 0.01)],
        "mixed": [cw.Gustafson(0.5), cw.Tabulated([(1, 1), (4, 3)])],
    }
    first, second = speedup_figure(curves, cores=16).axes
    assert [text.get_text() for text in first.texts] == [
        r"$\sigma$ = 0.05, $\kappa$ = 0",
        r"$\sigma$ = 0.05, $\kappa$ = 0.01",
    ]
    assert [text.get_text() for text in second.texts] == ["Gustafson, $p$ = 0.5", "tabulated"]
    linear = speedup_figure({"linear": [cw.Amdahl(1.0)]}, cores=8).axes[0]
    assert linear.get_ylim() == (0.0, 8.0)


def test_curves_that_are_none_are_refused() -> None:
    with pytest.raises(cw.errors.InvalidInput, match=r"lists of curves by their names, got \{\}"):
        speedup_figure({}, cores=4)
    with pytest.raises(cw.errors.InvalidInput, match="'a': expected one to 12 curves"):
        speedup_figure({"a": []}, cores=4)
    with pytest.raises(cw.errors.InvalidInput, match=r"'a': expected a SpeedUp curve, got 0\.5"):
        speedup_figure({"a": [0.5]}, cores=4)  # type: ignore[list-item]
    with pytest.raises(cw.errors.InvalidInput, match="cores must be positive, got 0"):
        speedup_figure({"a": [cw.Amdahl(0.5)]}, cores=0)
