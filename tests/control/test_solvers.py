"""When a solver gives up: only if its bounds no longer close."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import corewise as cw
from corewise.control.solvers import _Stall


def seen(span: float, gap: float = 0.0) -> Any:
    return SimpleNamespace(span=span, gap=gap)


def test_slow_but_steady_is_not_a_stall() -> None:
    """Bounds that close by a ten-thousandth a round never let patience run out."""
    watch = _Stall("patient", patience=60)
    for k in range(5000):
        watch(seen(0.9999**k))


@pytest.mark.parametrize("spans", [[1.0] * 61, [1.0, 2.0] * 31], ids=["constant", "cycle"])
def test_bounds_that_do_not_close_are_a_stall(spans: list[float]) -> None:
    watch = _Stall("stuck", patience=60)
    for span in spans[:60]:
        watch(seen(span))
    with pytest.raises(cw.errors.NotConverged, match=r"stuck ended after 61 rounds with bounds 1 apart"):
        watch(seen(spans[60]))


def test_what_no_iteration_can_mend_ends_at_once() -> None:
    with pytest.raises(cw.errors.NotConverged, match="slope_above"):
        _Stall("any")(seen(1.0, gap=0.5))
    with pytest.raises(cw.errors.NotConverged):
        _Stall("any")(seen(float("nan")))
