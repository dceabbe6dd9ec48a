r"""Size distributions: of the sizes of jobs, or of the times between arrivals.

A distribution here has mean one; a class scales it to its own mean, 1/size_rate. So it is a shape, and its
one number that people know it by is the squared coefficient of variation,

    cv² = Var X / (E X)²:    0 deterministic, 1 exponential, 4 to 100 in the queues of real clusters.

Every distribution gives draws, the survival function P(X > x), and the mean residual m(x) = E[X − x | X > x]:
what is still to be expected of a job that has attained x. Where X > x is impossible, m is zero.

Everything exact in corewise is for exponential sizes and exponential times between arrivals, which have no
memory: m(x) = 1 for every x. Simulation takes any distribution.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from corewise.errors import InvalidSystem
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.report import Summarised

__all__ = [
    "Deterministic",
    "Erlang",
    "Exponential",
    "Hyperexponential",
    "Lognormal",
    "Pareto",
    "SizeLaw",
    "Weibull",
    "attained_work",
]

_FAR = 600.0  # exponents of e up to which nothing underflows
_MOST_STAGES = 1000  # of which Erlang's distribution is deterministic to three per cent


@dataclass(frozen=True, repr=False)
class SizeLaw(Summarised, ABC):
    """Distribution of positive sizes with mean one: base class of all.

    Examples
    --------
    >>> import numpy as np
    >>> import corewise as cw
    >>> [law.cv2 for law in (cw.sizes.Deterministic(), cw.sizes.Erlang(2), cw.sizes.Exponential())]
    [0.0, 0.5, 1.0]
    >>> cw.sizes.Erlang(2).draw(np.random.default_rng(7), 3).round(3)
    array([0.834, 0.669, 0.573])
    """

    law: ClassVar[str] = ""

    if TYPE_CHECKING:  # at run time a property here would be taken for the default of a field of that name

        @property
        def cv2(self) -> float:
            """The squared coefficient of variation; infinite where the variance is."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return independent draws."""

    @abstractmethod
    def survival(self, x: ArrayLike) -> Floats:
        """Return P(X > x) for x ≥ 0."""

    @abstractmethod
    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return E[X − x | X > x] for x ≥ 0, the mean residual work; zero where X > x is impossible."""

    @property
    def largest(self) -> float:
        """The largest size there is; infinite unless the law has one."""
        return math.inf

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters of the distribution by name, as in a system file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value is not None
        }

    def __str__(self) -> str:
        """Return the name of the distribution and its parameters."""
        values = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        return f"{self.law} ({values})" if values and len(values) < 40 else self.law

    def _summary(self) -> Mapping[str, object]:
        short = {name: value for name, value in self.parameters.items() if not isinstance(value, list)}
        return {**short, "cv2": self.cv2} if "cv2" not in short else short

    def _values(self) -> Mapping[str, object]:
        return {"law": self.law, **self.parameters}


@dataclass(frozen=True, repr=False)
class Exponential(SizeLaw):
    """Exponential distribution, which has no memory: everything exact assumes it.

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.Exponential()
    >>> round(sizes.cv2, 3)
    1.0
    >>> sizes.survival([0.5, 1.0, 4.0]).round(3)
    array([0.607, 0.368, 0.018])
    """

    law: ClassVar[str] = "exponential"

    @property
    def cv2(self) -> float:
        """One."""
        return 1.0

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return independent draws."""
        return rng.standard_exponential(count)

    def survival(self, x: ArrayLike) -> Floats:
        """Return e^(−x)."""
        return np.exp(-attained_work(x))

    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return one, whatever was attained."""
        return np.ones(attained_work(x).shape)


@dataclass(frozen=True, repr=False)
class Deterministic(SizeLaw):
    """Deterministic sizes: all are equal.

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.Deterministic()
    >>> round(sizes.cv2, 3)
    0.0
    >>> sizes.survival([0.5, 1.0, 4.0]).round(3)
    array([1., 0., 0.])
    """

    law: ClassVar[str] = "deterministic"

    @property
    def cv2(self) -> float:
        """Zero."""
        return 0.0

    @property
    def largest(self) -> float:
        """One."""
        return 1.0

    def draw(self, rng: np.random.Generator, count: int) -> Floats:  # noqa: ARG002  # nothing is random
        """Return ones."""
        return np.ones(count)

    def survival(self, x: ArrayLike) -> Floats:
        """Return one below the size, else zero."""
        return np.where(attained_work(x) < 1.0, 1.0, 0.0)

    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return what is left of the size."""
        return np.maximum(1.0 - attained_work(x), 0.0)


@dataclass(frozen=True, repr=False)
class Erlang(SizeLaw):
    """Erlang distribution: the sum of `stages` exponential stages; cv² is one over their number.

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.Erlang(4)
    >>> round(sizes.cv2, 3)
    0.25
    >>> sizes.survival([0.5, 1.0, 4.0]).round(3)
    array([0.857, 0.433, 0.   ])
    """

    stages: int
    law: ClassVar[str] = "erlang"

    def __post_init__(self) -> None:
        count = checks.whole(self.stages, "erlang sizes: stages", InvalidSystem)
        if count > _MOST_STAGES:
            raise InvalidSystem(f"erlang sizes: stages must be at most {_MOST_STAGES}, got {count}")
        object.__setattr__(self, "stages", count)

    @property
    def cv2(self) -> float:
        """One over the number of stages."""
        return 1.0 / self.stages

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return independent draws."""
        return rng.standard_gamma(self.stages, count) / self.stages

    def survival(self, x: ArrayLike) -> Floats:
        """Return Q(k, k x), the regularised incomplete gamma function."""
        from scipy.special import gammaincc

        return np.asarray(gammaincc(self.stages, self.stages * attained_work(x)))

    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return the mean number of stages still to go, over k.

        Given X > x, l of the stages are over with a probability in proportion to (k x)^l / l!, l < k.
        """
        from scipy.special import gammaln

        done = np.arange(self.stages)
        passed = self.stages * attained_work(x)[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            exponents = np.where(done == 0, 0.0, done * np.log(passed)) - gammaln(done + 1.0)
        weights = np.exp(exponents - exponents.max(axis=-1, keepdims=True))
        to_go = (weights * (self.stages - done)).sum(axis=-1) / weights.sum(axis=-1)
        return np.asarray(to_go / self.stages)


@dataclass(frozen=True, repr=False)
class Hyperexponential(SizeLaw):
    """Hyperexponential distribution of two phases with balanced means: short jobs and long ones.

    A job is of the first phase with probability q = (1 + √((cv² − 1)/(cv² + 1)))/2 and then has mean 1/(2q),
    else mean 1/(2(1 − q)): each phase brings half of the work.

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.Hyperexponential(4.0)
    >>> round(sizes.cv2, 3)
    4.0
    >>> sizes.survival([0.5, 1.0, 4.0]).round(3)
    array([0.466, 0.24 , 0.046])
    """

    cv2: float
    law: ClassVar[str] = "hyperexponential"

    def __post_init__(self) -> None:
        least = checks.within(self.cv2, 1.0, 1e12, "hyperexponential sizes: cv2", InvalidSystem)
        object.__setattr__(self, "cv2", least)

    @property
    def _phases(self) -> tuple[Floats, Floats]:
        """The probability and the rate of each phase."""
        spread = math.sqrt((self.cv2 - 1.0) / (self.cv2 + 1.0))
        rare = 1.0 / ((1.0 + spread) * (self.cv2 + 1.0))  # (1 − spread)/2 without cancellation
        probability = np.array([1.0 - rare, rare])
        return probability, 2.0 * probability

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return independent draws."""
        probability, rate = self._phases
        phase = np.where(rng.random(count) < probability[1], rate[1], rate[0])
        return np.asarray(rng.standard_exponential(count) / phase)

    def survival(self, x: ArrayLike) -> Floats:
        """Return the mean of e^(−rate x) over the phases."""
        probability, rate = self._phases
        return np.asarray(np.exp(-attained_work(x)[..., None] * rate) @ probability)

    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return the mean of a phase, weighted by how likely a job of it is still there."""
        probability, rate = self._phases
        there = probability * np.exp(-attained_work(x)[..., None] * (rate - rate[1]))
        return np.asarray(there @ (1.0 / rate) / there.sum(axis=-1))


@dataclass(frozen=True, repr=False)
class Lognormal(SizeLaw):
    """Lognormal distribution: log X is normal, with variance σ² = log(1 + cv²).

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.Lognormal(4.0)
    >>> round(sizes.cv2, 3)
    4.0
    >>> sizes.survival([0.5, 1.0, 4.0]).round(3)
    array([0.465, 0.263, 0.042])
    """

    cv2: float
    law: ClassVar[str] = "lognormal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cv2", checks.positive(self.cv2, "lognormal sizes: cv2", InvalidSystem))

    @property
    def _sigma(self) -> float:
        return math.sqrt(math.log1p(self.cv2))

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return independent draws."""
        sigma = self._sigma
        return np.exp(sigma * rng.standard_normal(count) - 0.5 * sigma**2)

    def _log_tail(self, x: ArrayLike, moment: int) -> Floats:
        """Return log E[X^moment; X > x], moment 0 or 1; both moments are one."""
        from scipy.special import log_ndtr

        sigma = self._sigma
        with np.errstate(divide="ignore"):
            return np.asarray(log_ndtr((moment - 0.5) * sigma - np.log(attained_work(x)) / sigma))

    def survival(self, x: ArrayLike) -> Floats:
        """Return P(X > x)."""
        return np.exp(self._log_tail(x, 0))

    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return E[X; X > x]/P(X > x) − x."""
        return np.asarray(np.exp(self._log_tail(x, 1) - self._log_tail(x, 0)) - attained_work(x))


@dataclass(frozen=True, repr=False)
class Weibull(SizeLaw):
    """Weibull distribution: P(X > x) = exp(−(Γ(1 + 1/k) x)^k); of shape ½ its cv² is 5, of shape 1 it is 1.

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.Weibull(0.5)
    >>> round(sizes.cv2, 3)
    5.0
    >>> sizes.survival([0.5, 1.0, 4.0]).round(3)
    array([0.368, 0.243, 0.059])
    """

    shape: float
    law: ClassVar[str] = "weibull"

    def __post_init__(self) -> None:
        shape = checks.within(self.shape, 0.1, 100.0, "weibull sizes: shape", InvalidSystem)
        object.__setattr__(self, "shape", shape)

    @property
    def cv2(self) -> float:
        """Γ(1 + 2/k)/Γ(1 + 1/k)² − 1."""
        return math.expm1(math.lgamma(1.0 + 2.0 / self.shape) - 2.0 * math.lgamma(1.0 + 1.0 / self.shape))

    @property
    def _scale(self) -> float:
        return math.exp(-math.lgamma(1.0 + 1.0 / self.shape))

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return independent draws."""
        return self._scale * rng.weibull(self.shape, count)

    def survival(self, x: ArrayLike) -> Floats:
        """Return P(X > x)."""
        return np.exp(-((attained_work(x) / self._scale) ** self.shape))

    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return ∫ P(X > y) dy over y > x, divided by P(X > x): Γ(1/k, y) e^y scale/k at y = (x/scale)^k.

        Far out Γ(a, y) e^y is y^(a − 1) (1 + (a − 1)/y + …).
        """
        from scipy.special import gammaincc

        a, y = 1.0 / self.shape, (attained_work(x) / self._scale) ** self.shape
        near = np.minimum(y, _FAR)
        tail = gammaincc(a, near) * np.exp(near + math.lgamma(a))
        far = np.maximum(y, _FAR)
        series = far ** (a - 1.0) * (1.0 + (a - 1.0) / far * (1.0 + (a - 2.0) / far))
        return np.asarray(self._scale * a * np.where(y <= _FAR, tail, series))


@dataclass(frozen=True, repr=False)
class Pareto(SizeLaw):
    """Pareto distribution: P(X > x) = (least/x)^shape; with `cut`, given X below `cut` times its least.

    Without a cut the shape must exceed one, else there is no mean, and up to two the variance is infinite.

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.Pareto(2.5)
    >>> round(sizes.cv2, 3)
    0.8
    >>> sizes.survival([0.5, 1.0, 4.0]).round(3)
    array([1.   , 0.279, 0.009])
    """

    shape: float
    cut: float | None = None
    law: ClassVar[str] = "pareto"

    def __post_init__(self) -> None:
        shape = checks.within(self.shape, 0.01, 1000.0, "pareto sizes: shape", InvalidSystem)
        object.__setattr__(self, "shape", shape)
        if self.cut is None:
            if shape <= 1.0:
                raise InvalidSystem(
                    f"pareto sizes: shape must be above 1 or there is no finite mean, got {self.shape!r}; "
                    f"a cut, such as cut = 1000, gives them one"
                )
            return
        cut = checks.within(self.cut, 1.001, 1e12, "pareto sizes: cut", InvalidSystem)
        object.__setattr__(self, "cut", cut)

    def _tail(self, z: Floats, moment: int) -> Floats:
        """Return the integral of z^(moment − 1) (z^(−shape) − cut^(−shape)) from z ≥ 1 to the cut."""
        power = moment - self.shape
        if self.cut is None:
            return np.asarray(-(z**power) / power)
        flat = abs(power) < 1e-9
        first = np.log(self.cut / z) if flat else (self.cut**power - z**power) / power
        return np.asarray(first - self.cut**-self.shape * (self.cut**moment - z**moment) / moment)

    @property
    def _mass(self) -> float:
        """The probability of being below the cut, if there were none."""
        return 1.0 if self.cut is None else -math.expm1(-self.shape * math.log(self.cut))

    @cached_property
    def _least(self) -> float:
        return 1.0 / (1.0 + float(self._tail(np.array(1.0), 1)) / self._mass)

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation; infinite up to a shape of two without a cut."""
        if self.cut is None and self.shape <= 2.0:
            return math.inf
        second = 1.0 + 2.0 * float(self._tail(np.array(1.0), 2)) / self._mass
        return self._least**2 * second - 1.0

    @property
    def largest(self) -> float:
        """The cut, in mean sizes; infinite without one."""
        return math.inf if self.cut is None else self._least * self.cut

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return independent draws."""
        return self._least * (1.0 - self._mass * rng.random(count)) ** (-1.0 / self.shape)

    def survival(self, x: ArrayLike) -> Floats:
        """Return P(X > x)."""
        z = np.maximum(attained_work(x) / self._least, 1.0)
        beyond = 0.0 if self.cut is None else self.cut**-self.shape
        return np.maximum(z**-self.shape - beyond, 0.0) / self._mass

    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return ∫ P(X > y) dy over y > x, divided by P(X > x)."""
        attained = attained_work(x)
        z = np.maximum(attained / self._least, 1.0)
        if self.cut is None:
            beyond = z / (self.shape - 1.0)
        else:
            inside = np.minimum(z, self.cut * (1.0 - 1e-12))
            there = inside**-self.shape - self.cut**-self.shape
            beyond = np.where(z < self.cut, np.maximum(self._tail(inside, 1), 0.0) / there, 0.0)
        return np.asarray(self._least * (beyond + np.maximum(z - attained / self._least, 0.0)))


def attained_work(x: ArrayLike) -> Floats:
    """Return attained work as an array, none of it negative."""
    return np.maximum(np.asarray(x, dtype=np.float64), 0.0)
