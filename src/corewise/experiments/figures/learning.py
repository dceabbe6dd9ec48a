"""Learning as it goes on: estimates, their errors, and the gap to the optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.experiments.studies.learning import LearningStudy
from corewise.kit import checks
from corewise.plots.lines import (
    DASHES,
    Gaps,
    Marks,
    add_legend,
    band_look,
    class_line,
    class_marks,
    dots,
    draw_band,
    draw_gaps,
    draw_truth,
    inner_band,
    limits,
    patch,
    stroke,
    thinned,
    truth_mark,
)
from corewise.plots.style import (
    class_colour,
    escaped,
    legend_below,
    new_figure,
    panel_grid,
    require_few_classes,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["comparison_figure", "error_figure", "gap_figure", "names_of", "run_of", "trajectory_figure"]

_MARKERS = "osD^vP"
_ROUNDING = 1e-8  # in per cent
_DEPARTURES = "departures so far, all classes"
_GAP = "gap to the optimum (%)"


def trajectory_figure(study: LearningStudy, *, run: int = 0, title: str | None = None) -> Figure:
    """Draw the estimates of one run against the epoch, with the truth and a band of two standard deviations.

    Parameters
    ----------
    study : LearningStudy
        Runs of one algorithm.
    run : int, optional
        Which of them, from 0.
    title : str, optional
        Printed above the axes.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    The band is the true value ± 2 Cramér-Rao standard deviations of the data that the epoch's estimate rests
    on, as far as it lies in [0, 1]: about 95 % of the estimates are inside. Without bounds there is none. Its
    widest tenth, the beginning, may leave the axes.
    Paper: figures 4, 5, 7 and 8, part (a).
    """
    at = run_of(study, run)
    k = np.arange(1.0, study.departures.size + 1.0)
    estimates, truths = study.estimates[at], study.truths[at]
    least, most = min(0.0, float(truths.min())), max(1.0, float(truths.max()))
    low, high = (np.clip(truths + side * study.bounds, least, most) for side in (-2.0, 2.0))
    with new_figure(6.0, 3.4, title) as figure:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        for i in range(len(study.names)):
            draw_band(axes, k, (low[i], high[i]), band_look(class_colour(i), bands=len(study.names)))
            axes.plot(k, estimates[i], linewidth=0.9, zorder=3, **class_line(i), **dots(k.size))
            draw_truth(axes, i, k, truths[i], "steps-mid")
        axes.set_xlim(*limits([k]))
        inner = [edge for band in zip(low, high, strict=True) for edge in inner_band(*band)]
        axes.set_ylim(*limits([estimates, truths, *inner]))
        axes.xaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], integer=True))
        axes.set_xlabel("epoch, $k$")
        axes.set_ylabel(r"estimated parameter, $\hat{p}_{i,k}$")
        marks = class_marks(enumerate(study.names))
        marks.append(truth_mark())
        if np.isfinite(study.bounds).any():
            marks.append(("true value ± 2 Cramér–Rao sd", patch()))
        add_legend(figure, marks)
    return figure


def error_figure(studies: Mapping[str, LearningStudy], *, title: str | None = None) -> Figure:
    """Draw the error of the estimates over all runs against departures, and the Cramér-Rao bound on it.

    Parameters
    ----------
    studies : mapping
        Studies of the same classes, by what to call each; every one has its own dashes.
    title : str, optional
        Printed above the panels.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    The band is two standard errors of the logarithm of a root mean square, 1/√(2n) each for n normal errors;
    those of the second study and of later ones are hatched.
    Of many epochs those are drawn that lie evenly on the log scale.
    """
    names = names_of(studies)
    with panel_grid(len(names), _DEPARTURES, "root mean square error", title) as (figure, panels):
        for i, (axes, name) in enumerate(zip(panels, names, strict=True)):
            for j, (study, dashes) in enumerate(zip(studies.values(), DASHES, strict=False)):
                kept = thinned(study.departures)
                at, error, bound = study.departures[kept], study.errors[i, kept], study.bounds[i, kept]
                spread = math.exp(2.0 / math.sqrt(2.0 * study.times.shape[0]))
                look: dict[str, Any] = {"color": class_colour(i), "linestyle": dashes}
                draw_band(axes, at, (error / spread, error * spread), band_look(class_colour(i), j))
                axes.plot(at, error, linewidth=1.2, **look, **dots(at.size))
                axes.plot(at, bound, linewidth=0.6, **{**look, "color": "black"})
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title(f"class {escaped(shortened(name))}", fontsize=9, color=class_colour(i))
        marks: Marks = [
            (
                escaped(shortened(name, 40)),
                (patch(**band_look("0.35", j)), stroke(color="0.35", linestyle=dashes, linewidth=1.2)),
            )
            for j, (name, dashes) in enumerate(zip(studies, DASHES, strict=False))
        ]
        marks.append(("± 2 standard errors", patch()))
        if any(np.isfinite(study.bounds).any() for study in studies.values()):
            marks.append(("Cramér–Rao bound, in the same dashes", stroke(color="black", linewidth=0.6)))
        add_legend(figure, marks)
    return figure


def gap_figure(
    studies: Mapping[str, LearningStudy],
    *,
    baseline: Mapping[str, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw how much more the policy that was learned costs than the best one, against departures.

    Parameters
    ----------
    studies : mapping
        Studies with gaps, by what to call each.
    baseline : mapping, optional
        Gaps J/J* − 1 of other policies, such as EQUI, as horizontal lines.
    title : str, optional
        Printed above the axes.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    Lines are medians over the runs, bands go from the 10 % to the 90 % point. Gaps below 1e-8 %, which are
    rounding, are drawn there; those of policies that cannot keep up are infinite, and lie at the upper edge.
    Of many epochs those are drawn that lie evenly on the log scale.
    """
    names_of(studies)
    series = {}
    for name, study in studies.items():
        known = np.flatnonzero(~np.isnan(study.gaps).all(axis=0))
        kept = known[thinned(study.departures[known])]
        series[name] = Gaps(study.departures[kept], study.gaps[:, kept])
    with new_figure(5.0, 3.6, title) as figure:
        axes = figure.add_subplot()
        marks = draw_gaps(axes, series, baseline)
        axes.set_xscale("log")
        axes.set_xlabel(_DEPARTURES)
        axes.set_ylabel(_GAP)
        add_legend(figure, marks)
    return figure


def run_of(study: LearningStudy, run: int) -> int:
    """Return which run, if the study has it."""
    _require_study(study)
    at, runs = checks.whole(run, "run", least=0), study.times.shape[0]
    if at >= runs:
        raise InvalidInput(f"there is no run {at}: the study has {runs}, and the first is 0")
    return at


def _require_study(study: LearningStudy) -> None:
    """Raise `InvalidInput` unless it is a study, of classes that a figure can hold."""
    if not isinstance(study, LearningStudy):
        raise InvalidInput(f"expected what learning_study returns, got {study!r}")
    require_few_classes(study.names)


def names_of(studies: Mapping[str, LearningStudy]) -> tuple[str, ...]:
    """Return the classes of the studies, which must be the same for all of them."""
    if not isinstance(studies, Mapping) or not studies:
        raise InvalidInput(f"expected studies by their names, at least one, got {studies!r}")
    if len(studies) > len(DASHES):
        raise InvalidInput(f"a figure shows at most {len(DASHES)} studies, got {len(studies)}")
    first, one = next(iter(studies.items()))
    for name, study in studies.items():
        _require_study(study)
        if study.names != one.names:
            raise InvalidInput(
                f"{name!r} is of classes {', '.join(study.names)}; {first!r} of {', '.join(one.names)}"
            )
    return one.names


def comparison_figure(gaps: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw the gap to the optimum, in per cent on a log scale, of several policies in several cases.

    Parameters
    ----------
    gaps : mapping
        J/J* − 1 by policy, for each case; infinite where a policy is unstable, which is drawn at the upper
        edge.

    Returns
    -------
    matplotlib.figure.Figure
    """
    cases = list(gaps)
    policies = list(next(iter(gaps.values()), {}))
    if not policies or any(list(row) != policies for row in gaps.values()):
        raise InvalidInput("every case needs the gaps of the same policies, at least one")
    if len(policies) > len(_MARKERS):
        raise InvalidInput(f"a figure shows at most {len(_MARKERS)} policies, got {len(policies)}")
    percent = 100.0 * np.array([[gaps[case][policy] for policy in policies] for case in cases])
    finite = np.maximum(percent[np.isfinite(percent)], _ROUNDING)
    top = 10.0 ** (math.ceil(math.log10(finite.max(initial=1.0))) + 0.3)
    with new_figure(5.6, 3.6) as figure:
        axes = figure.add_subplot()
        for j, policy in enumerate(policies):
            shown = np.where(np.isfinite(percent[:, j]), np.maximum(percent[:, j], _ROUNDING), top)
            at = np.arange(len(cases)) + 0.12 * (j - 0.5 * (len(policies) - 1))
            look: dict[str, Any] = {"color": class_colour(j), "markersize": 5, "label": escaped(policy)}
            axes.plot(at, shown, _MARKERS[j], clip_on=False, **look)
        axes.set_yscale("log")
        axes.set_ylim(10.0 ** math.floor(math.log10(finite.min(initial=1.0))), top)
        axes.set_xlim(-0.5, len(cases) - 0.5)
        axes.set_xticks(range(len(cases)), [escaped(case) for case in cases])
        axes.grid(axis="y", color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_ylabel("mean jobs above the optimum (%)")
        if np.isinf(percent).any():
            axes.set_xlabel("marks on the upper edge: cannot keep up")
        legend_below(figure, zip(map(escaped, policies), axes.lines, strict=True), columns=3)
    return figure
