"""Groups of consumers that coordinate themselves in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tallymark.errors import KafkaError, TallymarkError, UserError
from tallymark_dashboards.snapshots.group_book import MAX_GROUPS, Seen
from tallymark_dashboards.snapshots.rhythm import Turns, pause

if TYPE_CHECKING:
    from tallymark.client.admin.zookeeper_groups import ZooKeeperGroups

_TIMEOUT_MS: Final = 3_000
_A_LOOK: Final = 200
"""Groups that are read in one look, several requests each; then in turns."""


class ZooKeeperReader:
    """One session, which is opened with the first look."""

    def __init__(self, connect: str) -> None:
        self.seen: dict[str, Seen] = {}
        self.left_out = ""
        self._connect = connect
        self._session: ZooKeeperGroups | None = None
        self._turns = Turns(_A_LOOK)
        self._failures = 0
        self._error: TallymarkError | None = None
        self._again_at = 0

    def read(self, now: Callable[[], int], breathe: Callable[[], None]) -> None:
        """One look. Raises when ZooKeeper cannot be reached; then it is left alone for a while,
        longer and longer: a deployment may do without it, and each attempt waits for seconds."""
        if self._error is not None and now() < self._again_at:
            raise self._error
        try:
            self._read(now, breathe)
        except TallymarkError as error:
            self.close()
            self._failures += 1
            self._error = error
            self._again_at = now() + round(1000 * pause(0, self._failures + 1, 0.5))
            raise
        self._failures, self._error = 0, None

    def _read(self, now: Callable[[], int], breathe: Callable[[], None]) -> None:
        groups = self._opened()
        if groups is None:
            self.seen = {}
            return
        listed = groups.list_groups()
        names = sorted(listed)
        kept = names[:MAX_GROUPS]
        self.left_out = (
            f"{len(names) - len(kept):,} groups in ZooKeeper" if len(names) > len(kept) else ""
        )
        self.seen = {name: one for name, one in self.seen.items() if name in listed}
        for name in self._turns.take(kept):
            try:
                described = groups.describe_group(name)
                self.seen[name] = Seen("zookeeper", described, groups.group_offsets(name), now())
            except KafkaError:
                self.seen.pop(name, None)  # deleted meanwhile
            breathe()

    def close(self) -> None:
        """End the session; idempotent."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(TallymarkError):
                session.close()

    def _opened(self) -> ZooKeeperGroups | None:
        """The groups; None where the cluster has no place in ZooKeeper, so no group has either."""
        if self._session is None:
            from tallymark.client.admin.zookeeper_groups import ZooKeeperGroups  # kazoo

            with suppress(UserError):
                self._session = ZooKeeperGroups.open(self._connect, _TIMEOUT_MS)
        return self._session
