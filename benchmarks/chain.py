"""The chain of a system under a policy as tables, and a loop in C that walks through them.

The tables are made before any clock starts; the loop is ``loop.c``, compiled for this machine on first use.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import corewise as cw
from corewise.analysis.chain import Chain
from corewise.kit.arrays import Floats, Ints
from corewise.model.rates import departure_rates
from corewise.model.space import StateSpace
from corewise.policies.base import bind, tabulate

Counts = Ints


class Outcome(NamedTuple):
    """What a run saw, and how many seconds it took."""

    mean_jobs: float
    time: float
    events: int
    seconds: float

    @property
    def speed(self) -> float:
        """Events per second."""
        return self.events / self.seconds


@dataclass(frozen=True, eq=False)
class Model:
    """A system under a policy, tabulated on a box far larger than its paths."""

    system: cw.System
    policy: cw.Policy
    capacity: int = 40

    @cached_property
    def mean_jobs(self) -> float:
        """The exact long-run mean."""
        return float(cw.evaluate(self.system, self.policy).mean_jobs)

    @cached_property
    def variance(self) -> float:
        """The variance of a simulated mean, times the length of the simulation: σ² = 2 Σ π(n) |n| V(n).

        V are the relative values of the number of jobs |n|, shifted so that Σ π V = 0.
        """
        chain = Chain.under(bind(self.policy, self.system), self.system, self.space)
        jobs = self.space.jobs.sum(axis=0)
        values = chain.values(jobs)[1]
        values -= chain.distribution @ values
        return float(2.0 * chain.distribution @ (jobs * values))

    @cached_property
    def space(self) -> StateSpace:
        return StateSpace.of(self.capacity, len(self.system.classes))

    @cached_property
    def rates(self) -> Floats:
        """Arrival rates of every class, then departure rates of every class, shape (states, 2K)."""
        cores = tabulate(bind(self.policy, self.system), self.space)
        arrivals = np.broadcast_to(self.system.arrival_rates[:, None], cores.shape)
        return np.vstack([arrivals, departure_rates(self.system, self.space.jobs, cores)]).T.copy()

    @cached_property
    def cumulative(self) -> Floats:
        """The probability of a move up to this one, shape (states, 2K)."""
        sums = self.rates.cumsum(axis=1)
        return np.asarray(sums * (1.0 / sums[:, -1:]))  # rounded as corewise does, for the same path

    @cached_property
    def thresholds(self) -> Floats:
        """The same, and −1 where the box ends."""
        thresholds = self.cumulative.copy()
        thresholds[self.space.edge.any(axis=0)] = -1.0
        return thresholds

    @cached_property
    def steps(self) -> Counts:
        """How far each move leads in the flat index."""
        return np.concatenate([self.space.strides, -self.space.strides])

    @cached_property
    def speeds(self) -> list[list[float]]:
        """The speed s_i(x_i/n_i) of a job of each class in every state; 0 where there is none."""
        classes = len(self.system.classes)
        leaving = self.rates[:, classes:] / self.system.size_rates
        return (leaving / np.maximum(self.space.jobs.T, 1.0)).tolist()  # type: ignore[no-any-return]


def simulate_with_c(model: Model, departures: int, seed: int) -> Outcome:
    """The jump chain in C with NumPy's PCG64, called through its C interface: what corewise does."""
    steps, seconds = walk(model, departures, np.random.default_rng(seed))
    return outcome_of_moves(model, steps.moves, seconds)


def simulate_with_c_inline(model: Model, departures: int, seed: int) -> Outcome:
    """The same with PCG64 inlined in the loop."""
    steps, seconds = walk(model, departures, np.random.default_rng(seed), inline=True)
    return outcome_of_moves(model, steps.moves, seconds)


class Steps(NamedTuple):
    """Moves by state, and the state where they ended."""

    moves: Counts
    end: int


def walk(
    model: Model, departures: int, rng: np.random.Generator, *, start: int = 0, inline: bool = False
) -> tuple[Steps, float]:
    """Run a loop of ``loop.c`` from a state; return what it did and the seconds of the loop alone."""
    library = compiled(model.steps.size)
    state, moves = np.array([start], dtype=np.uint64), np.zeros(model.rates.shape, dtype=np.int64)
    generator: tuple[Any, ...]
    if inline:
        pcg64 = rng.bit_generator.state["state"]
        halves = [half for number in (pcg64["state"], pcg64["inc"]) for half in divmod(number, 2**64)]
        copied = np.array(halves, dtype=np.uint64)
        call, generator = library.walk_inline, (pointer(copied),)
    else:
        numpy_side = rng.bit_generator.ctypes
        call, generator = library.walk, (numpy_side.next_double, numpy_side.state)
    call.restype = ctypes.c_int64
    tables = (pointer(model.thresholds), pointer(model.steps), pointer(moves))
    began = perf_counter()
    left = call(pointer(state), ctypes.c_int64(departures), *tables, *generator)
    seconds = perf_counter() - began
    if left:
        raise RuntimeError(f"the path left the box of {model.capacity} jobs a class; give a larger one")
    return Steps(moves, int(state[0])), seconds


def outcome_of_moves(model: Model, moves: Counts, seconds: float) -> Outcome:
    """The outcome of a jump chain, each visit lasting as long as it does in the mean."""
    times = moves.sum(axis=1) / model.rates.sum(axis=1)
    time = float(times.sum())
    return Outcome(float(model.space.jobs.sum(axis=0) @ times) / time, time, int(moves.sum()), seconds)


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def compiler() -> str | None:
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


@cache
def compiled(width: int) -> ctypes.CDLL:
    """``loop.c`` for so many moves in a state, compiled for this machine."""
    command = compiler()
    if command is None:
        raise RuntimeError("there is no C compiler")
    source = Path(__file__).with_name("loop.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "loop.so"
        flags = ["-O3", "-march=native", "-shared", "-fPIC", f"-DWIDTH={width}"]
        subprocess.run([command, *flags, str(source), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))  # stays loaded when the file is gone
