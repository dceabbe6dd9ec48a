"""The jobs of the made-up day on a GPU cluster, see `corewise.model.gpu_day`."""

from __future__ import annotations

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.gpu_day import BUSY_SECONDS, JOBS, gpu_day

__all__ = ["gpu_day_columns"]


def gpu_day_columns(rng: np.random.Generator) -> tuple[Floats, list[str], Floats]:
    """Return when jobs come, their classes and sizes: as many of each class every day.

    Times are independent within the busy hours.
    """
    classes = gpu_day().classes
    names = [known.name for known in classes for _ in range(JOBS[known.name])]
    sizes = [known.sizes.draw(rng, JOBS[known.name]) / known.known_size_rate for known in classes]
    times = np.sort(rng.uniform(0.0, BUSY_SECONDS, len(names)))
    order = rng.permutation(len(names))
    return np.round(times, 1), [names[k] for k in order], np.round(np.concatenate(sizes)[order], 1)
