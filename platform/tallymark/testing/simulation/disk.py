"""The disk of a simulated host: a disk in memory on which a sync takes time, and which can end its
process in the middle of its work."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.process import RUNNING, ProcessDiedError

_SYNC_SECONDS: Final = 0.002
_SLOW_SYNCS: Final = 0.03


class SimulatedDisk(MemoryFiles):
    """``crash``: called at the operation that :meth:`crash_in` has chosen; it does not return."""

    def __init__(self, jobs: Jobs, chance: Random) -> None:
        super().__init__()
        self._jobs = jobs
        self._chance = chance
        self._crash_at: tuple[int, Callable[[], None], Callable[[], bool]] | None = None

    def crash_in(
        self, operations: int, crash: Callable[[], None], applies: Callable[[], bool]
    ) -> None:
        """Crash at the ``operations``-th change asked of the disk from now on, if it ``applies``
        then: the process that was to crash may have ended before."""
        self._crash_at = (self.operations + operations, crash, applies)

    def calm(self) -> None:
        """No more faults."""
        self._crash_at = None
        self.empty()
        self.fail_operation(-1)

    def power_failure(self) -> None:
        """What was synced stays, and a part of what was appended since, drawn from the seed."""
        whole = self._chance.random() < 0.3

        def survivors(path: str, size: int) -> int:
            return size if whole else self._chance.randrange(size + 1)

        self.lose_unsynced(survivors, removed_are_back=self._chance.random() < 0.5)

    def _check(self, path: str) -> None:
        super()._check(path)
        process = RUNNING.get()
        if process is not None and not process.alive:
            raise ProcessDiedError

    def _operate(self, what: str, path: str, torn: Callable[[float], None] | None = None) -> None:
        super()._operate(what, path, torn)
        if self._crash_at is not None and self.operations > self._crash_at[0]:
            (_, crash, applies), self._crash_at = self._crash_at, None
            if not applies():
                return
            if torn is not None:
                torn(self._chance.random())
            crash()

    def _time_passes(self) -> None:
        slow = 100 if self._chance.random() < _SLOW_SYNCS else 1
        self._jobs.pause(self._chance.uniform(0, _SYNC_SECONDS) * slow)
