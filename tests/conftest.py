"""What every test shares: a model of the naive twins as a system of the library."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import corewise as cw
from tests.helpers import naive
from tests.helpers.curves import bent


def _curve(curve: naive.Curve) -> cw.SpeedUp:
    a = curve.parameters
    match curve.family:
        case "amdahl":
            return cw.Amdahl(a[0])
        case "power":
            return cw.PowerLaw(a[0])
        case "gustafson":
            return cw.Gustafson(a[0])
        case "usl":
            return cw.Usl(a[0], a[1])
    return bent(*zip(a[::2], a[1::2], strict=True))


def _system(model: naive.Model) -> cw.System:
    classes = [
        cw.JobClass(name, arrival_rate=j.arrival, size_rate=j.size, speedup=_curve(j.curve), weight=j.weight)
        for name, j in zip(model.names, model.jobs, strict=True)
    ]
    return cw.System(cores=model.cores, classes=classes)


@pytest.fixture(scope="session")
def as_system() -> Callable[[naive.Model], cw.System]:
    return _system
