"""Learning studies without the learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corewise.experiments.studies.learning import LearningStudy


def study(
    runs: int = 3, epochs: int = 6, names: Sequence[str] = ("one", "two"), seed: int = 1, **changed: Any
) -> LearningStudy:
    """Return a study whose estimates scatter about 0.3 and 0.8 as their bounds say."""
    rng = np.random.default_rng(seed)
    count, shape = len(names), (runs, len(names), epochs)
    truths = np.broadcast_to(np.resize([0.3, 0.8], count)[:, None], shape).copy()
    windows = np.full(epochs, 100)
    departures = np.cumsum(windows)
    bounds = np.resize([2.0, 0.5], count)[:, None] / np.sqrt(departures)
    gaps = 10.0 ** rng.uniform(-5.0, -2.0, (runs, epochs))
    made = LearningStudy(
        algorithm="1b",
        names=tuple(names),
        windows=windows,
        departures=departures,
        times=np.cumsum(rng.gamma(100.0, 0.5, (runs, epochs)), axis=1),
        estimates=np.clip(truths + bounds * rng.normal(size=shape), 0.0, 1.0),
        truths=truths,
        bounds=bounds,
        mean_jobs=1.0 + gaps,
        gaps=gaps,
    )
    return replace(made, **changed)


def drifting(runs: int = 2, epochs: int = 300) -> LearningStudy:
    return study(runs, epochs, times=np.tile(np.linspace(1e4, 3e6, epochs), (runs, 1)))
