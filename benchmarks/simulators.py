"""Other ways to simulate the same system, each written to its own best advantage.

The system is a pool under a policy (Example 1 of the paper under EQUI): jobs of class i arrive at rate λ_i
and leave at rate n_i μ_i s_i(x_i/n_i), x the cores that the policy gives in state n. Whatever a peer needs of
that is tabulated before its clock starts.

Every ``simulate_with_…`` runs from the empty system until so many jobs have left, and returns what its clock
and its path said. The packages are imported before their clocks start.
"""

from __future__ import annotations

import importlib.util
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Generator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

import corewise as cw
from benchmarks.chain import Model, Outcome, compiler, simulate_with_c, simulate_with_c_inline


@dataclass(frozen=True)
class Peer:
    """One row of the table: `package` is the name of a module, or "C"."""

    name: str
    package: str
    simulate: Callable[[Model, int, int], Outcome]
    departures: int
    stand_in: Callable[[cw.System], cw.System] | None = None
    """The system that is simulated instead, where a package cannot express the one that was asked for."""

    @property
    def absence(self) -> str | None:
        """Why the peer cannot run here, if it cannot."""
        if self.package == "C":
            return None if compiler() else "there is no C compiler (cc, gcc or clang)"
        found = importlib.util.find_spec(self.package) is not None
        return None if found else f"{self.package} is not installed (`make bench` installs it)"


# --- SimPy --------------------------------------------------------------------------------------------------


def simulate_with_simpy(model: Model, departures: int, seed: int) -> Outcome:
    """One SimPy process that runs the race: a timeout to the next event, then which event it was."""
    import simpy

    classes = len(model.system.classes)
    totals, jobs = model.rates.sum(axis=1).tolist(), model.space.counts.sum(axis=0).tolist()
    thresholds, steps = model.cumulative[:, :-1].tolist(), model.steps.tolist()
    draw = random.Random(seed)
    area, events = 0.0, 0

    def race(env: simpy.Environment) -> Generator[simpy.Event, None, None]:
        nonlocal area, events
        state, left = 0, departures
        while left:
            wait = draw.expovariate(totals[state])
            yield env.timeout(wait)
            area += jobs[state] * wait
            move = bisect_right(thresholds[state], draw.random())
            state += steps[move]
            events += 1
            if move >= classes:
                left -= 1

    env = simpy.Environment()
    env.process(race(env))
    began = perf_counter()
    env.run()
    return Outcome(area / env.now, env.now, events, perf_counter() - began)


def simulate_with_simpy_jobs(model: Model, departures: int, seed: int) -> Outcome:
    """A SimPy process for every job; it waits for its end and is interrupted when another comes or leaves."""
    import simpy

    env = simpy.Environment()
    pool = Pool(env, model, departures, random.Random(seed))
    for i in range(len(model.system.classes)):
        env.process(pool.arrivals(i))
    began = perf_counter()
    env.run(until=pool.closed)
    return Outcome(pool.area / env.now, env.now, pool.events, perf_counter() - began)


class Pool:
    """The jobs of a SimPy simulation, and the events and job-time so far."""

    def __init__(self, env: Any, model: Model, departures: int, draw: random.Random) -> None:
        self.env, self.draw, self.left = env, draw, departures
        self.classes, self.speeds, self.steps = model.system.classes, model.speeds, model.steps.tolist()
        self.arrival_rates = model.system.arrival_rates.tolist()
        self.counts = model.space.counts.sum(axis=0).tolist()
        self.closed = env.event()
        self.jobs: dict[Any, None] = {}  # a set that keeps its order, so that a seed gives one path
        self.state = self.events = 0
        self.area = self.changed = 0.0

    def arrivals(self, i: int) -> Generator[Any, None, None]:
        while True:
            yield self.env.timeout(self.draw.expovariate(self.arrival_rates[i]))
            self.env.process(self.job(i))

    def job(self, i: int) -> Generator[Any, None, None]:
        from simpy import Interrupt

        env, process = self.env, self.env.active_process
        work = drawn_size(self.classes[i], self.draw)
        self.change(i)
        self.jobs[process] = None
        while True:
            speed, began = self.speeds[self.state][i], env.now
            try:
                yield env.timeout(work / speed)
                break
            except Interrupt:
                work -= (env.now - began) * speed
        del self.jobs[process]
        self.change(len(self.classes) + i)
        self.left -= 1
        if self.left == 0:
            self.closed.succeed()

    def change(self, move: int) -> None:
        """Count an event and tell all jobs present, without the one whose event it is."""
        self.area += self.counts[self.state] * (self.env.now - self.changed)
        self.changed = self.env.now
        self.state += self.steps[move]
        self.events += 1
        for process in self.jobs:
            process.interrupt()


def drawn_size(job_class: cw.JobClass, draw: random.Random) -> float:
    """A size of a class by Python's own random numbers: exponential, or lognormal."""
    rate, law = job_class.known_size_rate, job_class.sizes
    if isinstance(law, cw.sizes.Lognormal):
        sigma = math.sqrt(math.log1p(law.cv2))
        return draw.lognormvariate(-0.5 * sigma**2, sigma) / rate
    return draw.expovariate(rate)


# --- Ciw ----------------------------------------------------------------------------------------------------


def simulate_with_ciw(model: Model, departures: int, seed: int) -> Outcome:
    """The same system in Ciw, by a node of its own kind, as Ciw's manual has it for behaviour of one's own.

    It is Ciw's processor-sharing node with the speed of a job looked up by class and state; it overrides the
    one method that knows how fast jobs are served.
    """
    import ciw

    names, strides, speeds = model.system.names, model.space.strides.tolist(), model.speeds
    stride = dict(zip(names, strides, strict=True))
    position = {name: i for i, name in enumerate(names)}

    class MalleableNode(ciw.PSNode):  # type: ignore[misc]
        speed = speeds[0]

        def update_all_service_end_dates(self) -> None:
            now, before = self.now, self.speed
            self.speed = after = speeds[sum(stride[job.customer_class] for job in self.all_individuals)]
            for job in self.all_individuals:
                i = position[job.customer_class]
                job.time_left -= (now - job.date_last_update) * before[i]
                job.service_end_date = now + job.time_left / after[i]
                job.date_last_update = now

    return run_ciw(model.system, MalleableNode, departures, seed)


def simulate_with_plain_ciw(model: Model, departures: int, seed: int) -> Outcome:
    """Ciw at its quickest: a node with servers enough for all, where no job's speed depends on the others."""
    import ciw

    return run_ciw(model.system, ciw.Node, departures, seed)


def run_ciw(system: cw.System, node: Any, departures: int, seed: int) -> Outcome:
    import ciw

    network = ciw.create_network(
        arrival_distributions={c.name: [ciw.dists.Exponential(c.arrival_rate)] for c in system.classes},
        service_distributions={c.name: [ciw_law(c)] for c in system.classes},
        number_of_servers=[float("inf")],
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(network, node_class=node)
    began = perf_counter()
    simulation.simulate_until_max_customers(departures)
    seconds = perf_counter() - began
    now = simulation.current_time
    left = [job.data_records[0] for job in simulation.nodes[-1].all_individuals]
    here = simulation.nodes[1].all_individuals
    area = sum(job.exit_date - job.arrival_date for job in left) + sum(now - job.arrival_date for job in here)
    return Outcome(area / now, now, 2 * len(left) + len(here), seconds)


def ciw_law(job_class: cw.JobClass) -> Any:
    """The law of the sizes of a class in Ciw: exponential, or lognormal."""
    import ciw

    rate, law = job_class.known_size_rate, job_class.sizes
    if isinstance(law, cw.sizes.Lognormal):
        sigma = math.sqrt(math.log1p(law.cv2))
        return ciw.dists.Lognormal(-0.5 * sigma**2 - math.log(rate), sigma)
    return ciw.dists.Exponential(rate)


def unshared(system: cw.System) -> cw.System:
    """The system where every job is as fast as if it were alone: on one core of plenty, at that speed."""
    alone = [float(c.speedup.rate(np.array(system.cores))) for c in system.classes]
    classes = [
        cw.JobClass(
            c.name, arrival_rate=c.arrival_rate, size_rate=c.known_size_rate * speed, speedup=cw.Amdahl(0.0)
        )
        for c, speed in zip(system.classes, alone, strict=True)
    ]
    return cw.System(cores=1000, classes=classes)


PEERS = (
    Peer("C, NumPy's generator", "C", simulate_with_c, 10_000_000),
    Peer("C, generator inlined", "C", simulate_with_c_inline, 10_000_000),
    Peer("SimPy, one process", "simpy", simulate_with_simpy, 100_000),
    Peer("SimPy, a process a job", "simpy", simulate_with_simpy_jobs, 30_000),
    Peer("Ciw, own node", "ciw", simulate_with_ciw, 20_000),
    Peer("Ciw, nothing shared", "ciw", simulate_with_plain_ciw, 20_000, stand_in=unshared),
)
