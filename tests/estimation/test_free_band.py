"""The simultaneous band of a concave curve from measured throughputs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import corewise as cw
from corewise.estimation.concave import SpeedBand
from corewise.kit.arrays import Floats

WIDTHS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])


def measured(curve: cw.SpeedUp, widths: Floats, repeats: int, error: float, seed: int) -> cw.results.CurveFit:
    z = np.repeat(widths, repeats)
    y = 50.0 * curve.rate(z) * np.exp(error * np.random.default_rng(seed).standard_normal(z.size))
    return cw.fit_curve(z, y, family="free")


def holds(band: SpeedBand | None, curve: cw.SpeedUp) -> bool:
    assert band is not None
    z = np.geomspace(1.0, 16.0, 50)
    low, high = band.at(z)
    return bool(np.all((low <= curve.rate(z) + 1e-9) & (curve.rate(z) <= high + 1e-9)))


@pytest.mark.statistical
def test_the_whole_curve_is_in_the_band_as_often_as_promised() -> None:
    """Of 60 bands 95 % hold at least, or by chance 48 once in 1e5. A curve 15 % off is the control."""
    truth, other = cw.PowerLaw(0.7), cw.PowerLaw(0.75)
    bands = [measured(truth, WIDTHS, 3, 0.02, seed).band for seed in range(60)]
    least = float(binom.ppf(1e-5, 60, 0.95))
    assert sum(holds(band, truth) for band in bands) >= least
    assert sum(holds(band, other) for band in bands) < least


def test_ends_are_those_of_concave_curves_through_the_intervals() -> None:
    """Against all mixtures of hinges on a fine grid: none leaves the band, and some come near its ends."""
    fit = measured(cw.Amdahl(0.9), np.array([1.0, 2.0, 4.0]), 4, 0.1, 1)
    assert fit.band is not None
    logs = np.log(fit.throughput).reshape(3, 4)
    sigma = np.sqrt(np.sum((logs - logs.mean(axis=1, keepdims=True)) ** 2) / 9.0)
    reach = 2.9333 * sigma / 2.0  # Student's law with 9 degrees of freedom, 1 - 0.05/6
    low, high = np.exp(logs.mean(axis=1) - reach), np.exp(logs.mean(axis=1) + reach)
    shares = np.array(
        [(a, b, 1.0 - a - b) for a in np.linspace(0, 1, 101) for b in np.linspace(0, 1 - a, 60)]
    )
    speeds = shares @ np.minimum(np.array([1.0, 2.0, 4.0])[:, None], np.array([1.0, 2.0, 4.0]))
    scaled_low, scaled_high = (low / speeds).max(axis=1), (high / speeds).min(axis=1)
    possible = speeds[scaled_low <= scaled_high]
    for at, least, most in zip((1, 2), fit.band.low, fit.band.high, strict=True):
        found = possible[:, at]
        assert least - 1e-3 * least <= found.min() <= 1.02 * least
        assert 0.98 * most <= found.max() <= most + 1e-3 * most


def test_without_one_core_nobody_knows_how_much_faster_than_one_core_it_is() -> None:
    truth = cw.Amdahl(0.9)
    fit = measured(truth, WIDTHS[1:], 4, 0.01, 3)
    assert holds(fit.band, truth)
    assert fit.band is not None
    assert fit.band.cores[0] == 2.0
    assert fit.band.high[0] == pytest.approx(2.0)
    assert fit.band.low[0] < 1.5


def test_a_band_needs_to_know_how_large_errors_are() -> None:
    alone = cw.fit_curve([1.0, 2.0, 4.0], [1.0, 1.9, 3.0], family="free")
    assert alone.band is None
    assert any(note.startswith("free has no band") for note in alone.notes)
    assert measured(cw.Amdahl(0.9), np.arange(1.0, 25.0), 1, 0.05, 2).band is not None
    assert cw.fit_curve([1.0, 2.0, 4.0], [1.0, 1.9, 3.0]).band is None
    with pytest.raises(cw.errors.InvalidInput, match="level must lie in"):
        cw.fit_curve([1.0, 2.0, 4.0], [1.0, 1.9, 3.0], level=2.0)
