"""One cluster: what one look asks, and the state made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.cluster import ClusterDescription
from tallymark.client.admin.topics import TopicDescription
from tallymark.client.core.security.deployment import connection_settings
from tallymark.deployment import Cluster
from tallymark.errors import CODES, ClosedError, KafkaError, TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_dashboards.snapshots.group_book import Ends, GroupBook, Key, Seen
from tallymark_dashboards.snapshots.groups_reading import BrokerGroups
from tallymark_dashboards.snapshots.record_times import RecordTimes
from tallymark_dashboards.snapshots.replica_book import ReplicaBook
from tallymark_dashboards.snapshots.shapes import ClusterState, GroupState, Part, Transactions
from tallymark_dashboards.snapshots.topics_reading import (
    Logs,
    Minimums,
    first_ones,
    topic_states,
)
from tallymark_dashboards.snapshots.transactions_reading import read_transactions
from tallymark_dashboards.snapshots.zookeeper_reading import ZooKeeperReader

T = TypeVar("T")
_TIMEOUT_MS: Final = 3_000
_NO_ANSWER: Final = (CODES["REQUEST_TIMED_OUT"], CODES["NETWORK_EXCEPTION"])
_PORTION: Final = 200
"""States of groups that are made in one go."""


class ClusterWatch:
    """Looks at one cluster. :meth:`look` is for one thread, :meth:`close` for any; a look under way
    ends soon after it."""

    def __init__(
        self, cluster: Cluster, zookeeper: str, now: Callable[[], int], breathe: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._breathe = breathe
        self._admin: Admin | None = None
        self._logs = Logs()
        self._minimums = Minimums()
        self._replicas = ReplicaBook()
        self._groups = BrokerGroups()
        self._zookeeper = ZooKeeperReader(zookeeper) if zookeeper else None
        self._records = RecordTimes(cluster)
        self._described: Mapping[str, TopicDescription] = {}
        self._more_topics = 0
        self._away = False
        """Whether the last question was not answered at all; a refusal is an answer."""
        self.book = GroupBook()
        self.state = ClusterState(cluster.name, cluster.bootstrap_servers)
        self.on_state: Callable[[ClusterState], None] = lambda state: None
        """Called within a look, as soon as the brokers have told everything."""

    def look(self, every_ms: int) -> bool:
        """Ask for everything, then renew :attr:`state`. ``every_ms``: when the next look follows.
        False when the cluster could not be asked at all."""
        state = self.state
        try:
            state = self._ask(state, every_ms)
            reached = not self._away
        except ClosedError:
            return False
        if not reached:
            self._forget_admin()  # the next one begins at the addresses of the settings
        self.state = state
        return reached

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._forget_admin()
        self._records.close()
        if self._zookeeper is not None:
            self._zookeeper.close()

    def _ask(self, state: ClusterState, every_ms: int) -> ClusterState:
        self._away = False
        brokers = self._part(state.brokers, every_ms, self._read_brokers)
        if self._away:  # it is asked one question a look, not five
            state = replace(
                state,
                brokers=brokers,
                topics=_failed(state.topics, brokers),
                groups=_failed(state.groups, brokers),
                transactions=_failed(state.transactions, brokers),
            )
            return replace(state, zookeeper=self._in_zookeeper(state, every_ms))
        listed = self._part(Part(None), every_ms, self._read_groups)
        topics = self._part(state.topics, every_ms, self._read_topics)
        if not topics.error and brokers.value is not None:
            live = {one.id for one in brokers.value.brokers}
            self._replicas.see(topics.value, live, topics.at)
        state = replace(
            state,
            brokers=brokers,
            topics=topics,
            transactions=self._part(state.transactions, every_ms, self._read_transactions),
            isr_changes=self._replicas.changes,
            short_since=self._replicas.short_since,
        )
        made = self._part(state.groups, every_ms, lambda: self._states(self._groups.seen))
        groups = made if not listed.error else _failed(made, listed)
        if self._groups.unlisted and not groups.error:
            groups = replace(groups, error=self._groups.unlisted)
        state = replace(state, groups=groups)
        self.state = state
        self.on_state(state)  # ZooKeeper may be waited for
        state = replace(state, zookeeper=self._in_zookeeper(state, every_ms))
        self.book.keep_only(self._keys())
        self._records.ask(self.book, state.all_groups)
        return replace(state, left_out=self._left_out())

    def _part(self, old: Part[Any], every_ms: int, read: Callable[[], T]) -> Part[T]:
        """What ``read`` returns; the old value with the error, where it fails."""
        tried = self._now()
        try:
            value = read()
        except ClosedError:
            raise
        except TallymarkError as error:
            self._away = not isinstance(error, KafkaError) or error.code in _NO_ANSWER
            return replace(old, tried=tried, error=str(error), every=every_ms)
        return Part(value, self._now(), tried, "", every_ms)

    def _read_brokers(self) -> ClusterDescription | None:
        return self._opened().describe_cluster()

    def _read_groups(self) -> None:
        self._groups.read(self._opened(), self._now, self._breathe)

    def _read_topics(self) -> Any:
        admin = self._opened()
        found = admin.describe_topics().done
        self._described, self._more_topics = first_ones(found)
        self._logs.read(admin, self._described, self._partitions(), self._now, self._breathe)
        self.book.follow(self._logs.ends, self._partitions())
        self._minimums.read(admin, self._described)
        ends: Mapping[TopicPartition, Ends] = self._logs.ends
        return topic_states(self._described, ends, self._minimums.known, self._breathe)

    def _read_transactions(self) -> Transactions:
        return read_transactions(self._opened(), self._logs.ends)

    def _in_zookeeper(self, state: ClusterState, every_ms: int) -> Part[Mapping[str, GroupState]]:
        zookeeper = self._zookeeper
        if zookeeper is None:
            return state.zookeeper

        def read() -> Mapping[str, GroupState]:
            zookeeper.read(self._now, self._breathe)
            return self._states(zookeeper.seen)

        away, self._away = self._away, False
        part = self._part(state.zookeeper, every_ms, read)
        self._away = away
        return part

    def _states(self, groups: Mapping[str, Seen]) -> Mapping[str, GroupState]:
        found: dict[str, GroupState] = {}
        now = self._now()
        for number, name in enumerate(sorted(groups)):
            if number % _PORTION == _PORTION - 1:
                self._breathe()
            found[name] = self.book.state(groups[name], self._logs.ends, now)
        return found

    def _all_seen(self) -> list[Seen]:
        more = self._zookeeper.seen.values() if self._zookeeper else ()
        return [*self._groups.seen.values(), *more]

    def _partitions(self) -> set[TopicPartition]:
        found: set[TopicPartition] = set()
        for one in self._all_seen():
            found.update(one.offsets)
            for member in one.described.members:
                found.update(member.partitions)
        return found

    def _keys(self) -> set[Key]:
        return {(one.kept, one.described.group) for one in self._all_seen()}

    def _left_out(self) -> str:
        more = [self._groups.left_out, self._zookeeper.left_out if self._zookeeper else ""]
        more += [f"{self._more_topics:,} topics"] if self._more_topics else []
        return ", ".join(filter(None, more))

    def _opened(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(
                **connection_settings(self._cluster),
                client_id="tallymark-dashboards",
                request_timeout_ms=_TIMEOUT_MS,
            )
        return self._admin

    def _forget_admin(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            with suppress(TallymarkError):
                admin.close()


def _failed(part: Part[T], because: Part[Any]) -> Part[T]:
    return replace(part, tried=because.tried, error=because.error, every=because.every)
