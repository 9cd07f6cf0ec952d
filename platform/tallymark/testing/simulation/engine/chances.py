"""The seed of a run, and the streams of random numbers that are drawn from it."""

from __future__ import annotations

from random import Random


class Chances:
    """Each purpose has a stream of its own, so one more draw for the network does not change what
    the disk does."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def of(self, purpose: str) -> Random:
        """The stream of this name; the same object at every call."""
        if purpose not in self._streams:
            self._streams[purpose] = self.fresh(purpose)
        return self._streams[purpose]

    def fresh(self, purpose: str) -> Random:
        """A stream of this name from its beginning, for something that has its own."""
        return Random(f"{self.seed}/{purpose}")
