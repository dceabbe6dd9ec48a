"""Allocation policies: a rule, and the rule bound to a system.

A policy is a rule for any system; ``policy.on(system)`` binds it. The bound policy answers
``allocate(counts)``: how many cores each class holds when the counts of jobs are these. Within a class the
cores are shared equally. A bound policy keeps the system it was made for, so a rule computed from estimated
curves runs on a plant with other curves, and the truth never leaks into it.

No policy made here idles a core that a job could hold: cores are idle only where every job present holds its
`max_cores`. EQUI, fixed shares and strict priority share all cores whatever jobs can use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from corewise.errors import CorewiseError, InvalidInput, InvalidPolicy, nearest
from corewise.kit import checks
from corewise.kit.arrays import Floats, Ints
from corewise.kit.report import Summarised
from corewise.kit.values import ByValue
from corewise.model.space import StateSpace
from corewise.model.system import System, require_system
from corewise.policies.decisions import Decision, Rule
from corewise.policies.jobs.equal import equal_cores, equal_shares
from corewise.policies.jobs.levels import JobLevels
from corewise.policies.jobs.state import JobState
from corewise.policies.names import NAMES, SAVED, Request
from corewise.policies.rounding import require_whole, round_cores

__all__ = [
    "BoundPolicy",
    "Policy",
    "bind",
    "checked_policy",
    "cores_of",
    "counts_by_name",
    "policy_named",
    "require_fit",
    "tabulate",
]

_MOST_JOBS = 2**53  # beyond it floating-point numbers skip some

_OWN = "; OwnPolicy(name, split) makes a policy of a function from the jobs in one state to the cores"
_AXES = (
    "; the rule of a BoundPolicy has a row for each class and a column for each state, "
    "the split of an OwnPolicy is of one state, or has a row for each state"
)

_LOOKED_AT = 3  # states at which a rule for many states is held against itself for one


@runtime_checkable
class Policy(Protocol):
    """Allocation policy: a rule that shares the cores of any system it is bound to.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> isinstance(cw.Equi(), cw.Policy)
    True
    >>> bound = cw.Equi().on(system)
    >>> bound.name
    'equi'
    >>> bound.allocate([2, 3])
    array([12., 18.])
    """

    @property
    def name(self) -> str:
        """What to call the policy in a table."""
        ...

    def on(self, system: System) -> BoundPolicy:
        """Return the policy for that system."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class BoundPolicy(ByValue, Summarised):
    """Bound policy: one made for a system; itself a `Policy`, it stays with its system when bound again.

    A function from one state to one split is made into a policy by `OwnPolicy`.

    Parameters
    ----------
    system : System
        The system it was made for.
    name : str
        What to call the policy in a table.
    decision : Decision or callable
        How it decides; a function from counts to cores, both of shape (K, states), is a `Rule`. The classes
        come first, unlike in `allocate`.
    """

    system: System
    name: str
    decision: Decision

    def __init__(self, system: System, name: str, decision: Decision | Callable[[Ints], Floats]) -> None:
        require_system(system)
        if not isinstance(name, str):
            raise InvalidPolicy(f"the name of a policy must be text, got {name!r}")
        if not callable(decision):
            raise InvalidPolicy(f"{name}: its rule must be a function, got {decision!r}")
        object.__setattr__(self, "system", system)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "decision", decision if isinstance(decision, Decision) else Rule(decision))

    @property
    def by_counts(self) -> bool:
        """Whether counts of jobs alone decide in every state, as a chain of counts needs it."""
        return self.decision.by_counts_up_to == math.inf

    def require_fit(self, system: System) -> None:
        """Raise `InvalidPolicy` unless `system` has the same cores and class names in order."""
        require_fit(self.system, system)

    def on(self, system: System) -> BoundPolicy:
        """Return this policy, if it fits `system`."""
        self.require_fit(system)
        return self

    @overload
    def allocate(self, counts: Mapping[str, int]) -> dict[str, float]: ...
    @overload
    def allocate(self, counts: ArrayLike) -> Floats: ...
    def allocate(self, counts: Mapping[str, int] | ArrayLike) -> dict[str, float] | Floats:
        """Return the cores per class for counts of jobs, both of shape (…, K), or both by class name."""
        if isinstance(counts, Mapping):
            cores = self.allocate([counts_by_name(counts, self.system)])[0]
            return dict(zip(self.system.names, cores.tolist(), strict=True))
        classes = len(self.system.classes)
        try:
            jobs = np.asarray(counts)
        except ValueError:
            raise InvalidInput(f"counts must have {classes} numbers in every row, got {counts!r}") from None
        if jobs.dtype.kind not in "iuf" or not np.all((jobs >= 0) & (jobs <= _MOST_JOBS)):
            raise InvalidInput(f"counts must be whole numbers from 0 to 2^53, got {counts!r}")
        if jobs.ndim == 0 or jobs.shape[-1] != classes:
            raise InvalidInput(
                f"counts must have {classes} numbers, one for each class, got shape {jobs.shape}"
            )
        whole = jobs.astype(np.int64)
        if np.any(whole != jobs):
            raise InvalidInput(f"counts must be whole numbers from 0 to 2^53, got {counts!r}")
        flat = np.ascontiguousarray(whole.reshape(-1, classes).T)
        return np.ascontiguousarray(cores_of(self, flat).T).reshape(jobs.shape)

    def allocate_jobs(
        self, jobs: Iterable[JobState], *, whole: bool = False, pause: float = 0.0
    ) -> dict[str, float] | dict[str, int]:
        """Return the cores of every job by its name; a policy of classes shares equally within a class.

        Parameters
        ----------
        jobs : iterable of JobState
            The jobs that are present, of any class of the system.
        whole : bool, optional
            Whole cores for every job, which needs a whole number of cores.
        pause : float, optional
            How long a job stands still whose cores change; with one, a width other than the one held has to
            be worth it. Only for whole cores.
        """
        checks.within(pause, 0.0, math.inf, "pause")
        by_jobs = self.decision.part(JobLevels)
        if by_jobs is not None:
            return by_jobs.allocate_jobs(jobs, whole=whole, pause=pause)
        if not whole:
            return equal_shares(jobs, self.system, partial(cores_of, self))
        pool = require_whole(self.system)
        return equal_cores(jobs, self.system, self._whole_cores, pool, pause=pause)

    def _whole_cores(self, counts: Ints) -> Floats:
        return round_cores(cores_of(self, counts))

    def _summary(self) -> Mapping[str, object]:
        return {"name": self.name, "classes": tuple(self.system.names), "cores": self.system.cores}

    def _values(self) -> Mapping[str, object]:
        return self._summary()


def counts_by_name(jobs: Mapping[str, int], system: System) -> list[int]:
    """Return the jobs of each class in the order of a system; a class that is not named has none."""
    for name in jobs:
        system.index(name)
    return [checks.whole(jobs.get(name, 0), f"jobs of {name!r}", least=0) for name in system.names]


def require_fit(made_for: System, system: System) -> None:
    """Raise `InvalidPolicy` unless a policy made for one system can serve the other."""
    require_system(system)
    if made_for.cores != system.cores:
        raise InvalidPolicy(f"the policy is for {made_for.cores:g} cores, the system has {system.cores:g}")
    if made_for.names != system.names:
        raise InvalidPolicy(
            f"the policy is for classes {', '.join(made_for.names)}; the system has {', '.join(system.names)}"
        )


def bind(policy: Policy | str, system: System) -> BoundPolicy:
    """Return `policy`, given as one or by its name, on `system`, refusing what is not a policy.

    To bind a policy may be a computation of seconds: bind once, and hand the bound policy on.
    """
    chosen = _as_policy(policy, system)
    bound = chosen.on(system)
    if not isinstance(bound, BoundPolicy):
        raise InvalidPolicy(f"{chosen.name}: on(system) must return a BoundPolicy, got {bound!r}{_OWN}")
    return bound


def checked_policy(policy: Policy | str, system: System) -> Policy:
    """Return a policy, given as one or by its name, if it can serve `system`; it is not bound.

    A policy that can tell whether it fits without being bound has a method `require_fit`.
    """
    chosen = _as_policy(policy, system)
    if hasattr(chosen, "require_fit"):
        chosen.require_fit(system)
    return chosen


def _as_policy(policy: Policy | str, system: System) -> Policy:
    require_system(system)
    if isinstance(policy, str):
        return policy_named(policy, system)
    # What isinstance(policy, Policy) looks at, in a tenth of the time.
    if isinstance(policy, type) or not (hasattr(policy, "on") and hasattr(policy, "name")):
        raise InvalidPolicy(f"expected a policy such as Equi(), got {policy!r}{_OWN}")
    if not isinstance(policy.name, str):
        raise InvalidPolicy(f"the name of a policy must be text, got {policy.name!r} from {policy!r}")
    return policy


def policy_named(
    text: str, system: System, *, capacity: int | Sequence[int] | None = None, folder: Path | None = None
) -> Policy:
    """Return the policy that a text names.

    Parameters
    ----------
    text : str
        ``equi``, ``greedy``, ``whittle``, ``improved``, ``optimal``, ``job-index``, ``job-index:LOAD`` (the
        long-run load; 0 for a batch, or a day that ends), ``priced``, ``held``, ``fixed:SHARE,SHARE,…`` (in
        class order), ``priority:NAME,NAME,…`` (first to last), ``whole:P`` (any of them, rounded to whole
        cores), or the path of a saved policy.
    system : System
        The system to serve.
    capacity : int or sequence of int, optional
        The box within which ``optimal`` is solved.
    folder : Path, optional
        What a relative path is relative to; by default the current directory.
    """
    name, colon, argument = text.partition(":")
    entry = NAMES.get(name)
    if entry is not None and (bool(colon) == (entry.argument is not None) or (entry.optional and not colon)):
        made: Policy = entry.make(Request(argument, system, capacity, folder))
        return made
    file = (folder or Path()) / text
    meant_as_path = "/" in text or (Path(text).suffix and not colon)
    if text and (meant_as_path or file.exists()):
        saved: Policy = NAMES[SAVED].make(Request(str(file), system))
        try:
            return checked_policy(saved, system)
        except InvalidPolicy as error:
            raise InvalidPolicy(f"{text}: {error}") from None
    if entry is None:
        names = sorted(
            NAMES.keys() - {SAVED}, key=lambda known: (NAMES[known].computed, [*NAMES].index(known))
        )
        raise InvalidPolicy(f"unknown policy {text!r}, nor is it a file{nearest(name.lower(), names)}")
    if entry.argument is None:
        raise InvalidPolicy(f"policy {text!r}: {name} takes nothing after a colon")
    raise InvalidPolicy(f"policy {text!r} needs {entry.argument(system)}")


def tabulate(policy: BoundPolicy, space: StateSpace) -> Floats:
    """Return the cores per class in every state of a box, shape (K, size), refusing what is no split."""
    known = policy.decision.tabulated(space)
    return cores_of(policy, space.counts) if known is None else known


def cores_of(policy: BoundPolicy, counts: Ints) -> Floats:
    """Return the cores that a rule gives in these states, both (K, states), refusing what is no split."""
    cores = _answer(policy, counts)
    total, most = cores.sum(axis=0), policy.system.cores * (1.0 + 1e-9)
    wrong = ~(np.all(cores >= 0.0, axis=0) & (total <= most))
    if np.any(wrong):
        first = int(np.argmax(wrong))
        raise InvalidPolicy(
            f"{policy.name}: cores {cores[:, first].tolist()} in state {counts[:, first].tolist()} are no "
            f"split of {policy.system.cores:g}{_AXES}"
        )
    if not policy.decision.by_counts.state_by_state:
        _require_function_of_state(policy, counts, cores)
    return cores


def _require_function_of_state(policy: BoundPolicy, counts: Ints, cores: Floats) -> None:
    """Raise `InvalidPolicy` if a rule gives a state among others something else than the same state alone.

    So does one that adds up along the states instead of the classes, though all it gives may be splits.
    """
    states = counts.shape[1]
    if states < 2:
        return
    for k in sorted({states * i // (_LOOKED_AT - 1) - (i > 0) for i in range(_LOOKED_AT)}):
        alone = _answer(policy, np.ascontiguousarray(counts[:, k : k + 1]))[:, 0]
        if not np.allclose(alone, cores[:, k], rtol=0.0, atol=1e-6 * policy.system.cores):
            raise InvalidPolicy(
                f"{policy.name}: in state {counts[:, k].tolist()} it gives {cores[:, k].tolist()} "
                f"among other states and {alone.tolist()} alone{_AXES}"
            )


def _answer(policy: BoundPolicy, counts: Ints) -> Floats:
    """Return what a rule gives, if it is an array of numbers of the right shape."""
    try:
        cores = np.asarray(policy.decision(counts))
    except CorewiseError:
        raise
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        raise InvalidPolicy(
            f"{policy.name}: its rule fails for counts of shape {counts.shape} ({error}){_AXES}"
        ) from error
    if cores.shape != counts.shape or cores.dtype.kind not in "iuf":
        what = f"an array of shape {cores.shape}" if cores.dtype.kind in "iuf" else f"{cores.dtype} values"
        raise InvalidPolicy(f"{policy.name}: its rule gives {what} for counts of shape {counts.shape}{_AXES}")
    return cores.astype(np.float64, copy=False)
