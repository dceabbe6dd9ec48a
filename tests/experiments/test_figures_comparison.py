"""The figure of what policies cost above the optimum."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import corewise as cw
from corewise.experiments.figures.learning import comparison_figure

pytestmark = pytest.mark.slow

GAPS = {
    "load 0.5": {"EQUI": 0.05, "learned $": 0.0001, "rounding": 0.0},
    "load 0.8": {"EQUI": 0.1, "learned $": 0.0002, "rounding": math.inf},
}


def test_every_gap_is_drawn_in_per_cent() -> None:
    (axes,) = comparison_figure(GAPS).axes
    drawn = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes.lines}
    assert list(drawn) == ["EQUI", r"learned \$", "rounding"]
    assert drawn["EQUI"] == pytest.approx([5.0, 10.0])
    assert drawn[r"learned \$"] == pytest.approx([0.01, 0.02])
    low, high = axes.get_ylim()
    assert drawn["rounding"] == pytest.approx([1e-8, high])  # rounding at the floor, unstable at the top
    assert low <= 1e-8
    assert axes.get_yscale() == "log"
    assert "%" in axes.get_ylabel()
    assert "cannot keep up" in axes.get_xlabel()
    assert [text.get_text() for text in axes.get_xticklabels()] == list(GAPS)
    for line in axes.lines:
        assert np.abs(np.asarray(line.get_xdata()) - [0, 1]).max() < 0.5


@pytest.mark.parametrize(
    ("gaps", "words"),
    [
        ({}, "the gaps of the same policies"),
        ({"a": {}}, "the gaps of the same policies"),
        ({"a": {"x": 0.1}, "b": {"y": 0.1}}, "the gaps of the same policies"),
        ({"a": {str(i): 0.1 for i in range(7)}}, "at most 6 policies, got 7"),
    ],
)
def test_bad_input(gaps: dict[str, dict[str, float]], words: str) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=re.escape(words)):
        comparison_figure(gaps)
