"""A disk that fails, or whose process dies, at the step of your choice."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tallymark_audit.reporters.journal.disk import Disk, Mapped


class ProcessDiedError(BaseException):
    """What kills a process: nothing that catches Exception survives it."""


@dataclass(slots=True)
class FailingDisk(Disk):
    """A real disk (:class:`~tallymark_audit.reporters.journal.disk.Disk`) whose steps are counted
    from 0.

    The step ``fail_at`` and, with ``for_ever``, all that follow raise OSError(ENOSPC) without doing
    anything. At the step ``die_at`` the process dies: a write has then written the share ``torn``
    of its bytes, any other step has happened if that is 1. :meth:`bury` is what the kernel does
    then: locks and files are let go, what was written stays.
    """

    fail_at: int | None = None
    die_at: int | None = None
    torn: float = 0.0
    for_ever: bool = False
    steps: int = 0
    dead: bool = False
    names: list[str] = field(default_factory=list[str])
    _open: list[Mapped] = field(default_factory=list[Mapped])

    def make_folder(self, folder: Path) -> None:
        """As :class:`Disk`; so with the following."""
        self._step("make_folder", lambda: Disk.make_folder(self, folder))

    def create(self, path: Path, size: int) -> Mapped:
        made: list[Mapped] = []
        try:
            self._step("create", lambda: made.append(Disk.create(self, path, size)))
        finally:
            self._open += made
        return made[0]

    def write(self, mapped: Mapped, position: int, data: bytes) -> None:
        if self.steps == self.die_at and not self.dead:
            Disk.write(self, mapped, position, data[: int(len(data) * self.torn)])
            self._die()
        self._step("write", lambda: Disk.write(self, mapped, position, data))

    def rename(self, old: Path, new: Path) -> None:
        self._step("rename", lambda: Disk.rename(self, old, new))

    def remove(self, path: Path) -> None:
        self._step("remove", lambda: Disk.remove(self, path))

    def bury(self) -> None:
        """Let go of every file that is open."""
        for mapped in self._open:
            mapped.close()

    def _step(self, name: str, do: Callable[[], None]) -> None:
        if self.dead:
            raise ProcessDiedError("the process is dead already")
        number, self.steps = self.steps, self.steps + 1
        self.names.append(name)
        if number == self.die_at:
            if self.torn == 1:
                do()
            self._die()
        if self.fail_at is not None and (
            number == self.fail_at or (self.for_ever and number > self.fail_at)
        ):
            raise OSError(errno.ENOSPC, f"{name}: no space left")
        do()

    def _die(self) -> None:
        self.dead = True
        raise ProcessDiedError(f"killed at step {self.die_at}")
