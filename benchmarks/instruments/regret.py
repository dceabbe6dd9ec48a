"""A rival of the price rule: accumulate the regret of standing still, and move when it has paid for the move.

Cores follow the optimum for free moves, but all at once and only when Σ ∫ ω (s(wanted) − s(held)) dt since
the last move has reached what the moves would cost, Σ δ ω s(wanted) over the jobs that move. Jobs that come
start on cores that are free; if none is, all move at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from corewise.kit.arrays import Floats, Ints
from corewise.policies.moving._kernels import share_out

__all__ = ["accumulate_regret"]

_MOST = 2000


@njit(cache=True)
def accumulate_regret(  # noqa: PLR0912, PLR0915  # one loop, as a rival's needs no more
    rates: tuple[Floats, Floats, Floats],
    speeds: Floats,
    cores: Ints,
    worth: Floats,
    times: tuple[Floats, ...],
    sizes: tuple[Floats, ...],
) -> tuple[float, float]:
    """Return the mean number of jobs and the resizes per event on given jobs of two classes.

    `rates` are λ, μ and δ; `cores` and `worth` what each class holds and ω by counts, clamped to the box.
    """
    _, _, pauses = rates
    pool = speeds.shape[1] - 1
    most = np.array(cores.shape[1:]) - 1
    classes, held, left = np.zeros(_MOST, np.int64), np.zeros(_MOST, np.int64), np.zeros(_MOST)
    until, fresh = np.zeros(_MOST), np.zeros(_MOST, np.bool_)
    least, widest = np.ones(_MOST, np.int64), np.full(_MOST, pool)
    wanted = np.zeros(_MOST, np.int64)
    used, counts = np.zeros(2, np.int64), np.zeros(2, np.int64)
    n, now, area, regret, resizes, events = 0, 0.0, 0.0, 0.0, 0, 0
    rate = 0.0  # of regret
    last = min(times[0][-1], times[1][-1])
    while now < last and n < _MOST - 1:
        who, spent = -1, np.inf
        for j in range(n):
            if held[j] > 0:
                wait = max(until[j] - now, 0.0) + left[j] / speeds[classes[j], held[j]]
                if wait < spent:
                    who, spent = j, wait
        comes = -1
        for i in range(2):
            if used[i] < times[i].size and times[i][used[i]] - now < spent:
                comes, spent = i, times[i][used[i]] - now
        for j in range(n):
            if held[j] > 0:
                left[j] -= (spent - min(max(until[j] - now, 0.0), spent)) * speeds[classes[j], held[j]]
        area += n * spent
        regret += rate * spent
        now += spent
        events += 1
        if comes >= 0:
            classes[n], held[n], until[n], fresh[n] = comes, 0, 0.0, True
            left[n] = sizes[comes][used[comes]]
            used[comes] += 1
            counts[comes] += 1
            n += 1
        else:
            counts[classes[who]] -= 1
            for j in range(who, n - 1):
                classes[j], held[j], left[j] = classes[j + 1], held[j + 1], left[j + 1]
                until[j], fresh[j] = until[j + 1], fresh[j + 1]
            n -= 1
        a, b = min(counts[0], most[0]), min(counts[1], most[1])
        given = cores[:, a, b].copy()
        share_out(classes[:n], least[:n], widest[:n], given, pool, wanted[:n])
        free = pool - held[:n].sum()
        for j in range(n):  # whoever never ran starts on what is free
            if held[j] == 0 and fresh[j] and wanted[j] > 0 and free > 0:
                held[j] = min(wanted[j], free)
                free -= held[j]
                fresh[j] = False
        price, rate, starved = 0.0, 0.0, False
        for j in range(n):
            i = classes[j]
            value = worth[i, a, b]
            rate += value * (speeds[i, wanted[j]] - speeds[i, held[j]])
            if wanted[j] != held[j] and not fresh[j]:
                price += pauses[i] * value * speeds[i, wanted[j]]
            starved = starved or (held[j] == 0 and wanted[j] > 0)
        if regret + rate * 1e-12 >= price or starved:
            for j in range(n):
                if wanted[j] != held[j]:
                    if not fresh[j]:
                        resizes += 1
                        until[j] = now + pauses[classes[j]]
                    held[j] = wanted[j]
                    fresh[j] = fresh[j] and held[j] == 0
            regret, rate = 0.0, 0.0
    return area / now, resizes / max(events, 1)
