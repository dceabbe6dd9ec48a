r"""A made-up day on a GPU cluster: 64 GPUs on nodes of four, and six classes of training jobs by formula.

A job that holds z GPUs takes steps on a batch z times as large. One step takes 1 + o(z) times as long as on
one GPU, since GPUs have to agree on it,

    o(z) = within · 1{z > 1} + across · 1{k > 1} + nodes · (k − 1)^{3/2},    k = ⌈z/4⌉ nodes,

and is worth less than z steps: with the noise φ of its gradients by (φ + 1)/(φ + z) of that. So

    s(z) = z (φ + 1)/(φ + z)/(1 + o(z)).

It has a kink at every node, need not be concave, and falls beyond a peak. The noise grows while a model
trains, by a factor from each part of the work to the next (after 10, 30 and 60 % of it): late in its life a
job scales best.  Source of the form of efficiency: Qiao and others, *Pollux* (OSDI 2021), equation 7.

Mean sizes are between 72 s and 150 h on one GPU. The arrival rates are those of a whole day, in which jobs
come for eight hours: while they do, work arrives faster than it can be done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.job_class import JobClass
from corewise.model.sizes import Lognormal
from corewise.model.speedup import ByProgress, SpeedUp, WholeCoreTable
from corewise.model.system import System

__all__ = ["BUSY_SECONDS", "JOBS", "gpu_day"]

_GPUS, _NODE = 64, 4
_PAUSE = 30.0
_STARTS = (0.0, 0.1, 0.3, 0.6)
_HOUR = 3600.0

BUSY_SECONDS = 8.0 * _HOUR
"""For how long jobs come."""


class _Kind(NamedTuple):
    """Kind of training jobs: how many come, mean hours on one GPU, and the constants of their speeds."""

    jobs: int
    hours: float
    noise: float
    growth: float
    within: float
    across: float
    nodes: float


_KINDS = {
    "images": _Kind(60, 1.2, 3.0, 3.5, 0.12, 0.55, 0.010),
    "speech": _Kind(16, 5.0, 4.0, 2.2, 0.10, 0.25, 0.015),
    "language": _Kind(10, 6.0, 20.0, 1.5, 0.03, 0.12, 0.015),
    "detection": _Kind(5, 12.0, 2.0, 3.5, 0.15, 0.60, 0.010),
    "large-images": _Kind(3, 150.0, 8.0, 3.0, 0.06, 0.20, 0.010),
}

_SMALL, _SMALL_HOURS = 66, 0.02
"""Jobs on one GPU: how many come, and mean hours."""

JOBS = {"tabular": _SMALL, **{name: kind.jobs for name, kind in _KINDS.items()}}
"""The jobs of each class that come in a day."""


def gpu_day() -> System:
    """Return the system of the day, in seconds.

    Examples
    --------
    >>> from corewise.model.gpu_day import gpu_day
    >>> system = gpu_day()
    >>> system.names
    ['tabular', 'images', 'speech', 'language', 'detection', 'large-images']
    >>> system["images"].speedup.at(0.0).useful_cores, system["images"].speedup.at(1.0).useful_cores
    (4.0, 60.0)
    """
    small = _job_class("tabular", _SMALL, _SMALL_HOURS, WholeCoreTable([0, 1]))
    others = [_job_class(name, kind.jobs, kind.hours, _curve(kind)) for name, kind in _KINDS.items()]
    return System(_GPUS, [small, *others], unit="seconds")


def _job_class(name: str, jobs: int, hours: float, curve: SpeedUp) -> JobClass:
    return JobClass(
        name,
        jobs / (24.0 * _HOUR),
        1.0 / (hours * _HOUR),
        curve,
        sizes=Lognormal(0.2),
        resize_pause=_PAUSE,
    )


def _curve(kind: _Kind) -> SpeedUp:
    tables = [
        WholeCoreTable(_speeds(kind, kind.noise * kind.growth**part).tolist()) for part in range(len(_STARTS))
    ]
    return ByProgress(_STARTS, tables)


def _speeds(kind: _Kind, noise: float) -> Floats:
    """Return the speeds on 0, 1, …, 64 GPUs, to four decimals."""
    z = np.arange(1.0, _GPUS + 1.0)
    more = np.ceil(z / _NODE) - 1.0
    overhead = kind.within * (z > 1.0) + kind.across * (more > 0.0) + kind.nodes * more**1.5
    return np.append(0.0, np.round(z * (noise + 1.0) / (noise + z) / (1.0 + overhead), 4))
