"""Every figure of classes with awkward names, by how many of them there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import corewise as cw
from corewise.experiments.figures.learning import error_figure, gap_figure, trajectory_figure
from corewise.experiments.figures.tracking import changes_figure, tracking_figure
from corewise.experiments.studies.learning import LearningStudy
from corewise.plots.curves import speedup_figure
from corewise.plots.epochs import learn_figure
from corewise.plots.estimates import estimate_figure
from corewise.plots.path import path_figure
from corewise.plots.policy import policy_heatmap, policy_heatmaps
from corewise.plots.residuals import residual_figure
from tests.helpers.epochs import row
from tests.helpers.logs import estimated, recorded
from tests.helpers.studies import study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = ["costs $5 or $6 each", "x" * 80, "a_b^c", "short", "five", *(f"class {i}" for i in range(19))]
_TITLES = ["Algorithm 1a: the latest window only, of $100", "y" * 80]


def _system(classes: int) -> cw.System:
    return cw.System(12, [cw.JobClass(name, 0.2, 1.0, cw.Amdahl(0.6)) for name in _NAMES[:classes]])


def _busy(classes: int) -> cw.System:
    return cw.System(12, [cw.JobClass(name, 0.5, 1.0, cw.Amdahl(0.6)) for name in _NAMES[:classes]])


def _studies(classes: int) -> dict[str, LearningStudy]:
    return {title: study(names=_NAMES[:classes], epochs=50, seed=i) for i, title in enumerate(_TITLES)}


def _path(classes: int) -> Figure:
    return path_figure(recorded(_busy(classes), departures=200))


def _estimates(classes: int) -> Figure:
    system = _busy(classes)
    statistics, estimates = estimated(system, 400)
    return estimate_figure(statistics, system, estimates, truth=system)


def _residuals(classes: int) -> Figure:
    system = _busy(classes)
    return residual_figure(cw.goodness_of_fit(recorded(system, departures=200), system))


def _epochs(classes: int) -> Figure:
    system = _system(classes)
    found: dict[str, dict[str, Any]] = {name: {"p": (0.6, 0.5, 0.7)} for name in system.names}
    rows = [row(k, 100 * k, found, gap=0.01 / k) for k in range(1, 20)]
    return learn_figure(rows, system, truth=system, title="A title")


def _heat(policies: int) -> Figure:
    if policies == 0:
        return policy_heatmap(cw.Equi(), _system(2), title="A title")
    shown = dict(zip([*_TITLES, *_NAMES], [cw.Equi()] * min(policies, 6), strict=False))
    return policy_heatmaps(shown, _system(2), title="A title")


def _curves(families: int) -> Figure:
    laws = {name: [cw.Amdahl(p) for p in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)] for name in _NAMES[:families]}
    return speedup_figure(laws, cores=30, title="A title")


def _trajectory(classes: int) -> Figure:
    return trajectory_figure(_studies(classes)[_TITLES[0]], title="A title")


def _errors(classes: int) -> Figure:
    return error_figure(_studies(classes), title="A title")


def _gaps(classes: int) -> Figure:
    studies = _studies(classes)
    studies[_TITLES[0]].gaps[:, :5] = np.inf
    studies[_TITLES[1]].gaps[:, 5:] = 0.0
    return gap_figure(studies, baseline={"EQUI": 0.012, "z" * 80: 0.5}, title="A title")


def _tracking(classes: int) -> Figure:
    return tracking_figure(_studies(classes), _system(classes), title="A title")


def _changes(classes: int) -> Figure:
    system = _system(classes)
    changes = [cw.Change(10.0 * (k + 1), system.names[k % classes], cw.Amdahl(0.5)) for k in range(5)]
    changing = cw.System(12, system.classes, changes)
    return changes_figure(_studies(classes), changing, span=(20.0, 100.0), title="A title")


Gallery = Mapping[str, tuple[Callable[[int], "Figure"], tuple[int, ...]]]
"""How to draw a figure, and for which numbers of classes (or of panels)."""

PLOTS: Gallery = {
    "path": (_path, (1, 2, 3, 5)),
    "estimates": (_estimates, (1, 2, 3, 5)),
    "residuals": (_residuals, (1, 2, 3, 5)),
    "epochs": (_epochs, (1, 2, 5, 24)),
    "heat": (_heat, (0, 1, 2, 5)),
    "curves": (_curves, (1, 2, 5)),
}

RESEARCH: Gallery = {
    "trajectory": (_trajectory, (1, 2, 5, 24)),
    "errors": (_errors, (1, 2, 5)),
    "gaps": (_gaps, (1, 2, 5)),
    "tracking": (_tracking, (1, 2, 5, 24)),
    "changes": (_changes, (1, 2, 5)),
}


def cases(gallery: Gallery) -> list[tuple[str, int]]:
    """Return every figure with every number."""
    return [(name, count) for name, (_, counts) in gallery.items() for count in counts]
