"""A loop that was stopped and goes on: bit for bit what it would have been, or refused."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

import corewise as cw
from corewise.kit.archive import read_archive, write_archive
from corewise.kit.arrays import Floats
from corewise.learning.checkpoint import saved_note

File = pathlib.Path
EXAMPLE = cw.load_system("paper:3")
CROWDED = cw.System(
    5.0,
    [
        cw.JobClass("one", 2.0, 1.0, cw.Amdahl(0.6)),
        cw.JobClass("two", 1.8, 0.8, cw.PowerLaw(0.6), weight=2.0),
    ],
)
"""At a load of 0.85: tables have to grow on the way."""
DRIFT = cw.System(
    EXAMPLE.cores,
    EXAMPLE.classes,
    [cw.Change(50.0, "one", cw.Amdahl(0.9)), cw.Change(120.0, "two", cw.Amdahl(0.1))],
)


@cache
def recorded(per_job: bool) -> cw.SamplePath:
    path = cw.simulate(EXAMPLE, cw.Equi(), departures=400, rng=9, record=True).path
    assert path is not None
    return path.split() if per_job else path


Make = Callable[[int], tuple[cw.Plant, cw.Algorithm]]
"""From a seed to a plant and an algorithm."""


def simulated(algorithm: Callable[..., cw.Algorithm], system: cw.System = EXAMPLE, **how: Any) -> Make:
    return lambda seed: (
        cw.SimulatedPlant(system, rng=seed),
        algorithm(system, **{"departures": 40, "steps": 6, **how}),
    )


def drawn_by(source: type[np.random.BitGenerator]) -> Make:
    def make(seed: int) -> tuple[cw.Plant, cw.Algorithm]:
        plant = cw.SimulatedPlant(EXAMPLE, rng=np.random.Generator(source(seed)))
        return plant, cw.algorithm_1b(EXAMPLE, departures=40, steps=6, policy=cw.Whittle())

    return make


def replayed(per_job: bool, algorithm: Callable[..., cw.Algorithm]) -> Make:
    """Any seed will do: there is nothing to draw."""
    return lambda _: (
        cw.ReplayPlant(recorded(per_job)),
        algorithm(EXAMPLE, departures=20, steps=None, policy=cw.Whittle()),
    )


RARE = cw.System(
    20.0, [cw.JobClass("one", 0.02, 1.0, cw.Amdahl(0.4)), cw.JobClass("two", 1.9, 1.0, cw.Amdahl(1.0))]
)
ENDS = EXAMPLE.with_curves({"one": cw.Amdahl(0.0), "two": cw.Amdahl(1.0)})


def with_a_past(seed: int) -> tuple[cw.Plant, cw.Algorithm]:
    """A memory of so many widths that it is condensed, and all that is added to it."""
    rng = np.random.default_rng(1)
    seen = [
        cw.results.ClassStatistics.gathered(
            9, rng.uniform(0.5, 20.0, 9000), rng.poisson(0.1, 9000).astype(np.float64), np.ones(9000)
        )
        for _ in EXAMPLE.names
    ]
    memory = cw.memories.Everything(cw.Statistics(tuple(EXAMPLE.names), 9000.0, tuple(seen)))
    algorithm = cw.Algorithm("mine", EXAMPLE, cw.schedules.Constant(40), memory, 6, cw.Whittle())
    return cw.SimulatedPlant(EXAMPLE, rng=seed), algorithm


LOOPS: dict[str, Make] = {
    "1a": simulated(cw.algorithm_1a),
    "1b": simulated(cw.algorithm_1b),
    "1b growing": simulated(cw.algorithm_1b, power=0.5, first=cw.Fixed([0.1, 0.9])),
    "own growth": simulated(cw.algorithm_1a, growth=lambda k: 1.0 + 0.3 * k),
    "drift 1a": simulated(cw.algorithm_1a, DRIFT),
    "drift 1b": simulated(cw.algorithm_1b, DRIFT),
    "whittle": simulated(cw.algorithm_1b, policy=cw.Whittle()),
    "no news of a class": simulated(cw.algorithm_1a, RARE, departures=15, first={"one": cw.Amdahl(0.9)}),
    "estimates at their ends": simulated(cw.algorithm_1a, ENDS, departures=12, power=0.2),
    "much remembered": with_a_past,
    "crowded": simulated(cw.algorithm_1b, CROWDED, departures=2000, policy=cw.Whittle()),
    "replay 1a": replayed(False, cw.algorithm_1a),
    "replay 1b per job": replayed(True, cw.algorithm_1b),
    "adaptive": simulated(cw.adaptive),
    "adaptive growing": simulated(cw.adaptive, power=0.5, first={"one": cw.Amdahl(0.9)}),
    "adaptive, no news of a class": simulated(cw.adaptive, RARE, departures=15),
    "adaptive at the ends": simulated(cw.adaptive, ENDS, departures=12, inertia=0.5),
    "adaptive replay": replayed(True, cw.adaptive),
    **{
        source.__name__: drawn_by(source)
        for source in (
            np.random.PCG64,
            np.random.PCG64DXSM,
            np.random.MT19937,
            np.random.Philox,
            np.random.SFC64,
        )
    },
}


def exactly(value: Any) -> str:
    """Every digit, NaN included."""
    return json.dumps(value, sort_keys=True)


def rows(learning: cw.results.Learning) -> list[str]:
    return [exactly(epoch.as_mapping()) for epoch in learning]


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_resumed_is_uninterrupted(loop: str, tmp_path: File) -> None:
    """Stopped after any epoch, resumed once and again, by plants that were elsewhere."""
    file = tmp_path / "run"
    make, judged = LOOPS[loop], loop in ("1a", "drift 1b")
    whole = rows(cw.learn(*make(7), diagnose=judged))
    assert len(set(whole)) == len(whole) >= 6
    for stops in ([1], [3], [2, 2], [len(whole)]):
        learning = cw.learn(*make(7), diagnose=judged)
        done: list[str] = []
        for stop in stops:
            done += [exactly(next(learning).as_mapping()) for _ in range(stop)]
            learning.save(file)
            plant, algorithm = make(8)
            plant.run(cw.Equi(), 50)
            learning = cw.learn(plant, algorithm, resume=file, diagnose=judged)
            assert [exactly(row) for row in learning.past] == done
        assert done + rows(learning) == whole
        assert [exactly(row) for row in learning.past] == whole


def test_other_draws_give_other_runs() -> None:
    """What the test above would see if the state of the generator were lost."""
    for loop in ("1a", "drift 1b", "MT19937", "Philox", "SFC64"):
        assert rows(cw.learn(*LOOPS[loop](7))) != rows(cw.learn(*LOOPS[loop](8)))


def test_a_resumed_run_can_be_saved_at_once(tmp_path: File) -> None:
    """Somebody may stop it again before anything happens."""
    learning = cw.learn(*LOOPS["1a"](7))
    next(learning)
    next(learning)
    learning.save(tmp_path / "first")
    cw.learn(*LOOPS["1a"](8), resume=tmp_path / "first").save(tmp_path / "second")
    again = cw.learn(*LOOPS["1a"](9), resume=tmp_path / "second")
    assert rows(again) == rows(cw.learn(*LOOPS["1a"](7)))[2:]


def test_a_run_can_go_on_for_longer_than_was_meant(tmp_path: File) -> None:
    short, long = (simulated(cw.algorithm_1a, steps=steps) for steps in (3, 6))
    learning = cw.learn(*short(7))
    begun = rows(learning)
    learning.save(tmp_path / "run")
    assert rows(cw.learn(*short(8), resume=tmp_path / "run")) == []
    assert begun + rows(cw.learn(*long(8), resume=tmp_path / "run")) == rows(cw.learn(*long(7)))


def test_windows_that_are_listed_and_no_more(tmp_path: File) -> None:
    """A schedule need not go beyond the steps that it is for."""
    sizes = {1: 1.0, 2: 1.5, 3: 4.0}
    make = simulated(cw.algorithm_1a, growth=sizes.__getitem__, steps=3)
    whole = rows(cw.learn(*make(7)))
    for stop in (1, 3):
        learning = cw.learn(*make(7))
        done = [exactly(next(learning).as_mapping()) for _ in range(stop)]
        learning.save(tmp_path / "run")
        assert done + rows(cw.learn(*make(8), resume=tmp_path / "run")) == whole


# --- changes ----------------------------------------------------------------------------------------

JUMP = cw.System(10.0, EXAMPLE.classes, [cw.Change(500.0, "two", cw.Amdahl(0.1))])
"""From 0.7 after about 1000 departures."""


def watched(policy: cw.Policy | None, between_alarms: float = 5e3) -> Make:
    """Windows of 50, and in 100 of them an alarm although nothing changes: many changes, in all states."""
    how = {"departures": 50, "steps": 40, "policy": policy, "between_alarms": between_alarms}
    return simulated(cw.adaptive, JUMP, **how)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [None, cw.Whittle()], ids=["optimum", "whittle"])
def test_resumed_is_uninterrupted_whatever_was_found(policy: cw.Policy | None, tmp_path: File) -> None:
    """Stopped after every epoch, also while a change has been found and not been named."""
    make = watched(policy)
    epochs = [*cw.learn(*make(3), diagnose=False)]
    alarms = {epoch.k: alarm for epoch in epochs for alarm in epoch.alarms}
    assert "speed" in {alarm.kind for alarm in alarms.values()}
    assert any(k - 1 not in alarms and alarm.kind != "speed" for k, alarm in alarms.items())  # named later
    whole = [exactly(epoch.as_mapping()) for epoch in epochs]
    file, learning = tmp_path / "run", cw.learn(*make(3), diagnose=False)
    for k in range(1, len(whole) + 1):
        assert exactly(next(learning).as_mapping()) == whole[k - 1]
        learning.save(file)
        learning = cw.learn(*make(8), resume=file, diagnose=False)
    assert [exactly(row) for row in learning.past] == whole
    assert next(learning, None) is None


def test_a_run_of_other_false_alarms(tmp_path: File) -> None:
    """What was found would have been found sooner or later, or not at all."""
    learning = cw.learn(*watched(cw.Whittle())(3), diagnose=False)
    next(learning)
    learning.save(tmp_path / "run")
    cw.learn(*watched(cw.Whittle())(3), resume=tmp_path / "run")
    with pytest.raises(cw.errors.InvalidFile, match=r"is another one: .*5000\.0 there, and 6000\.0 here"):
        cw.learn(*watched(cw.Whittle(), 6e3)(3), resume=tmp_path / "run")


def test_a_run_of_before_there_were_alarms(tmp_path: File) -> None:
    """Its epochs have none; it goes on, and can be saved and resumed like any other."""
    whole = rows(cw.learn(*LOOPS["1b"](7)))
    learning = cw.learn(*LOOPS["1b"](7))
    next(learning)
    next(learning)
    learning.save(tmp_path / "new")
    about, arrays = read_archive(tmp_path / "new", "corewise learning 1", "saved run")
    for row in about["past"]:
        del row["alarms"]
    write_archive(tmp_path / "old", about.pop("format"), about, arrays)
    learning = cw.learn(*LOOPS["1b"](8), resume=tmp_path / "old")
    assert exactly(next(learning).as_mapping()) == whole[2]
    learning.save(tmp_path / "run")
    learning = cw.learn(*LOOPS["1b"](9), resume=tmp_path / "run")
    assert rows(learning) == whole[3:]
    assert [exactly(row) for row in learning.past] == whole


# --- interrupts -------------------------------------------------------------------------------------


class Stop(BaseException):
    """As Ctrl-C."""


class Fragile(cw.SimulatedPlant):
    """A plant that breaks down in some window, before it is run or after."""

    def __init__(self, seed: int, breaks: int = -1, *, after: bool = False) -> None:
        super().__init__(EXAMPLE, rng=seed)
        self.windows, self.breaks, self.after = 0, breaks, after

    def run(self, policy: cw.Policy, departures: int) -> cw.Statistics:
        self.windows += 1
        if self.windows == self.breaks and not self.after:
            raise Stop
        seen = super().run(policy, departures)
        if self.windows == self.breaks:
            raise Stop
        return seen


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("breaks", [2, 5])
def test_an_interrupt_in_a_window_costs_that_window_only(breaks: int, after: bool, tmp_path: File) -> None:
    algorithm = cw.algorithm_1a(EXAMPLE, departures=40, steps=6)
    whole = rows(cw.learn(Fragile(7), algorithm))
    learning = cw.learn(Fragile(7, breaks, after=after), algorithm)
    done: list[str] = []
    with pytest.raises(Stop):
        done.extend(exactly(epoch.as_mapping()) for epoch in learning)
    learning.save(tmp_path / "run")
    assert len(learning.past) == breaks - 1
    resumed = cw.learn(Fragile(8), algorithm, resume=tmp_path / "run")
    assert [exactly(row) for row in resumed.past] == whole[: breaks - 1]
    assert rows(resumed) == whole[breaks - 1 :]


def test_an_interrupt_between_window_and_verdict(tmp_path: File) -> None:
    """The window was seen and the policy adopted, but the epoch was not over."""

    class Shy(cw.SimulatedPlant):
        looks = 0

        @property
        def truth(self) -> cw.System:
            self.looks += 1
            if self.looks > at:
                raise Stop
            return super().truth

    algorithm = cw.algorithm_1b(EXAMPLE, departures=40, steps=5)
    at = 10**9
    whole = rows(cw.learn(Shy(EXAMPLE, rng=7), algorithm))
    plant = Shy(EXAMPLE, rng=7)
    learning = cw.learn(plant, algorithm)
    next(learning)
    next(learning)
    at = plant.looks
    with pytest.raises(Stop):
        next(learning)
    learning.save(tmp_path / "run")
    at = 10**9
    assert rows(cw.learn(Shy(EXAMPLE, rng=8), algorithm, resume=tmp_path / "run")) == whole[2:]


def test_an_interrupt_before_anything_was_learned(tmp_path: File) -> None:
    learning = cw.learn(Fragile(7, 1), cw.algorithm_1a(EXAMPLE, departures=40, steps=6))
    with pytest.raises(Stop):
        next(learning)
    with pytest.raises(cw.errors.InvalidInput, match="nothing to save before the first epoch is over"):
        learning.save(tmp_path / "run")
    assert [*tmp_path.iterdir()] == []


# --- what is refused --------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: File) -> File:
    """The run "1a" after its second epoch."""
    learning = cw.learn(*LOOPS["1a"](7))
    next(learning)
    next(learning)
    learning.save(tmp_path / "run")
    return tmp_path / "run"


def faster(system: cw.System) -> cw.System:
    return system.at_load(2.0 * system.load)


def misled(system: cw.System) -> Make:
    """A plant of the same classes with other curves, and an algorithm that knows no curves anyway."""
    other = system.with_curves({"one": cw.Amdahl(0.41)})
    return lambda seed: (cw.SimulatedPlant(other, rng=seed), cw.algorithm_1a(other, departures=40, steps=6))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (simulated(cw.algorithm_1b), "algorithm is '1a' there, and '1b' here"),
        (simulated(cw.algorithm_1a, faster(EXAMPLE)), "known system class 1 arrival_rate is 1.3 there, and"),
        (misled(EXAMPLE), "system class 1 speedup p is 0.4 there, and 0.41 here"),
        (simulated(cw.algorithm_1a, policy=cw.Whittle()), "policy is None there, and 'whittle' here"),
        (simulated(cw.algorithm_1a, departures=41), "windows 1 is 40 there, and 41 here"),
        (simulated(cw.algorithm_1a, power=0.7), "windows 2 is 68 there, and 65 here"),
        (simulated(cw.algorithm_1a, growth=lambda k: 1.7), "windows 1 is 40 there, and 68 here"),
        (
            lambda _: (cw.ReplayPlant(recorded(False)), cw.algorithm_1a(EXAMPLE, departures=40, steps=6)),
            "plant is 'SimulatedPlant' there, and 'ReplayPlant' here",
        ),
        (
            lambda _: (cw.SimulatedPlant(DRIFT, rng=1), cw.algorithm_1a(EXAMPLE, departures=40, steps=6)),
            "system change is None there, and [{'time': 50.0",
        ),
        (drawn_by(np.random.SFC64), "algorithm is '1a' there, and '1b' here"),
    ],
)
def test_a_run_of_something_else(saved: File, make: Make, message: str) -> None:
    with pytest.raises(cw.errors.InvalidFile) as error:
        cw.learn(*make(7), resume=saved)
    assert str(error.value).startswith(f"{saved}: the saved run is another one: {message}")


def test_a_window_that_differs_only_in_future(tmp_path: File) -> None:
    """After one window of 40, ⌈40 k^0.7⌉ is not ⌈40 k^0.75⌉ although both have begun with 40."""
    learning = cw.learn(*LOOPS["1a"](7))
    next(learning)
    learning.save(tmp_path / "run")
    with pytest.raises(cw.errors.InvalidFile, match="windows 2 is 68 there, and 65 here"):
        cw.learn(*simulated(cw.algorithm_1a, power=0.7)(7), resume=tmp_path / "run")


def test_another_rule_or_memory_of_the_same_name(saved: File) -> None:
    """An own algorithm may be called 1a as well, and a policy may be called optimal."""
    plant = cw.SimulatedPlant(EXAMPLE, rng=7)
    for how, message in (
        (
            (cw.schedules.Growing(40), cw.memories.Everything(), 6),
            "memory is 'Latest' there, and 'Everything' here",
        ),
        (
            (cw.schedules.Growing(40), cw.memories.Latest(), 6, cw.solve(EXAMPLE).policy),
            "policy is None there, and 'optimal'",
        ),
    ):
        with pytest.raises(cw.errors.InvalidFile, match=message):
            cw.learn(plant, cw.Algorithm("1a", EXAMPLE, *how), resume=saved)


def test_another_generator(tmp_path: File) -> None:
    learning = cw.learn(*drawn_by(np.random.SFC64)(7))
    next(learning)
    learning.save(tmp_path / "run")
    with pytest.raises(cw.errors.InvalidFile, match="the saved plant drew from SFC64, this one from Philox"):
        cw.learn(*drawn_by(np.random.Philox)(7), resume=tmp_path / "run")


def test_another_log(tmp_path: File) -> None:
    """A log with as many rows and the same end is another one if anything in it is."""
    learning = cw.learn(*LOOPS["replay 1a"](0))
    next(learning)
    learning.save(tmp_path / "run")
    path = recorded(False)
    time = path.time.copy()
    time[5] = 0.5 * (time[4] + time[6])
    algorithm = cw.algorithm_1a(EXAMPLE, departures=20, steps=None, policy=cw.Whittle())
    names = ("names", "pool", "time", "event", "job_class", "job", "cores")
    columns = {name: getattr(path, name) for name in names}
    again = cw.ReplayPlant(cw.SamplePath(**columns))
    assert next(cw.learn(again, algorithm, resume=tmp_path / "run")).k == 2
    for other in (cw.SamplePath(**{**columns, "time": time}), recorded(True)):
        with pytest.raises(cw.errors.InvalidFile, match=r"the saved run is of another log: .* rows from"):
            cw.learn(cw.ReplayPlant(other), algorithm, resume=tmp_path / "run")


def test_a_refused_plant_is_left_as_it_was(tmp_path: File) -> None:
    """It may go on to something else, with the draws it would have had."""
    learning = cw.learn(*drawn_by(np.random.SFC64)(7))
    next(learning)
    learning.save(tmp_path / "run")
    about, arrays = read_archive(tmp_path / "run", "corewise learning 1", "saved run")
    about["plant"]["rng"]["state"]["state"] = ["no", "numbers"]
    write_archive(tmp_path / "bad", about.pop("format"), about, arrays)
    whole = rows(cw.learn(*drawn_by(np.random.SFC64)(3)))
    plant, algorithm = drawn_by(np.random.SFC64)(3)
    with pytest.raises(cw.errors.InvalidFile):
        cw.learn(plant, algorithm, resume=tmp_path / "bad")
    assert rows(cw.learn(plant, algorithm)) == whole


def test_files_that_are_no_saved_runs(tmp_path: File, saved: File) -> None:
    about, arrays = read_archive(saved, "corewise learning 1", "saved run")
    del about["format"]
    cw.solve(EXAMPLE).policy.save(tmp_path / "policy")
    write_archive(tmp_path / "later", "corewise learning 2", about, arrays)
    (tmp_path / "text").write_text("k = 3\n")
    (tmp_path / "empty").write_bytes(b"")
    for name, message in {
        "policy": "has the format 'corewise policy 1', not 'corewise learning 1'",
        "later": "has the format 'corewise learning 2', not 'corewise learning 1'",
        "text": "text is not a saved run",
        "empty": "empty is not a saved run",
        "nothing": "nothing: cannot be read: no such file",
    }.items():
        with pytest.raises(cw.errors.InvalidFile, match=message):
            cw.learn(*LOOPS["1a"](7), resume=tmp_path / name)


@pytest.mark.parametrize(
    "harm",
    [
        {"k": None},
        {"departures": "many"},
        {"time": []},
        {"estimated": {}},
        {"believed": 3},
        {"memory": 3},
        {"memory": [{}]},
        {"plant": None},
        {"plant": {"counts": [1], "time": 0.0, "rng": {}}},
        {"plant": {"counts": [1, 1], "time": float("nan"), "rng": {}}},
        {"past": None},
        {"identity": None},
        {"identity": {}},
        {"identity": {"windows": []}},
    ],
    ids=str,
)
def test_a_file_that_does_not_add_up(tmp_path: File, saved: File, harm: dict[str, Any]) -> None:
    about, arrays = read_archive(saved, "corewise learning 1", "saved run")
    write_archive(tmp_path / "bad", about.pop("format"), {**about, **harm}, arrays)
    with pytest.raises(cw.errors.InvalidFile):
        cw.learn(*LOOPS["1a"](7), resume=tmp_path / "bad")


@pytest.mark.parametrize("missing", ["k", "estimated", "memory", "plant", "past", "identity"])
def test_a_file_that_lacks_something(tmp_path: File, saved: File, missing: str) -> None:
    about, arrays = read_archive(saved, "corewise learning 1", "saved run")
    del about[missing]
    write_archive(tmp_path / "bad", about.pop("format"), about, arrays)
    with pytest.raises(cw.errors.InvalidFile, match=f"'{missing}'"):
        cw.learn(*LOOPS["1a"](7), resume=tmp_path / "bad")
    about, arrays = read_archive(saved, "corewise learning 1", "saved run")
    fewer = {name: array for name, array in arrays.items() if name != "0.1.widths"}
    write_archive(tmp_path / "bad", about.pop("format"), about, fewer)
    with pytest.raises(cw.errors.InvalidFile, match=r"0\.1\.widths"):
        cw.learn(*LOOPS["1a"](7), resume=tmp_path / "bad")


def test_damaged_files(tmp_path: File, saved: File) -> None:
    """Single bits flipped, bytes cut off or added anywhere: the same run, or `InvalidFile`."""
    content = saved.read_bytes()
    plant, algorithm = simulated(cw.algorithm_1a)(7)
    rng = np.random.default_rng(5)
    damaged = [content[:size] for size in rng.integers(0, len(content), 40)]
    damaged += [content[at:] for at in rng.integers(1, len(content), 20)]
    for bit in rng.integers(0, 8 * len(content), 300).tolist():
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(changed))
    intact = cw.learn(plant, algorithm, resume=saved).learner.state
    refused = 0
    for harmed in damaged:
        (tmp_path / "bad").write_bytes(harmed)
        try:
            found = cw.learn(plant, algorithm, resume=tmp_path / "bad").learner.state
        except cw.errors.InvalidFile:
            refused += 1
        else:
            assert (found.k, found.departures, found.time) == (intact.k, intact.departures, intact.time)
            assert (found.plug_in, found.estimated) == (intact.plug_in, intact.estimated)
    assert refused > 250


@dataclass(frozen=True)
class Logarithmic(cw.SpeedUp):
    """A family of one's own."""

    p: float
    family: ClassVar[str] = "logarithmic"
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (0.0, 1.0)}

    def rate_above(self, z: Floats) -> Floats:
        return 1.0 + self.p * np.log(z)


def test_curves_that_no_file_can_hold(tmp_path: File, saved: File) -> None:
    system = EXAMPLE.with_curves({"one": Logarithmic(0.5)})
    make = simulated(cw.algorithm_1a, system, policy=cw.Whittle())
    learning = cw.learn(*make(7))
    next(learning)
    before = saved.read_bytes()
    with pytest.raises(cw.errors.InvalidCurve, match=r"class 'one': a file can hold .*, not Logarithmic"):
        learning.save(saved)
    assert saved.read_bytes() == before
    with pytest.raises(cw.errors.InvalidCurve, match="not Logarithmic"):
        cw.learn(*make(7), resume=saved)


class Simple:
    """A plant that cannot say where it is."""

    truth = None

    def run(self, policy: cw.Policy, departures: int) -> cw.Statistics:
        return cw.SimulatedPlant(EXAMPLE, rng=1).run(policy, departures)


def test_plants_that_cannot_be_saved(tmp_path: File, saved: File) -> None:
    algorithm = cw.algorithm_1a(EXAMPLE, departures=40, steps=6)
    learning = cw.learn(Simple(), algorithm)
    next(learning)
    with pytest.raises(cw.errors.InvalidInput, match=r"Simple cannot be saved: it needs snapshot"):
        learning.save(tmp_path / "simple")
    assert not (tmp_path / "simple").exists()
    with pytest.raises(cw.errors.InvalidInput, match=r"Simple cannot go on from a saved run"):
        cw.learn(Simple(), algorithm, resume=saved)
    with pytest.raises(cw.errors.InvalidInput, match=r"expected an algorithm such as .*, got '1a'"):
        cw.learn(cw.SimulatedPlant(EXAMPLE), "1a", resume=saved)  # type: ignore[arg-type]


class Careless(cw.SimulatedPlant):
    """A plant of one's own that hands out more than plain values."""

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "seen": np.arange(3)}


def test_what_a_plant_says_must_be_plain(saved: File) -> None:
    learning = cw.learn(Careless(EXAMPLE, rng=1), cw.algorithm_1a(EXAMPLE, departures=40, steps=6))
    next(learning)
    before = saved.read_bytes()
    with pytest.raises(cw.errors.InvalidInput, match=r"must be plain values: .*ndarray"):
        learning.save(saved)
    assert saved.read_bytes() == before


def test_a_note_can_be_left(saved: File) -> None:
    assert saved_note(saved) == {}
    learning = cw.learn(*LOOPS["1a"](8), resume=saved)
    note = {"seed": 7, "of": ["a", None, 0.1]}
    learning.save(saved, note=note)
    assert saved_note(saved) == note
    assert rows(cw.learn(*LOOPS["1a"](9), resume=saved)) == rows(cw.learn(*LOOPS["1a"](7)))[2:]


@pytest.mark.parametrize(("where", "message"), [("", "is a directory"), ("no/such/run", "no such file")])
def test_files_that_cannot_be_written(tmp_path: File, where: str, message: str) -> None:
    learning = cw.learn(*LOOPS["1a"](7))
    next(learning)
    with pytest.raises(cw.errors.InvalidFile, match=f"cannot be written: {message}"):
        learning.save(tmp_path / where)
    with pytest.raises(cw.errors.InvalidFile, match="expected the path of a file, got 3"):
        learning.save(3)  # type: ignore[arg-type]
    assert [*tmp_path.iterdir()] == []
    assert next(learning).k == 2
