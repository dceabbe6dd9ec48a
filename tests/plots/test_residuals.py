"""The figure of residuals shows how far they are from their law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.kit.arrays import Floats
from corewise.plots.residuals import residual_figure
from corewise.plots.style import class_colour
from tests.helpers.figures import line
from tests.helpers.logs import recorded


def fit_of(residuals: Floats, name: str = "only", p_value: float = 0.3) -> cw.results.GoodnessOfFit:
    return cw.results.GoodnessOfFit(name, residuals, {"law": p_value, "order": 0.5}, p_value)


@pytest.mark.parametrize("count", [20, 300, 1500, 20_000])
def test_the_farthest_deviation_is_the_statistic_of_kolmogorov_and_smirnov(count: int) -> None:
    residuals = np.random.default_rng(count).exponential(size=count)
    (axes,) = residual_figure({"only": fit_of(residuals)}).axes
    x, y = line(axes, 1)
    assert y.max() == pytest.approx(stats.kstest(residuals, "expon", alternative="greater").statistic)
    assert -y.min() == pytest.approx(stats.kstest(residuals, "expon", alternative="less").statistic)
    assert np.all(np.diff(x) >= 0.0)
    assert x.size <= 4100
    (span,) = axes.patches
    edges = span.get_extents().transformed(axes.transData.inverted()).intervaly
    exact = stats.kstwo.ppf(0.95, count)
    np.testing.assert_allclose(edges, [-exact, exact], rtol=0.02)


def test_a_log_that_does_not_fit_is_seen_and_said() -> None:
    """Against the true curves residuals stay in the band; against a wrong one those of its class do not."""
    system = cw.load_system("paper:2")
    path = recorded(system, departures=2000)
    right = cw.goodness_of_fit(path, system)
    wrong = cw.goodness_of_fit(path, system.with_curves({"two": cw.Amdahl(0.1)}))
    for fits, follows in ((right, True), (wrong, False)):
        one, two = residual_figure(fits).axes
        assert "no sign against the model" in one.get_title()
        assert ("no sign against" if follows else "does not follow the model") in two.get_title()
        edge = stats.kstwo.ppf(0.95, fits["two"].residuals.size)
        assert (np.abs(line(two, 1)[1]).max() < edge) == follows
        assert one.get_ylim() == two.get_ylim()
    assert two.get_xlabel() == "share under the model, $1 - e^{-r}$"
    assert one.get_ylabel() == "share of residuals up to $r$,\nless that under the model"


def test_classes_keep_their_colours_when_some_are_missing() -> None:
    residuals = np.random.default_rng(1).exponential(size=50)
    fits = {"two": fit_of(residuals, "two")}
    assert residual_figure(fits).axes[0].lines[1].get_color() == class_colour(0)
    (axes,) = residual_figure(fits, names=["one", "two"]).axes
    assert axes.lines[1].get_color() == class_colour(1)
    with pytest.raises(cw.errors.InvalidInput, match="class 'two'; the names are one, three"):
        residual_figure(fits, names=["one", "three"])


def test_few_residuals_and_tiny_p_values_are_said_as_they_are() -> None:
    few = cw.results.GoodnessOfFit("few", np.array([0.3, 1.2]), {}, math.nan)
    none = cw.results.GoodnessOfFit("none", np.empty(0), {}, math.nan)
    sure = fit_of(np.linspace(5.0, 6.0, 40), "sure", p_value=0.0)
    titles = [axes.get_title() for axes in residual_figure({v.name: v for v in (few, none, sure)}).axes]
    assert titles[0] == "few: 2 departures\ntoo few to test the model"
    assert titles[1] == "none: 0 departures\ntoo few to test the model"
    assert titles[2].endswith("does not follow the model, $p$ < 1e-99\n(law < 1e-99, order 0.5)")


def test_no_fits_are_refused() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="no class was tested"):
        residual_figure({})
    with pytest.raises(cw.errors.InvalidInput, match="expected what goodness_of_fit returns"):
        residual_figure({"one": 0.3})  # type: ignore[dict-item]
