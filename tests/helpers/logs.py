"""Small systems, and what was seen of them."""

from __future__ import annotations

import corewise as cw


def three_classes() -> cw.System:
    return cw.System(
        16,
        [
            cw.JobClass("batch", 3.0, 1.0, cw.Usl(0.05, 0.002)),
            cw.JobClass("web", 6.0, 2.0, cw.Tabulated([(1, 1), (4, 3.2), (16, 7)])),
            cw.JobClass("legacy", 2.0, 1.0, cw.Amdahl(0.4)),
        ],
    )


def recorded(system: cw.System, departures: int = 1000, seed: int = 3) -> cw.SamplePath:
    path = cw.simulate(system, cw.Equi(), departures=departures, rng=seed, record=True).path
    assert path is not None
    return path


def estimated(
    system: cw.System, departures: int = 2000, seed: int = 3, family: str | None = None
) -> tuple[cw.Statistics, cw.results.Estimates]:
    statistics = cw.simulate(system, cw.Equi(), departures=departures, rng=seed).statistics
    return statistics, cw.estimate(statistics, system, family=family)
