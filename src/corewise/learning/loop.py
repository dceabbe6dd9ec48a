"""The simulated loop: run the plant, observe, infer, solve, install, again.

The loop has the plant, the clock and the record of the epochs; the `Learner`, which has none of them, decides
what to do next. Every policy that is solved for is adopted, as in the paper, unless another gate is given.

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
from corewise.kit.report import Reported, Table
from corewise.learning.algorithms import Algorithm
from corewise.learning.checkpoint import Checkpoint, EpochRow, plant_snapshot
from corewise.learning.epochs import Epoch, Seconds
from corewise.learning.evaluator import ExactEvaluator
from corewise.learning.gate import AlwaysAdopt, Gate
from corewise.learning.learner import InferenceRequest, Learner, infer
from corewise.learning.plant import Attentive, Plant
from corewise.model.system import System

__all__ = ["Learning", "learn"]


_LAST = 20  # epochs that a notebook shows


class Learning(Reported, Iterator[Epoch]):
    """Learning loop in progress: an iterator over its epochs.

    Attributes
    ----------
    plant : Plant
        What is learned about.
    learner : Learner
        What decides.
    evaluator : ExactEvaluator
        What evaluates its policies under the true system.
    gate : Gate
        When a policy is adopted.
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
        gate: Gate | None = None,
    ) -> None:
        self.plant = plant
        self.learner = learner
        self.past = past or []
        self.evaluator = ExactEvaluator(diagnose)
        self.gate = gate or AlwaysAdopt()
        self._saved = self._here() if learner.state.k else None

    def __next__(self) -> Epoch:
        """Return the next epoch, once it is over."""
        if self.learner.done:
            raise StopIteration
        before = self.learner.state.departures
        request, running = self._run_window()
        ran = perf_counter()
        inference = infer(request)
        assert inference.estimates is not None
        inferred = perf_counter()
        solved = request.solve(inference)
        adopts = self.gate.decide(None) == "adopt"
        self.learner.install(inference, solved if adopts else None)
        installed = perf_counter()
        mean_jobs, mean_cost, gap = self.evaluator.evaluate(request.k, self.plant, self.learner.policy)
        evaluated = perf_counter()
        state = self.learner.state
        epoch = Epoch(
            k=state.k,
            departures=state.departures,
            window=state.departures - before,
            time=state.time,
            estimates=inference.estimates,
            policy=self.learner.policy,
            **_rates(state.estimated),
            mean_jobs=mean_jobs,
            mean_cost=mean_cost,
            gap=gap,
            alarms=inference.alarms,
            seconds=Seconds(running, inferred - ran, installed - inferred, evaluated - installed),
        )
        # Taken now, when all parts are at the same point: an interrupt may come in the middle of a window.
        here = self._here()
        self.past.append(epoch.as_mapping())
        self._saved = here
        return epoch

    def _here(self) -> Checkpoint:
        learner, plant = self.learner, self.plant
        return Checkpoint(learner.algorithm, learner.state, plant, plant_snapshot(plant), self.past)

    def _run_window(self) -> tuple[InferenceRequest, float]:
        """Run the plant until a window is full; return the request to infer, and how long that took."""
        began = perf_counter()
        while True:
            seen = self.plant.run(self.learner.policy, self.learner.wanted)
            request = self.learner.observe(seen)
            if request is not None:
                return request, perf_counter() - began
            if seen.departures == 0:
                self._require_some()
                raise StopIteration

    def _require_some(self) -> None:
        """Raise `InvalidInput` if the plant came to its end before anything could be learned."""
        if self.learner.state.k == 0:
            window = self.learner.algorithm.schedule.window(1)
            raise InvalidInput(
                f"nothing to learn from: the plant came to its end after {window - self.learner.wanted} "
                f"departures, and the first window has {window}"
            )

    def save(self, file: str | Path, *, note: Mapping[str, Any] | None = None) -> None:
        """Write the state of the loop after its last epoch; ``learn(…, resume=file)`` goes on from there.

        `note` is kept with it: plain values, which ``corewise.learning.checkpoint.saved_note`` gives back.
        """
        if self._saved is None:
            raise InvalidInput("there is nothing to save before the first epoch is over")
        self._saved.write(file, note or {})

    def _summary(self) -> Mapping[str, object]:
        algorithm = self.learner.algorithm
        done = {"epochs": len(self.past), "departures": self.learner.state.departures}
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
        Whether policies are evaluated exactly under ``plant.truth``; or in which epochs.

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
    state, past = Checkpoint.resumed(resume, algorithm, plant)
    return Learning(plant, Learner.resumed(algorithm, state), diagnose=diagnose, past=past)
