"""Measured curves learned from progress reports; skipped where the measurements are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.progress import MeasuredCurve, learned_error, measured_curves

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the measured curves are not here")


@pytest.fixture(scope="module")
def curves() -> list[MeasuredCurve]:
    return list(measured_curves(DATA))


@needs_data
@pytest.mark.parametrize(("reports", "error", "lost"), [(100, 0.1, 0.05), (1000, 0.05, 0.01)])
@pytest.mark.parametrize("source", ["USL", "Pollux, fixed batch", "Pollux, best batch", "Gavel"])
def test_measured_curves_are_learned(
    curves: list[MeasuredCurve], source: str, reports: int, error: float, lost: float
) -> None:
    """Medians of errors, means of the speed lost at the width found, over at most ten curves; one seed."""
    rng = np.random.default_rng(17)
    mine = [curve for curve in curves if curve.source == source][:10]
    rows = [learned_error(curve, reports, rng) for curve in mine]
    assert np.median([off for off, _, _ in rows]) < error
    assert np.mean([part for _, _, part in rows]) < lost


@needs_data
def test_curves_of_another_class_are_not_those(curves: list[MeasuredCurve]) -> None:
    """The control: the curve learned of one table misses another by more than ten times the bound."""
    one = next(curve for curve in curves if curve.source == "USL")
    flat = MeasuredCurve(one.source, one.cores, np.ones(one.cores.size))
    off, _, _ = learned_error(flat, 1000, np.random.default_rng(17))
    assert off < 0.05
    assert np.std(np.log(one.throughput)) > 0.5
