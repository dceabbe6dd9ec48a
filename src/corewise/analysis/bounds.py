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

import math

from corewise.model.system import JobClass, System, require_system

__all__ = ["lower_bound"]


def lower_bound(system: System) -> float:
    """Return a mean cost that no policy can undercut on a stable system."""
    require_system(system)
    system.require_stable()
    return max(_fixed_widths(system), _perfect_speedup(system))


def _fixed_widths(system: System) -> float:
    """Return the best dual bound; every price gives one, and they are concave in it."""
    from scipy.optimize import minimize_scalar

    def dual(price: float) -> float:
        bills = (
            job_class.work_rate * _least_bill(job_class, price, system.cores) for job_class in system.classes
        )
        return math.fsum(bills) - price * system.cores

    # Where cores are dear, jobs want what they use in full, and the bound falls with slope Σ ρ_i − c < 0.
    high = max(job_class.weight for job_class in system.classes) / system.cores
    while dual(2.0 * high) > dual(high):
        high *= 2.0
    top = minimize_scalar(
        lambda price: -dual(price),
        bounds=(0.0, 2.0 * high),
        method="bounded",
        options={"xatol": 1e-12 * high},
    )
    return max(dual(0.0), float(-top.fun))


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
        load = job_class.work_rate / system.cores
        residual += load / rate
        response = 1.0 / rate / (1.0 - busy) + residual / ((1.0 - busy) * (1.0 - busy - load))
        busy += load
        total += job_class.weight * load * rate * response
    return total
