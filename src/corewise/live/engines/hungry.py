"""Bags that have calls to begin, in the order in which to feed them."""

from __future__ import annotations

import heapq

from corewise.live.engines.running import RunningBag

__all__ = ["HungryBags"]

_SPARE = 64  # outdated entries that are kept at least

_Rank = tuple[int, int, int]


class HungryBags:
    """Queue of bags: first the one that lacks most of what it was told, then the one with fewest calls.

    Of equals the oldest is first. An entry of the heap that is not the last of its bag is outdated; those are
    passed over, and all of them dropped once they are more than the bags.
    """

    def __init__(self) -> None:
        self._ranks: dict[RunningBag, _Rank] = {}
        self._heap: list[tuple[_Rank, RunningBag]] = []

    def __len__(self) -> int:
        """Return how many bags have calls to begin."""
        return len(self._ranks)

    def update(self, bag: RunningBag) -> None:
        """Put a bag where it belongs now, or nowhere if it has no call to begin."""
        if not bag.hungry:
            self._ranks.pop(bag, None)
            return
        rank = (min(bag.in_flight - bag.told, 0), bag.in_flight, bag.number)
        if self._ranks.get(bag) != rank:
            self._ranks[bag] = rank
            heapq.heappush(self._heap, (rank, bag))
        if len(self._heap) > 2 * len(self._ranks) + _SPARE:
            self._heap = [(rank, bag) for bag, rank in self._ranks.items()]
            heapq.heapify(self._heap)

    def drop(self, bag: RunningBag) -> None:
        """Forget a bag."""
        self._ranks.pop(bag, None)

    def first(self) -> RunningBag | None:
        """Return the bag to feed next, None if none has a call to begin."""
        while self._heap:
            rank, bag = self._heap[0]
            if self._ranks.get(bag) == rank:
                return bag
            heapq.heappop(self._heap)
        return None
