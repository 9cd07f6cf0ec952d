"""Keep the store small: archive what is settled and healthy, delete what is old.

A chore of the collector that judges the cluster. Every step is a few small transactions, fenced
like all writes of the collector. The next step follows from the contents of the store, so the
process may be killed at any moment, and nothing is done twice.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from tallymark.clock import fine_monotonic_ms
from tallymark.deployment import AuditSettings
from tallymark.errors import TallymarkError
from tallymark_audit.model.absurd import reason_of
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.turns import Turns
from tallymark_audit.store.engine import Store
from tallymark_audit.store.housekeeping.packing import (
    Changed,
    collapse,
    forget_passing,
    healthy,
    quiet_windows,
)
from tallymark_audit.store.housekeeping.retention import PORTIONS
from tallymark_audit.store.judged.verdict_changes import last_change

log: Final = logging.getLogger(__name__)
LOOK_AT: Final = 500
"""Windows looked at in one step."""
PACK_AT_ONCE: Final = 50
"""Windows packed in one transaction."""
ROUND_MS: Final = 60_000
"""When all windows were looked at, those left are looked at again after this."""
LONGEST_ROUND_MS: Final = 600_000
"""The pause doubles up to this, at most, while there is nothing to archive."""
FORGET_AT_ONCE: Final = 1000
FORGET_MS: Final = 3_600_000
"""Between two rounds of forgetting."""


class Keeper(Protocol):
    """The collector in charge of a cluster, as :class:`tallymark_audit.collector.ledger.Ledger`:
    ``write`` is a transaction that only this collector can commit; FencedError: there is a newer
    one."""

    @property
    def cluster(self) -> str: ...
    @property
    def store(self) -> Store: ...
    def write(self, now: int) -> AbstractContextManager[Connection]: ...


class Housekeeper:
    """Archives and forgets what a cluster no longer needs: a chore, see :meth:`step`."""

    name = "housekeeping"
    every_ms = 1_000

    def __init__(self, keeper: Keeper, edges: Sequence[Edge], settings: AuditSettings) -> None:
        self._keeper = keeper
        self._edges = edges
        self._settings = settings
        self._after: Changed | None = None
        self._change = ""
        self._whole_at = 0
        self._resting = True
        self._round_at = 0
        self._round_ms = ROUND_MS
        self._forget_at = 0
        self._forgetting = 0
        self._todo: list[Changed] = []
        self._turns = Turns[Changed](fine_monotonic_ms)

    def step(self, now: int) -> int:
        """Do a portion of what there is to do at ``now`` (ms): how many windows were archived, and
        things forgotten. SQLAlchemyError: the store is away; FencedError: we are not in charge."""
        return self._archive(now) + self._forget(now)

    def _archive(self, now: int) -> int:
        if not self._todo and now < self._round_at:
            return 0
        if not self._todo:
            self._find(now)
        packed = 0

        def pack(_topic: str, some: Sequence[Changed]) -> None:
            nonlocal packed
            for start in range(0, len(some), PACK_AT_ONCE):
                packed += self._pack(some[start : start + PACK_AT_ONCE], now)
            done.update(some)

        done = set[Changed]()
        by_topic: dict[str, list[Changed]] = {}
        for one in self._todo:
            by_topic.setdefault(one.topic, []).append(one)
        self._turns.run(by_topic, pack, LOOK_AT)
        self._todo = [one for one in self._todo if one not in done]
        if packed:
            self._round_ms = ROUND_MS
        return packed

    def _find(self, now: int) -> None:
        """The next windows to archive."""
        before = now - self._settings.collapse_after_ms
        cluster = self._keeper.cluster
        with self._keeper.store.read() as connection:
            if self._resting:
                self._begin_round(last_change(connection), now)
            quiet = quiet_windows(connection, cluster, before, self._after, LOOK_AT)
            self._todo = healthy(connection, self._edges, cluster, quiet) if quiet else []
        if self._todo:
            self._round_ms = ROUND_MS
        if quiet:
            self._after = quiet[-1]
        if len(quiet) < LOOK_AT:
            self._resting, self._round_at = True, now + self._round_ms
            self._round_ms = min(2 * self._round_ms, self._longest_ms)

    @property
    def _longest_ms(self) -> int:
        """A window that waits to be archived is not left longer than it had to be quiet for."""
        return min(LONGEST_ROUND_MS, max(ROUND_MS, self._settings.collapse_after_ms))

    def _begin_round(self, change: str, now: int) -> None:
        """Continue behind the windows already examined: no verdict has changed, so nothing changed
        there. If a verdict has changed, and from time to time in any case, begin with the oldest
        window again."""
        self._resting = False
        if change != self._change or now >= self._whole_at:
            self._after, self._change = None, change
            self._whole_at = now + LONGEST_ROUND_MS

    def _pack(self, some: Sequence[Changed], now: int) -> int:
        """Archive these, each by itself if one of them makes no sense, which stays as it is."""
        try:
            with self._keeper.write(now) as connection:
                packed = collapse(connection, self._keeper.cluster, some, now)
                forget_passing(connection, self._edges, self._keeper.cluster, some)
        except (SQLAlchemyError, TallymarkError):
            raise
        except Exception as error:
            if len(some) > 1:
                return sum(self._pack([one], now) for one in some)
            log.info("%s cannot be archived: %s", some[0], reason_of(error))
            return 0
        return packed

    def _forget(self, now: int) -> int:
        if now < self._forget_at:
            return 0
        before = now - self._settings.retention_ms
        with self._keeper.write(now) as connection:
            portion = PORTIONS[self._forgetting]
            gone = portion(connection, self._keeper.cluster, before, FORGET_AT_ONCE)
        if not gone:
            self._forgetting += 1
        if self._forgetting == len(PORTIONS):
            self._forgetting, self._forget_at = 0, now + FORGET_MS
        return gone
