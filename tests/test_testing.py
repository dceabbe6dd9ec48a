"""The conformance checks: every built-in passes, and a wrong plug-in fails the check of what it breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise import testing
from corewise.live.engines.base import Gang
from corewise.observation import events
from corewise.policies.base import BoundPolicy
from corewise.testing import Check, check_engine, check_plant, check_policy, check_speedup, checks_for

SYSTEM = cw.load_system("paper:1")


def over_threads() -> cw.live.engines.ExecutorEngine:
    return cw.live.engines.ExecutorEngine(ThreadPoolExecutor(2))


def over_processes() -> cw.live.engines.ExecutorEngine:
    return cw.live.engines.ExecutorEngine(ProcessPoolExecutor(2, mp_context=get_context("spawn")))


def replayed() -> cw.ReplayPlant:
    path = cw.simulate(SYSTEM, "equi", departures=75, rng=7, record=True).path
    assert path is not None
    return cw.ReplayPlant(path)


def sized() -> cw.System:
    return SYSTEM.with_classes([replace(known, sizes=cw.sizes.Erlang(2)) for known in SYSTEM.classes])


BUILT_IN: dict[str, Callable[[], object]] = {
    **{
        repr(curve): partial(lambda curve: curve, curve)
        for curve in (
            *(cw.Amdahl(p) for p in (0.0, 0.5, 1.0)),
            *(cw.PowerLaw(p) for p in (0.1, 0.9)),
            *(cw.Gustafson(p) for p in (0.0, 0.5, 1.0)),
            *(cw.Usl(sigma, kappa) for sigma, kappa in ((0.0, 0.0), (0.1, 0.01), (0.5, 0.0))),
            cw.Tabulated([(1, 1.0), (2, 1.8), (4, 3.0)]),
            cw.WholeCoreTable([0, 1, 1.9, 2.1, 3.6, 3.2]),
            cw.ByProgress([0.0, 0.4], [cw.Amdahl(0.5), cw.WholeCoreTable([0, 1, 1.9, 1.5])]),
        )
    },
    **{
        policy.name: partial(lambda policy: policy, policy)
        for policy in (
            *(cw.Equi(), cw.Greedy(), cw.Whittle(), cw.Fixed([0.25, 0.75]), cw.Priority(["two", "one"])),
            *(
                cw.WholeCores(cw.Whittle()),
                cw.OwnPolicy("by count", lambda jobs, system: system.cores * jobs / jobs.sum()),
            ),
        )
    },
    "tabular": lambda: cw.solve(SYSTEM).policy,
    "simulated plant": lambda: cw.SimulatedPlant(SYSTEM, rng=7),
    "simulated plant of sized jobs": lambda: cw.SimulatedPlant(sized(), rng=7),
    "replayed plant": replayed,
    "engine over threads": lambda: over_threads,
    "engine over processes": lambda: over_processes,
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_passes_every_check(name: str) -> None:
    checks = list(checks_for(BUILT_IN[name]()))
    assert len(checks) >= 5
    for check in checks:
        check()


@pytest.mark.slow
def test_an_improved_policy_passes_every_check() -> None:
    check_policy(cw.Improved(steps=1, events=20_000), [SYSTEM.at_load(0.8)])


# --- curves that are none -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve(cw.SpeedUp):
    """Curve with parameters p and q, whose formula is another in each subclass."""

    p: float = 0.5
    q: float = 0.5
    family = "mine"
    bounds = {"p": (0.0, 1.0)}  # noqa: RUF012

    def rate_above(self, z: Any) -> Any:
        return 1.0 + self.p * np.log(z)


class Infinite(Curve):
    def rate_above(self, z: Any) -> Any:
        return np.where(z > 10.0, np.inf, super().rate_above(z))


class HalfAtOne(Curve):
    def rate_above(self, z: Any) -> Any:
        return 0.5 * super().rate_above(z)


class Falling(Curve):
    def rate_above(self, z: Any) -> Any:
        return super().rate_above(np.minimum(z, 20.0 - z))


class Convex(Curve):
    def rate_above(self, z: Any) -> Any:
        return 1.0 + 0.1 * (z - 1.0) ** (1.1 + 0.2 * self.p)


class WrongSlope(Curve):
    def slope_above(self, z: Any) -> Any:
        return 2.0 * self.p / z


class WrongGradient(Curve):
    def gradient_above(self, z: Any) -> Any:
        return -np.log(z)[:, None]


class OtherParameters(Curve):
    @property
    def parameters(self) -> dict[str, float]:
        return {"q": self.q}


class Unidentifiable(Curve):
    bounds = {"p": (0.0, 1.0), "q": (0.0, 1.0)}  # noqa: RUF012

    def rate_above(self, z: Any) -> Any:
        return 1.0 + 0.5 * (self.p + self.q) * np.log(z)


# --- policies that are none ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """Policy of a rule from counts to cores, both of shape (classes, states)."""

    rule: Callable[[cw.System, Any], Any]
    name: Any = "mine"

    def on(self, system: cw.System) -> BoundPolicy:
        return BoundPolicy(system, "mine", partial(self.rule, system))


@dataclass(frozen=True)
class Unbound:
    name: str = "unbound"

    def on(self, system: cw.System) -> Any:
        return system


def shared(system: cw.System, counts: Any) -> Any:
    return system.cores * counts / np.maximum(counts.sum(axis=0), 1)


def twice(system: cw.System, counts: Any) -> Any:
    return 2.0 * shared(system, counts)


def along_states(system: cw.System, counts: Any) -> Any:
    return system.cores * counts / np.maximum(counts.sum(), 1)


@dataclass(frozen=True)
class Forgetful:
    """Policy with other cores whenever it is bound."""

    name: str = "forgetful"
    bindings: Any = None

    def on(self, system: cw.System) -> BoundPolicy:
        self.bindings.append(system)
        share = 1.0 / len(self.bindings)
        return BoundPolicy(system, "forgetful", lambda counts: share * shared(system, counts))


# --- plants that are none -----------------------------------------------------------------------------


class OwnPlant:
    """Plant over a simulated one, broken in one way in each subclass."""

    def __init__(self) -> None:
        self.plant = cw.SimulatedPlant(SYSTEM, rng=7)
        self.runs = 0

    @property
    def truth(self) -> Any:
        return self.plant.truth

    def run(self, policy: cw.Policy, departures: int) -> Any:
        self.runs += 1
        return self.plant.run(policy, departures)


class Mistaken(OwnPlant):
    @property
    def truth(self) -> Any:
        return "paper:1"


class Counting(OwnPlant):
    def run(self, policy: cw.Policy, departures: int) -> Any:
        return super().run(policy, departures).departures


class Generous(OwnPlant):
    def run(self, policy: cw.Policy, departures: int) -> Any:
        return super().run(policy, departures + 1)


class Renaming(OwnPlant):
    def run(self, policy: cw.Policy, departures: int) -> Any:
        window = super().run(policy, departures)
        return replace(window, names=tuple(f"{name} {self.runs}" for name in window.names))


class Larger(OwnPlant):
    def run(self, policy: cw.Policy, departures: int) -> Any:
        window = super().run(policy, departures)
        wider = [replace(seen, widths=seen.widths + SYSTEM.cores) for seen in window.classes]
        return replace(window, classes=tuple(wider))


class Restless(OwnPlant):
    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: Any) -> None:
        pass


# --- engines that are none ----------------------------------------------------------------------------


class OwnEngine:
    """Engine in a thread of its own, one round a millisecond; broken in one way in each subclass."""

    pool: Any = 2
    pause: Any = 0.0

    def start(self, report: Any) -> None:
        self.report = report
        self.jobs: dict[str, Gang] = {}
        self.answers: dict[str, Any] = {}
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def submit(self, job: Any) -> None:
        self.jobs[job.holding.name] = job

    def set_cores(self, job: str, cores: int) -> None:
        if (found := self.jobs.get(job)) is not None and found.holding.cores != cores:
            found.holding.cores = cores
            self.report(events.CoresHeld, job, cores)

    def end(self, job: str) -> None:
        if self.jobs.pop(job, None) is not None:
            self.report(events.JobEnded, job, "cancelled")

    def close(self) -> None:
        self.closed.set()
        self.thread.join()

    def failed(self, job: str) -> None:
        self.report(events.JobEnded, job, "failed")

    def work(self) -> None:
        while not self.closed.wait(0.001):
            for name, job in list(self.jobs.items()):
                if job.holding.cores > 0:
                    self.advance(name, job)

    def advance(self, name: str, job: Gang) -> None:
        try:
            rounds: Any = job.rounds
            calls = rounds.send(self.answers.get(name))
            self.answers[name] = [call() for call in calls]
        except StopIteration as stop:
            self.jobs.pop(name, None)
            self.report(events.JobFinished, name, then=partial(job.future.set_result, stop.value))
        except ValueError:
            self.jobs.pop(name, None)
            self.failed(name)


class NoCores(OwnEngine):
    pool = 0


class Early(OwnEngine):
    def submit(self, job: Any) -> None:
        super().submit(job)
        self.set_cores(job.holding.name, 1)


class Lossy(OwnEngine):
    def advance(self, name: str, job: Gang) -> None:
        super().advance(name, job)
        self.answers[name] = [7]


class Stiff(OwnEngine):
    def set_cores(self, job: str, cores: int) -> None:
        super().set_cores(job, 1)


class Restarting(OwnEngine):
    def set_cores(self, job: str, cores: int) -> None:
        if job in self.jobs and self.jobs[job].holding.cores == cores:
            super().set_cores(job, 0)
        super().set_cores(job, cores)


class Endless(OwnEngine):
    def end(self, job: str) -> None:
        pass


class Optimistic(OwnEngine):
    def failed(self, job: str) -> None:
        self.report(events.JobFinished, job)


class Talkative(OwnEngine):
    def close(self) -> None:
        super().close()
        threading.Timer(0.01, self.report, (events.JobEnded, "a", "lost")).start()


class Blocking(OwnEngine):
    def set_cores(self, job: str, cores: int) -> None:
        super().set_cores(job, cores)
        while job in self.jobs and not self.closed.wait(0.001):
            pass


WRONG: list[tuple[Callable[[], object], str]] = [
    (Infinite, "rates are finite and of the shape of the widths"),
    (HalfAtOne, "up to one core the rate is the width"),
    (Falling, "the curve is nondecreasing"),
    (Convex, "the curve is concave"),
    (WrongSlope, "the slope is the derivative in the width"),
    (WrongGradient, "the gradient is the derivative in the parameters"),
    (OtherParameters, "parameters are those with bounds"),
    (Unidentifiable, "different parameters give different curves"),
    (lambda: Bound(shared, name=7), "the name is text"),
    (Unbound, "binding gives a bound policy"),
    (lambda: Bound(twice), "cores are a split of the pool"),
    (lambda: Bound(along_states), "a state has the same cores among others as alone"),
    (lambda: Forgetful(bindings=[]), "binding twice gives the same cores"),
    (Mistaken, "the truth is a system or None"),
    (Counting, "a window is sufficient statistics"),
    (Generous, "a window has the departures asked for until the plant ends"),
    (Renaming, "all windows are of the same classes"),
    (Larger, "jobs hold no more cores than there are"),
    (Restless, "a restored snapshot gives the same window"),
    (lambda: NoCores, "it has cores and a pause"),
    (lambda: Early, "a job begins when it is given cores"),
    (lambda: Lossy, "a job runs to its result"),
    (lambda: Stiff, "cores move while a job runs"),
    (lambda: Restarting, "setting the same cores again changes nothing"),
    (lambda: Endless, "a job that is ended ends"),
    (lambda: Optimistic, "a job that fails is reported as failed"),
    (lambda: Talkative, "a closed engine reports nothing"),
    (lambda: Blocking, "cores move while a job runs"),
]


@pytest.mark.parametrize(("make", "broken"), WRONG, ids=[broken for _, broken in WRONG])
def test_a_wrong_plug_in_fails_the_check_of_what_it_breaks(
    make: Callable[[], object], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "_TIMEOUT", 0.5)
    monkeypatch.setattr(testing, "_UNCHANGED", 0.5)
    (check,) = [check for check in checks_for(make()) if check.name == broken]
    with pytest.raises(AssertionError, match=broken):
        check()


def test_every_check_has_a_plug_in_that_fails_it() -> None:
    every: list[Check] = []
    for plugin in (cw.Amdahl(0.5), cw.Equi(), cw.SimulatedPlant(SYSTEM), over_threads):
        every += checks_for(plugin)
    assert {check.name for check in every} == {broken for _, broken in WRONG}


@pytest.mark.parametrize(
    "plugin", [Curve(), Bound(shared), OwnPlant(), OwnEngine], ids=["curve", "policy", "plant", "engine"]
)
def test_the_plug_ins_that_others_are_broken_from_pass(plugin: object) -> None:
    for check in checks_for(plugin):
        check()


def test_one_function_for_each_kind_runs_all_of_its_checks() -> None:
    check_speedup(Curve(), cores=8.0)
    check_policy(Bound(shared), [SYSTEM])
    check_plant(OwnPlant())
    check_engine(OwnEngine)
    failing: list[tuple[Callable[[Any], None], object]] = [
        (check_speedup, Convex()),
        (check_policy, Bound(twice)),
        (check_plant, Generous()),
    ]
    for check, wrong in failing:
        with pytest.raises(AssertionError):
            check(wrong)
    with pytest.raises(AssertionError):
        check_engine(NoCores)


def test_a_policy_that_fits_no_system_says_so() -> None:
    with pytest.raises(AssertionError, match="give it some by systems="):
        check_policy(cw.Priority(["a", "b"]))


def test_what_is_no_plug_in_is_refused() -> None:
    with pytest.raises(TypeError, match="got 7"):
        list(checks_for(7))
    with pytest.raises(TypeError, match="each check needs a new one"):
        list(checks_for(over_threads()))
