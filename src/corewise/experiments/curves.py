"""Figure 1 of the paper: the two families of speed-up curves."""

from __future__ import annotations

from corewise.experiments.results import Block, Heading, Picture, Result, Setting, Table
from corewise.model.speedup import Amdahl, PowerLaw, SpeedUp
from corewise.plots.curves import speedup_figure
from corewise.plots.style import figure_bytes

__all__ = ["run_figure_1"]

_CORES = 10
_PARAMETERS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)


def run_figure_1(_: Setting) -> Result:
    """Draw Amdahl's law and the power law for several parameters."""
    families: dict[str, list[SpeedUp]] = {
        "(a) Amdahl's law": [Amdahl(p) for p in _PARAMETERS],
        "(b) power law": [PowerLaw(p) for p in _PARAMETERS],
    }
    widths = [0.25 * i for i in range(4 * _CORES + 1)]
    rows = [
        [curve.family, curve.parameters["p"], z, float(curve.rate(z))]
        for curves in families.values()
        for curve in curves
        for z in widths
    ]
    story: list[Block] = [
        Heading("What it shows"),
        """How fast a job runs on z cores, relative to one. Up to one core both families are linear,
        since nothing runs in parallel there. p = 0 gains nothing from more cores, p = 1 is perfect.
        Where p is small, curves of Amdahl's law lie close together, and data tell them apart less well;
        the examples say how much less.""",
        Picture(
            "curves",
            "Speed-up curves of both families.",
            figure_bytes(speedup_figure(families, cores=_CORES)),
        ),
        Table("curves", ("family", "p", "cores per job", "speed-up"), rows),
    ]
    numbers = {
        "cores": _CORES,
        "speedup_on_all_cores": {
            curves[0].family: {f"{curve.parameters['p']:g}": float(curve.rate(_CORES)) for curve in curves}
            for curves in families.values()
        },
    }
    headline = "speed-up curves of both families"
    return Result("figure-1", "Figure 1: speed-up curves", headline, numbers, story)
