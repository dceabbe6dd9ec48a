r"""Value function approximation: linear in its coefficients, and quick to take differences of.

With n_i jobs of class i, N = Σ n_i,

    V(n) = Σ_i Σ_f (a_if + b_if N) S_f(n_i)
         + Σ_b B_b(N) (α_b + Σ_i β_bi n_i)
         + Σ_a (Σ_i g_ai n_i) (Σ_i m_ai n_i),

where each S_f and B_b is a function of one number: n, n/(n + a), 1/(n + a), √n, log(1 + n), 1{n = 0},
(n − a)₊ or (n − a)₊². All differences V(n) − V(n − e_i) together cost one pass over the classes for every f,
b and a: B_b changes alike whichever job leaves, and a linear form by a constant. So does the drift

    (QV)(n) = Σ_i λ_i (V(n + e_i) − V(n)) − Σ_i δ_i(n) (V(n) − V(n − e_i)),

exactly. Its mean in the long run is zero whatever the coefficients, so Σ h_i n_i + (QV)(n) has the mean of
the cost, and far less variance where V is near the value function of the policy: a control variate.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats, Ints
from corewise.model.rates import departure_rates
from corewise.model.system import System
from corewise.policies.fitted import _kernels

__all__ = ["FittedValues", "functions_at"]


@dataclass(frozen=True, eq=False)
class FittedValues:
    """Fitted value function: the coefficients of V, as arrays for the kernels that cannot be written to.

    Attributes
    ----------
    shapes : ndarray, shape (F, 2)
        The kind of each function of a single count, and its scale a.
    own : ndarray, shape (2, K, F)
        Their coefficients a, and b.
    functions : ndarray, shape (B, 3)
        The kind of each function of N, its scale a, and α.
    slopes : ndarray, shape (B, K)
        β.
    products : ndarray, shape (A, 2, K)
        g and m.
    """

    shapes: Floats
    own: Floats
    functions: Floats
    slopes: Floats
    products: Floats

    def __post_init__(self) -> None:
        for field in fields(self):
            array = np.array(getattr(self, field.name), dtype=np.float64, order="C")
            if not np.all(np.isfinite(array)):
                raise InvalidInput(f"{field.name} of a value function must be finite, got {array}")
            array.setflags(write=False)
            object.__setattr__(self, field.name, array)

    def __reduce__(self) -> tuple[type[FittedValues], tuple[Floats, ...]]:
        """Return what to send to another process, where the arrays are made read-only again."""
        return FittedValues, tuple(self.arrays)

    @property
    def arrays(self) -> _kernels.ValueArrays:
        """The arrays as kernels take them."""
        return _kernels.ValueArrays(self.shapes, self.own, self.functions, self.slopes, self.products)

    def at(self, counts: Ints) -> Floats:
        """Return V for counts of shape (K, states)."""
        n = counts.astype(np.float64)
        whole = functions_at(self.functions, n.sum(axis=0))
        factors, forms = self.functions[:, 2:] + self.slopes @ n, self.products @ n
        values = (whole * factors).sum(axis=0) + (forms[:, 0] * forms[:, 1]).sum(axis=0)
        for alone, with_all, jobs in zip(*self.own, n, strict=True):
            each = functions_at(self.shapes, jobs)
            values += alone @ each + n.sum(axis=0) * (with_all @ each)
        return np.asarray(values)

    def drift(self, system: System, counts: Ints, cores: Floats) -> Floats:
        """Return (QV)(n) for counts of jobs and cores they hold, both of shape (K, states)."""
        leaving = departure_rates(system, counts.astype(np.float64), cores)
        drifts = np.empty(counts.shape[1])
        _kernels.fitted_drifts(
            np.ascontiguousarray(counts), leaving, system.arrival_rates, self.arrays, drifts
        )
        return drifts


def functions_at(functions: Floats, jobs: Floats) -> Floats:
    """Return the value of each function, rows (kind, scale, …), for each number of jobs."""
    rows = np.empty((len(functions), jobs.size))
    _kernels.functions_of(functions, np.ascontiguousarray(jobs), rows)
    return rows
