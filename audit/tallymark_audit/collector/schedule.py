"""The chores of a collector besides counting, each at its own interval: judge, publish journals,
keep the store small, alert.

A chore that fails, since the store or a cluster cannot be reached, is tried again when it is due
the next time, with longer waits the longer that lasts; it delays neither counting nor other chores.
The same holds for an unexpected error: its traceback is logged the first time. A chore that takes
long is done less often while there is much to count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from sqlalchemy.exc import SQLAlchemyError

from tallymark.errors import TallymarkError
from tallymark_audit.collector.backoff import Backoff
from tallymark_audit.model.absurd import reason_of
from tallymark_audit.store.counted.positions import FencedError
from tallymark_audit.store.trouble import trouble

Step = Callable[[int], object]
REST: Final = 3
"""While there is much to count, a chore is left alone so many times as long as it took."""


class Chore(Protocol):
    """A task that repeats; ``name`` is used in log lines, as in "judging has to wait"."""

    @property
    def name(self) -> str: ...
    @property
    def every_ms(self) -> int: ...

    def step(self, now: int) -> object:
        """Run it, at ``now`` (ms UTC). TallymarkError or SQLAlchemyError: it failed, try again.
        FencedError: another collector is in charge, and runs it."""
        ...


@dataclass(frozen=True, slots=True)
class Doing:
    """A function as a :class:`Chore`."""

    name: str
    every_ms: int
    work: Step

    def step(self, now: int) -> object:
        """Call it."""
        return self.work(now)


@dataclass(slots=True)
class Schedule:
    """Does each chore when it is due. Every one is due at first."""

    chores: Sequence[Chore]
    troubles: Backoff
    _due: dict[str, int] = field(default_factory=dict[str, int])

    def step(self, clock: Callable[[], int], busy: bool = False) -> None:
        """Do all that are due by ``clock`` (ms UTC); ``busy``: there is much to count. FencedError:
        another collector is in charge; nothing more is done."""
        for chore in self.chores:
            now = clock()
            if now >= self._due.get(chore.name, 0) and self.troubles.due(chore.name, now):
                self._do(chore, now)
                ended = clock()
                rest = REST * (ended - now) if busy else 0
                self._due[chore.name] = max(now + chore.every_ms, ended + rest)

    def _do(self, chore: Chore, now: int) -> None:
        try:
            chore.step(now)
        except FencedError:
            raise
        except (SQLAlchemyError, TallymarkError) as error:
            self.troubles.begin(chore.name, f"{chore.name} has to wait: {trouble(error)}", now)
        except Exception as error:
            told = f"{chore.name} failed: {reason_of(error)}"
            self.troubles.begin(chore.name, told, now, error)
        else:
            self.troubles.end(chore.name)
