r"""Fisher information: about the curves, of a stretch of observation.

Departures of class i form a point process with intensity n_i μ_i s_i(z_i; θ_i). Observed over a time T in
steady state, the Fisher information on θ_i is T times

    I_i = Σ_n π(n) n_i μ_i  (∂s_i/∂θ)(∂s_i/∂θ)' / s_i,      at z_i = x_i(n)/n_i,

and zero across classes: their estimates are asymptotically independent. No unbiased estimator has a smaller
covariance than the inverse of the information (Cramér-Rao), and maximum likelihood attains it as T grows.
Jobs at one core or less have no information. This is what the paper calls quasi-identifiability.

Paper: equation (3.5); section 5.1, below Algorithm 1a.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from corewise.analysis.performance import stationary_chain
from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Report, Reported, Table
from corewise.kit.values import ByValue
from corewise.model.system import System, require_system
from corewise.policies.base import Policy, bind

__all__ = ["Information", "fisher_information"]


@dataclass(frozen=True, eq=False, repr=False)
class Information(ByValue, Reported):
    """Fisher information on one class's curve under a policy, and the Cramér-Rao bound.

    Attributes
    ----------
    name : str
        The class.
    parameters : tuple of str
        The parameters of its curve, in the order of rows and columns.
    per_time : ndarray
        Information per unit of time.
    per_departure : ndarray
        Information per departure of this class.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> information = cw.fisher_information(system, cw.Equi())["two"]
    >>> information.parameters
    ('p',)
    >>> round(information.per_departure.item(), 3)
    15.49
    >>> {name: round(value, 4) for name, value in information.stderr(1_000).items()}
    {'p': 0.008}
    """

    _repr_fields = ("name", "parameters")

    name: str
    parameters: tuple[str, ...]
    per_time: Floats
    per_departure: Floats

    def covariance(self, departures: float) -> Floats:
        """Return the Cramér-Rao bound on the covariance after that many departures of this class."""
        count = checks.positive(departures, "departures")
        if not self.parameters:
            return np.zeros((0, 0))
        if np.linalg.matrix_rank(self.per_departure, hermitian=True) < len(self.parameters):
            raise InvalidInput(
                f"class {self.name!r}: {', '.join(self.parameters)} cannot be identified under this policy "
                f"(its jobs never hold enough cores)"
            )
        return np.asarray(np.linalg.inv(count * self.per_departure))

    def stderr(self, departures: float) -> dict[str, float]:
        """Return the smallest standard deviation an unbiased estimate can have, by parameter."""
        deviations = np.sqrt(np.diag(self.covariance(departures)))
        return dict(zip(self.parameters, deviations.tolist(), strict=True))

    def report(self) -> Report:
        """Return the information on each parameter, per unit of time and per departure."""
        rows = [tuple(row.values()) for row in self._content()]
        header = ("parameter", "per unit of time", "per departure")
        return Report(f"Fisher information on the curve of class {self.name}", tables=[Table(header, rows)])

    def _content(self) -> list[dict[str, object]]:
        columns = (np.diag(self.per_time).tolist(), np.diag(self.per_departure).tolist())
        header = ("parameter", "per_unit_of_time", "per_departure")
        return [dict(zip(header, row, strict=True)) for row in zip(self.parameters, *columns, strict=True)]


def fisher_information(
    system: System, policy: Policy | str, *, capacity: int | Iterable[int] | None = None
) -> Mapping[str, Information]:
    """Return the exact Fisher information on each class's curve under `policy`, by class name.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> information = cw.fisher_information(system, cw.Equi())
    >>> {name: round(value, 4) for name, value in information["two"].stderr(1_000).items()}
    {'p': 0.008}
    """
    require_system(system)
    system.require_memoryless("fisher_information")
    bound = bind(policy, system)
    chain = stationary_chain(system, bound, capacity)
    cores, counts = chain.cores, chain.space.counts
    table = {}
    for i, job_class in enumerate(system.classes):
        width = cores[i] / np.maximum(counts[i], 1)
        wide = np.flatnonzero((counts[i] > 0) & (width > 1.0))
        gradient = job_class.curve.gradient(width[wide])
        speed = job_class.curve.rate(width[wide])
        weight = chain.distribution[wide] * counts[i, wide] * job_class.size_rate / speed
        per_time = np.einsum("s,si,sj->ij", weight, gradient, gradient)
        throughput = float(chain.distribution @ chain.rates[i])
        table[job_class.name] = Information(
            job_class.name, tuple(job_class.speedup.parameters), per_time, per_time / throughput
        )
    return FrozenMapping(table)
