"""The residual-work policy: for sizes that are not exponential, by the work that jobs have attained."""

from __future__ import annotations

from dataclasses import dataclass, replace

from corewise.analysis.tractability import Tractability
from corewise.model.sizes import Exponential
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, Policy, bind, checked_policy
from corewise.policies.residual import AttainedOrder, ResidualWork

__all__ = ["Residual"]


@dataclass(frozen=True)
class Residual:
    """Residual-work policy: where jobs outnumber cores, classes in the order of one over their residual work.

    Elsewhere the optimum for exponential sizes, or Whittle where that is out of reach. If all sizes are
    exponential it is that policy everywhere; otherwise it goes by the work that the jobs present have
    attained, and can be simulated only. The size laws are those of the system that it is bound to.

    Parameters
    ----------
    base : Policy or str, optional
        Another policy to use elsewhere.

    Examples
    --------
    >>> import corewise as cw
    >>> law = cw.sizes.Hyperexponential(cv2=4)
    >>> system = cw.System(2, [cw.JobClass(name, 0.8, 1.0, cw.Amdahl(0.5), sizes=law) for name in "ab"])
    >>> cw.simulate(system, cw.Residual(), departures=1000, rng=1).policy
    'residual'
    """

    base: Policy | str | None = None
    name: str = "residual"

    def require_fit(self, system: System) -> None:
        """Raise unless the policy to use elsewhere fits."""
        require_system(system)
        if self.base is not None:
            checked_policy(self.base, system)

    def on(self, system: System) -> BoundPolicy:
        """Return the policy for that system and its size laws."""
        self.require_fit(system)
        exponential = system.as_memoryless()
        base = self.base
        if base is None:
            base = "optimal" if exponential.load < 1.0 and Tractability.of(exponential).exact else "whittle"
        elsewhere = replace(bind(base, exponential), name=self.name)
        if all(type(job_class.sizes) is Exponential for job_class in system.classes):
            return elsewhere
        return replace(elsewhere, decision=AttainedOrder(elsewhere.decision, ResidualWork.of(system)))
