"""Decisions: how a bound policy decides which class holds how many cores.

A bound policy carries one decision. It is called with counts of jobs and returns cores, both class-major:
shape (K, states), one row per class and one column per state. The kinds differ in what simulators and solvers
may know of them:

- `Rule`: a function of the counts, and nothing else is known;
- `StateTable`: a table over a box of states, and another decision outside the box;
- `Levels`: one water level, on which the width of every job depends (`corewise.policies.waterfill`);
- `corewise.policies.whole.Rounded`: the cores of another policy, rounded to whole ones;
- `corewise.policies.fitted.rule.Fitted`: the greedy split of a fitted value function.

Two kinds are refinements of another decision, and are that decision as far as counts alone go:

- `corewise.policies.residual.AttainedOrder`: classes in order of attained work where jobs outnumber cores;
- `corewise.policies.moving.rule.Widths`: the whole cores of single jobs where moves cost time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.space import StateSpace
from corewise.policies.waterfill.levels.steps import LevelSteps

__all__ = ["Decision", "Levels", "Refinement", "Rule", "StateTable"]

Kind = TypeVar("Kind", bound="Decision")


class Decision(ABC):
    """Decision of a bound policy: from counts of jobs to cores per class, both of shape (K, states).

    Attributes
    ----------
    state_by_state : bool
        Whether a state is known to be given the same cores alone and among others.
    whole_jobs : bool
        Whether jobs hold whole cores where their class does.
    """

    state_by_state: ClassVar[bool] = False
    whole_jobs: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, counts: Ints) -> Floats:
        """Return the cores per class."""

    @property
    def by_counts_up_to(self) -> float:
        """The number of jobs up to which counts alone decide; with more, the states of single jobs do."""
        return math.inf

    @property
    def by_counts(self) -> Decision:
        """The decision in terms of counts alone: this one, or the one that it refines."""
        return self

    @property
    def shares_equally(self) -> bool:
        """Whether every job is known to hold the same, whatever the counts."""
        return False

    def layers(self) -> Iterator[Decision]:
        """Yield this decision, then those that it refines."""
        yield self

    def part(self, kind: type[Kind]) -> Kind | None:
        """Return this decision, or the one that it refines, of a kind; None if there is none."""
        return next((layer for layer in self.layers() if isinstance(layer, kind)), None)

    def tabulated(self, space: StateSpace) -> Floats | None:  # noqa: ARG002
        """Return the cores in every state of a box, shape (K, size), if they are a table already."""
        return None


class Refinement(Decision):
    """Decision that refines another: with counts alone it is that one.

    Attributes
    ----------
    within : Decision
        The other decision.
    """

    within: Decision

    def __call__(self, counts: Ints) -> Floats:
        """Return the cores per class."""
        return self.within(counts)

    @property
    def by_counts_up_to(self) -> float:
        """The number of jobs up to which counts alone decide."""
        return self.within.by_counts_up_to

    @property
    def by_counts(self) -> Decision:
        """The decision in terms of counts alone."""
        return self.within.by_counts

    @property
    def shares_equally(self) -> bool:
        """Whether every job is known to hold the same with counts alone."""
        return self.within.shares_equally

    def layers(self) -> Iterator[Decision]:
        """Yield this decision, then those that it refines."""
        yield self
        yield from self.within.layers()

    def tabulated(self, space: StateSpace) -> Floats | None:
        """Return the table of the decision that it refines."""
        return self.within.tabulated(space)


@dataclass(frozen=True, eq=False)
class Rule(Decision):
    """Decision by a function from counts to cores."""

    function: Callable[[Ints], Floats]

    def __call__(self, counts: Ints) -> Floats:
        """Return the cores per class."""
        return self.function(counts)


@dataclass(frozen=True, eq=False)
class StateTable(Decision):
    """Decision by a table over a box of states.

    Attributes
    ----------
    cores : ndarray, shape (K, capacity_1 + 1, …)
        Cores per class.
    make_outside : callable
        Makes the decision for states outside the box when one is first met.
    """

    whole_jobs: ClassVar[bool] = True

    cores: Floats
    make_outside: Callable[[], Decision]

    def __reduce__(self) -> tuple[type[StateTable], tuple[Floats, Callable[[], Decision]]]:
        """Return what to send to another process, where what follows from it is made anew."""
        return StateTable, (self.cores, self.make_outside)

    @cached_property
    def _space(self) -> StateSpace:
        shape = self.cores.shape[1:]
        return StateSpace.of(tuple(n - 1 for n in shape), len(shape))

    @cached_property
    def _outside(self) -> Decision:
        return self.make_outside()

    def __call__(self, counts: Ints) -> Floats:
        """Return the cores per class."""
        inside = self._space.contains(counts.T)
        answer = np.empty(counts.shape)
        flat = self.cores.reshape(len(counts), -1)
        answer[:, inside] = flat[:, self._space.index(counts.T[inside])]
        if not inside.all():
            answer[:, ~inside] = self._outside(np.ascontiguousarray(counts[:, ~inside]))
        return answer

    def tabulated(self, space: StateSpace) -> Floats | None:
        """Return the table, if the box is its own."""
        return self.cores.reshape(len(space.shape), -1) if self.cores.shape[1:] == space.shape else None


@dataclass(frozen=True, eq=False)
class Levels(Decision):
    """Decision by one water level; no table over states is needed, whatever the number of classes.

    It can be sent to another process if its functions can: if they are partial functions, not local ones.

    Attributes
    ----------
    make_steps : callable
        Makes the steps in which classes buy when they are first needed.
    closed_form : callable, optional
        The same decision as a function from counts to cores, where there is a shorter one.
    """

    state_by_state: ClassVar[bool] = True

    make_steps: Callable[[], LevelSteps]
    closed_form: Callable[[Ints], Floats] | None = None

    def __reduce__(self) -> tuple[type[Levels], tuple[object, object]]:
        """Return what to send to another process, where the steps are made anew."""
        return Levels, (self.make_steps, self.closed_form)

    @cached_property
    def steps(self) -> LevelSteps:
        """The steps in which classes buy."""
        return self.make_steps()

    @property
    def shares_equally(self) -> bool:
        """Whether every job holds the same, by a water level without steps."""
        return not len(self.steps.steps)

    def __call__(self, counts: Ints) -> Floats:
        """Return the cores per class."""
        return self.steps.allocate(counts) if self.closed_form is None else self.closed_form(counts)
