"""The order in which calls of bags are begun, beside its definition."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from corewise.live.engines.dispatcher import BagQueue


@dataclass(eq=False)
class Bag:
    number: int
    assigned: int = 0
    in_flight: int = 0
    has_calls: bool = True


def naive(bags: list[Any]) -> Any:
    """The bag that lacks most, then the one with the fewest calls in flight, then the oldest."""
    waiting = [bag for bag in bags if bag.has_calls]
    return min(waiting, key=lambda bag: (min(bag.in_flight - bag.assigned, 0), bag.in_flight), default=None)


def test_the_first_is_that_of_the_definition_whatever_changes() -> None:
    rng, queue, bags = Random(20262), BagQueue(), list[Any]()
    outdated = 0
    for number in range(20_000):
        if not bags or rng.random() < 0.05:
            bags.append(Bag(number))
            queue.update(bags[-1])
        bag = rng.choice(bags)
        action = rng.randrange(6)
        if action == 0 and len(bags) > 1:
            queue.drop(bag)
            bags.remove(bag)
        else:
            bag.assigned = rng.randrange(4) if action == 1 else bag.assigned
            bag.in_flight = max(bag.in_flight + rng.choice((-1, 1)), 0) if action < 5 else bag.in_flight
            bag.has_calls = bag.has_calls if action < 4 else rng.random() < 0.7
            queue.update(bag)
        assert queue.first() is naive(bags)
        assert len(queue) == sum(bag.has_calls for bag in bags)
        outdated = max(outdated, len(queue._heap) - 2 * len(queue))
    assert outdated <= 65
