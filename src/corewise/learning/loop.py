"""The ring, closed: run, estimate, solve, adopt, again.

The loop has the plant, the clock and the record of the epochs; what to do next is decided by the `Learner`,
which has none of them.

Paper: Algorithms 1, 1a and 1b.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from corewise.errors import InvalidInput
from corewise.estimation.mle import ANY
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Summarised, Table
from corewise.learning.algorithms import Algorithm
from corewise.learning.checkpoint import Checkpoint, EpochRow, plant_snapshot
from corewise.learning.epochs import Epoch, Seconds
from corewise.learning.judge import Judge
from corewise.learning.learner import Learner, SolveRequest
from corewise.learning.plant import Attentive, Plant
from corewise.model.system import System

__all__ = ["Learning", "learn"]


_LAST = 20  # epochs that a notebook shows


class Learning(Summarised, Iterator[Epoch]):
    """Learning loop in progress: an iterator over its epochs.

    Attributes
    ----------
    plant : Plant
        What is learned about.
    learner : Learner
        What decides.
    judge : Judge
        What says how good its policies are.
    past : list of mapping
        The epochs that are over, as `Epoch.as_mapping` gives them; those before a resumption as well.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> algorithm = cw.algorithm_1b(system, departures=500, steps=4)
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "half.npz"
    ...     learning = cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)
    ...     print(next(learning).k, next(learning).k)
    ...     learning.save(file)
    ...     print([epoch.k for epoch in cw.learn(cw.SimulatedPlant(system), algorithm, resume=file)])
    1 2
    [3, 4]
    """

    def __init__(
        self,
        plant: Plant,
        learner: Learner,
        *,
        diagnose: bool | Container[int] = True,
        past: list[EpochRow] | None = None,
    ) -> None:
        self.plant = plant
        self.learner = learner
        self.past = past or []
        self.judge = Judge(diagnose)
        self._saved = self._here() if learner.standing.k else None

    def __next__(self) -> Epoch:
        """Return the next epoch, once it is over."""
        if self.learner.done:
            raise StopIteration
        before = self.learner.standing.departures
        request, running, estimating = self._watch()
        began = perf_counter()
        self.learner.adopt(request.carry_out())
        solved = perf_counter()
        mean_jobs, mean_cost, gap = self.judge.verdict(request.k, self.plant, self.learner.policy)
        judged = perf_counter()
        standing = self.learner.standing
        epoch = Epoch(
            k=standing.k,
            departures=standing.departures,
            window=standing.departures - before,
            time=standing.time,
            estimates=request.estimates,
            policy=self.learner.policy,
            **_rates(standing.estimated),
            mean_jobs=mean_jobs,
            mean_cost=mean_cost,
            gap=gap,
            alarms=request.alarms,
            seconds=Seconds(running, estimating, solved - began, judged - solved),
        )
        # Taken now, when all parts are at the same point: an interrupt may come in the middle of a window.
        here = self._here()
        self.past.append(epoch.as_mapping())
        self._saved = here
        return epoch

    def _here(self) -> Checkpoint:
        learner, plant = self.learner, self.plant
        return Checkpoint(learner.algorithm, learner.standing, plant, plant_snapshot(plant), self.past)

    def _watch(self) -> tuple[SolveRequest, float, float]:
        """Run the plant until a window is full; return what to solve, and how long both parts took."""
        running = estimating = 0.0
        while True:
            began = perf_counter()
            seen = self.plant.run(self.learner.policy, self.learner.wanted)
            ran = perf_counter()
            request = self.learner.observe(seen)
            running, estimating = running + ran - began, estimating + perf_counter() - ran
            if request is not None:
                return request, running, estimating
            if seen.departures == 0:
                self._require_some()
                raise StopIteration

    def _require_some(self) -> None:
        """Raise `InvalidInput` if the plant came to its end before anything could be learned."""
        if self.learner.standing.k == 0:
            window = self.learner.algorithm.schedule.window(1)
            raise InvalidInput(
                f"nothing to learn from: the plant came to its end after {window - self.learner.wanted} "
                f"departures, and the first window has {window}"
            )

    def save(self, file: str | Path, *, note: Mapping[str, Any] | None = None) -> None:
        """Write where the loop stands after its last epoch; ``learn(…, resume=file)`` goes on from there.

        `note` is kept with it: plain values, which ``corewise.learning.checkpoint.saved_note`` gives back.
        """
        if self._saved is None:
            raise InvalidInput("there is nothing to save before the first epoch is over")
        self._saved.write(file, note or {})

    def _summary(self) -> Mapping[str, object]:
        algorithm = self.learner.algorithm
        done = {"epochs": len(self.past), "departures": self.learner.standing.departures}
        return {"algorithm": algorithm.name, **done, "plant": type(self.plant).__name__}

    def _table(self) -> Table:
        header = ("k", "departures", "gap", "parameters")
        last = self.past[-_LAST:]
        return Table(header, [(row["k"], row["departures"], row["gap"], row["estimates"]) for row in last])

    def _values(self) -> Mapping[str, object]:
        """Return the epochs so far."""
        return {"epochs": self.past}

    def _content(self) -> Iterable[object]:
        return self.past


def _rates(system: System) -> dict[str, FrozenMapping[str, float]]:
    """Return the rates of all classes, for an epoch."""
    names = system.names
    return {
        "arrival_rates": FrozenMapping(dict(zip(names, system.arrival_rates.tolist(), strict=True))),
        "size_rates": FrozenMapping(dict(zip(names, system.size_rates.tolist(), strict=True))),
    }


def learn(
    plant: Plant,
    algorithm: Algorithm,
    *,
    resume: str | Path | None = None,
    diagnose: bool | Container[int] = True,
) -> Learning:
    """Let an algorithm learn from a plant, and yield a record of every epoch.

    Parameters
    ----------
    plant : Plant
        What to learn about, such as ``SimulatedPlant(system, rng=7)``.
    algorithm : Algorithm
        How, such as ``algorithm_1b(system, departures=100, steps=100)``.
    resume : path, optional
        A file that `Learning.save` has written: the plant and the algorithm go on where those were, with the
        same result as if they had never stopped.
    diagnose : bool or container of int, optional
        Whether epochs say how good their policy is, by exact evaluation under ``plant.truth``; or which do.

    Returns
    -------
    Learning
        An iterator over `Epoch`.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> plant = cw.SimulatedPlant(system, rng=7)
    >>> for epoch in cw.learn(plant, cw.algorithm_1b(system, departures=1_000, steps=3)):
    ...     print(epoch.k, epoch.departures, round(epoch.estimates["two"].value, 2), epoch.gap < 0.001)
    1 1000 0.8 True
    2 2000 0.8 True
    3 3000 0.8 True
    """
    if isinstance(plant, type) or not isinstance(plant, Plant):
        raise InvalidInput(f"expected a plant such as SimulatedPlant(system, rng=7), got {plant!r}")
    if isinstance(plant, Attentive) and isinstance(algorithm, Algorithm) and algorithm.sizes == ANY:
        plant.attend(algorithm.system)
    if resume is None:
        return Learning(plant, Learner(algorithm), diagnose=diagnose)
    standing, past = Checkpoint.resumed(resume, algorithm, plant)
    return Learning(plant, Learner(algorithm, standing), diagnose=diagnose, past=past)
