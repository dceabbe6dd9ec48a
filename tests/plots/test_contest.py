"""The figure of a contest shows what was learned, the gain so far, and response times."""

from __future__ import annotations

import numpy as np

from corewise.plots.contest import Contest, contest_figure

SECONDS = np.linspace(0.25, 10.0, 40)


def contest(began: float | None = 4.0) -> Contest:
    known = np.where(SECONDS < 2.0, np.nan, 0.3)
    estimates = np.column_stack([known, known - 0.1, known + 0.1])
    return Contest(
        SECONDS,
        {"etl $1": estimates, "b": 2.0 * estimates},
        {"etl $1": 0.3, "b": 0.6},
        {
            name: np.where(SECONDS < 1.0, np.nan, gain)
            for name, gain in (("etl $1", -0.1), ("b", 0.2), ("all", 0.1))
        },
        {"etl $1": (0.1, 0.11), "b": (0.5, 0.4), "all": (0.3, 0.27)},
        began,
    )


def test_every_panel_shows_its_numbers() -> None:
    figure = contest_figure(contest(), "what $ it is")
    learned, gained, times = figure.axes
    lines = [np.asarray(line.get_ydata(), dtype=float) for line in learned.lines]
    assert any(np.array_equal(line, contest().estimates["b"][:, 0], equal_nan=True) for line in lines)
    assert {0.3, 0.6} <= {float(line[0]) for line in lines if len(line) == 2}
    assert [text.get_text() for text in times.texts if text.get_text().startswith("0.")] == [
        "0.100",
        "0.110",
        "0.500",
        "0.400",
        "0.300",
        "0.270",
    ]
    low, high = gained.get_ylim()
    assert low < -0.1
    assert 0.2 < high < 0.5
    assert learned.get_xlim() == gained.get_xlim() == (0.0, 10.0)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [r"etl \$1", "b", "all", "truth"]
    figure.draw_without_rendering()


def test_without_steering_there_is_no_mark_for_it() -> None:
    with_it, without = (len(contest_figure(contest(began)).axes[0].lines) for began in (4.0, None))
    assert with_it == without + 1
