r"""Lower bounds: no policy has a smaller mean cost.

*Fixed widths* (Li, Berg, Mukhopadhyay, Harchol-Balter 2024). Were cores bought by the hour, each job of
class i would run at the width k that minimises its own bill. For any price ℓ ≥ 0

    J ≥ Σ_i ρ_i min_k (h_i + ℓ k) / s_i(k) − ℓ c,      ρ_i = λ_i/μ_i,  1 ≤ k ≤ c,

the Lagrangian dual of the best fixed widths within c cores on average. It ignores queueing.

*Perfect speed-up.* If every job could use all cores at full efficiency, the pool would be one server of
speed c, and preemptive priority in order of h_i μ_i would be optimal (the cμ rule); its cost is closed. It
ignores curves.

`lower_bound` is the larger of the two.
"""

from __future__ import annotations

import numpy as np

from corewise.model.speedup import Array
from corewise.model.system import JobClass, System, require_system

__all__ = ["lower_bound"]

_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


def lower_bound(system: System) -> float:
    """Return a mean cost that no policy can undercut on a stable system."""
    require_system(system)
    system.require_stable()
    return max(_fixed_widths(system), _perfect_speedup(system))


def _fixed_widths(system: System) -> float:
    """Return the best dual bound: it is concave in the price, so a golden-section search finds its top."""

    def dual(price: float) -> float:
        bills = [
            job_class.work_rate * _least_bill(job_class, price, system.cores) for job_class in system.classes
        ]
        return float(np.sum(bills) - price * system.cores)

    # Above this price every job wants one core only, and the bound falls with slope Σ ρ_i − c < 0.
    top = max(
        job_class.weight * float(_index(job_class, np.array(1.0), system.cores))
        for job_class in system.classes
    )
    low, high = 0.0, min(top, 1e12)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = dual(left), dual(right)
    best = max(dual(0.0), dual(high), at_left, at_right)
    for _ in range(80):
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = dual(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = dual(right)
        best = max(best, at_left, at_right)
    return best


def _index(job_class: JobClass, width: Array, cores: float) -> Array:
    """Return s' / (s − z s'), infinite where s(z) = z."""
    speed, slope = job_class.speedup.rate(width), job_class.speedup.slope(width)
    lag = np.maximum(speed - width * slope, 0.0)
    return np.where(lag > 1e-12 * speed, slope / np.maximum(lag, 1e-300), cores * 1e12)


def _least_bill(job_class: JobClass, price: float, cores: float) -> float:
    """Return min over 1 ≤ k ≤ max(c, 1) of (h + ℓ k) / s(k): it falls, then rises, so bisect its slope."""
    weight, curve = job_class.weight, job_class.speedup
    low, high = 1.0, max(cores, 1.0)
    for _ in range(100):
        middle = 0.5 * (low + high)
        speed, slope = float(curve.rate(middle)), float(curve.slope(middle))
        if price * speed < (weight + price * middle) * slope:
            low = middle
        else:
            high = middle
    return min(float((weight + price * k) / curve.rate(k)) for k in (low, high))


def _perfect_speedup(system: System) -> float:
    """Return the cost of the cμ rule on one server of speed c: M/M/1 with preemptive priorities."""
    order = sorted(system.classes, key=lambda job_class: -job_class.weight * job_class.size_rate)
    total, busy, residual = 0.0, 0.0, 0.0
    for job_class in order:
        rate = system.cores * job_class.size_rate
        load = job_class.arrival_rate / rate
        residual += load / rate
        response = 1.0 / rate / (1.0 - busy) + residual / ((1.0 - busy) * (1.0 - busy - load))
        busy += load
        total += job_class.weight * job_class.arrival_rate * response
    return total
