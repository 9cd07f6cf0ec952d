"""What a collector does besides counting, each at its own pace: judge, publish journals, keep
house, alert.

A chore that cannot be done, since the store or a cluster is away, is tried again when it is due
the next time, and waited for longer the longer that lasts; it holds up neither counting nor others.
So with one that raises an unexpected error: its traceback is logged the first time.
One that takes long is done less often while there is much to count.
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

Step = Callable[[int], object]
REST: Final = 3
"""While there is much to count, a chore is left alone so many times as long as it took."""


class Chore(Protocol):
    """Something to do every so often; ``name`` says what, as in "judging has to wait"."""

    @property
    def name(self) -> str: ...
    @property
    def every_ms(self) -> int: ...

    def step(self, now: int) -> object:
        """Do it, at ``now`` (ms UTC). TallymarkError or SQLAlchemyError: not now, try again.
        FencedError: another collector is in charge, and does it."""
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
            self.troubles.begin(chore.name, f"{chore.name} has to wait: {error}", now)
        except Exception as error:
            told = f"{chore.name} failed: {reason_of(error)}"
            self.troubles.begin(chore.name, told, now, error)
        else:
            self.troubles.end(chore.name)
