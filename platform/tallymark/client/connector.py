"""The consumer connector: a group of consumers that divide the partitions among themselves.

It registers in ZooKeeper, rebalances by Algorithm 1 of the Kafka paper whenever consumers,
brokers or topics come and go, keeps the offsets of its group, and hands out messages through
streams. Three threads of its own: the group's coordinator (:mod:`.connector_coordinator` around
the pure :mod:`.connector_machine`), the fetcher (:mod:`.connector_fetcher`), and the client's I/O.

Delivery is at least once: an offset is stored after its message was handed out. A consumer that
dies takes the messages along that were handed out and stored but not dealt with; whoever must not
lose those turns auto-commit off and calls ``commit_offsets`` when they are done.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Literal, Self

from tallymark.client.connector_brokers import BrokerLink, FetchClient
from tallymark.client.connector_commit import OffsetCommitter
from tallymark.client.connector_coordinator import Coordinator
from tallymark.client.connector_fetcher import Fetcher, FetchSettings
from tallymark.client.connector_progress import ProgressBook
from tallymark.client.connector_reset import POLICIES
from tallymark.client.message import Gap
from tallymark.client.rebalance import TopicPartition
from tallymark.client.simple_consumer import SimpleConsumer
from tallymark.client.stream import QUEUE_BYTES, Gate, Stream
from tallymark.coordination import paths
from tallymark.coordination.subscriptions import Subscription
from tallymark.coordination.zookeeper import ZooKeeper
from tallymark.errors import ClosedError, UserError

LOG: Final = logging.getLogger("tallymark.client.connector")


class ConsumerConnector:
    """One consumer of a group. Thread-safe, but each stream is for one thread.

    * ``zookeeper_connect``: ``host:port[,...]/chroot`` of the cluster. The brokers are those
      registered there, unless ``bootstrap_servers`` names them.
    * ``group``: consumers of one group share the messages; every group gets all of them.
    * ``auto_commit``: store offsets every ``auto_commit_interval_ms``, before partitions are given
      up, and at shutdown. Without it only ``commit_offsets`` does.
    * ``auto_offset_reset``: where to begin a partition without a stored offset, or whose stored
      offset the log no longer has: ``smallest`` (its start) or ``largest`` (its end).
    * ``on_gap``: called with a :class:`~tallymark.client.message.Gap` when offsets were deleted
      before they were consumed, or were cut off after. From the fetcher's thread, ahead of the
      messages that are still queued; it must not call the connector.
    * ``before_release``: called after the last message was handed out and before partitions are
      given up, also at shutdown; it may wait for what the application has under way, and returns
      the offsets to store (``{(topic, partition): next offset}``). From the coordinator's thread;
      the other consumers of the group wait for it meanwhile.
    * ``fetch_max_bytes`` per partition, ``fetch_max_wait_ms``, ``queue_bytes`` per stream.
    * ``start_timeout_ms``: how long creating streams waits for the first division of partitions.
    * ``client_factory``: another maker of fetch clients, given the bootstrap servers.

    Raises ConnectError when ZooKeeper is not there, UserError for wrong settings. An error in the
    background ends the streams and is raised by the next call of anything.
    """

    def __init__(
        self,
        *,
        zookeeper_connect: str,
        group: str,
        bootstrap_servers: str | None = None,
        client_id: str = "tallymark",
        consumer_id: str | None = None,
        auto_commit: bool = True,
        auto_commit_interval_ms: int = 5000,
        auto_offset_reset: Literal["smallest", "largest"] = "smallest",
        on_gap: Callable[[Gap], None] | None = None,
        before_release: Callable[[], Mapping[TopicPartition, int]] | None = None,
        session_timeout_ms: int = 6000,
        connect_timeout_ms: int = 15_000,
        request_timeout_ms: int = 10_000,
        fetch_max_bytes: int = 1024 * 1024,
        fetch_max_wait_ms: int = 500,
        retry_backoff_ms: int = 100,
        queue_bytes: int = QUEUE_BYTES,
        check_crcs: bool = True,
        start_timeout_ms: int = 10_000,
        client_factory: Callable[[str], FetchClient] | None = None,
    ) -> None:
        if auto_offset_reset not in POLICIES:
            raise UserError(
                f"auto_offset_reset is {auto_offset_reset!r}", "give 'smallest' or 'largest'"
            )
        if auto_commit and auto_commit_interval_ms < 1:
            raise UserError("auto_commit_interval_ms is below 1", "or give auto_commit=False")
        paths.segment(group, "a group")
        self.group = group
        self.consumer_id = consumer_id or _new_consumer_id(group)
        paths.segment(self.consumer_id, "a consumer id")

        def make(servers: str) -> FetchClient:
            return SimpleConsumer(
                bootstrap_servers=servers,
                client_id=client_id,
                check_crcs=check_crcs,
                request_timeout_ms=request_timeout_ms,
            )

        self._auto_commit_ms = auto_commit_interval_ms if auto_commit else 0
        self._before_release = before_release
        self._fetch_settings = FetchSettings(
            auto_offset_reset, fetch_max_bytes, fetch_max_wait_ms, retry_backoff_ms, on_gap
        )
        self._queue_bytes = queue_bytes
        self._start_seconds = start_timeout_ms / 1000
        self._lock = threading.Lock()
        self._closed = False
        self._error: Exception | None = None
        self._gate = Gate()
        self._room = threading.Event()
        self._book = ProgressBook()
        self._streams: list[Stream] = []
        self._coordinator: Coordinator | None = None
        self._fetcher: Fetcher | None = None
        self._link = BrokerLink(client_factory or make, bootstrap_servers or "")
        self._zookeeper = ZooKeeper(
            zookeeper_connect,
            session_timeout_ms=session_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
        )
        self._committer = OffsetCommitter(self._zookeeper, group, self._book)
        # A cluster that does not register in ZooKeeper has no chroot there until a group makes it.
        self._zookeeper.start(create_root=bootstrap_servers is not None)

    # -- streams ------------------------------------------------------------------------------

    def create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[Stream]]:
        """``{topic: n}`` -> n streams of each topic, between which its partitions are divided.
        Once per connector. Topics need not exist yet."""
        for topic in topics:
            paths.segment(topic, "a topic")
        subscription = Subscription(dict(topics))
        first, count = {}, 0
        for topic, number in topics.items():
            first[topic] = count
            count += number
        streams = self._subscribe(subscription, first, count)
        return {t: streams[first[t] : first[t] + number] for t, number in topics.items()}

    def create_message_streams_by_filter(self, pattern: str, n: int = 1) -> list[Stream]:
        """n streams of all topics, present and future, whose whole name matches the regular
        expression; internal topics (leading ``_``) never do. Once per connector."""
        return self._subscribe(Subscription({pattern: n}, is_filter=True), {}, n)

    @property
    def assignment(self) -> dict[str, tuple[int, ...]]:
        """The partitions this consumer owns now, by topic."""
        owned: dict[str, tuple[int, ...]] = {}
        for item in self._book.items():
            owned[item.topic] = (*owned.get(item.topic, ()), item.partition)
        return owned

    # -- offsets ------------------------------------------------------------------------------

    def commit_offsets(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Store, for every owned partition, the offset after the last message handed out; or, for
        the given ``{(topic, partition): next offset}``, just that.

        Raises KafkaError ILLEGAL_GENERATION for a partition that is not owned (any more),
        ConnectError or SessionLostError when nothing could be stored.
        """
        self._check()
        self._committer.commit(offsets)

    # -- end ----------------------------------------------------------------------------------

    def shutdown(self, timeout: float = 10.0) -> None:
        """Store offsets (with auto-commit), give up all partitions at once, end the streams and
        all threads. Takes ``timeout`` seconds at most for leaving in order; then it just leaves,
        and ZooKeeper removes what is left. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            coordinator, fetcher = self._coordinator, self._fetcher
        if coordinator is not None and fetcher is not None:
            coordinator.stop()
            fetcher.stop()
            if not coordinator.join(timeout):
                LOG.warning("consumer %s leaves without having stored all", self.consumer_id)
        self._link.close()
        self._zookeeper.close()
        if coordinator is not None and fetcher is not None:
            coordinator.join(2.0)
            fetcher.join(5.0)
        for stream in self._streams:
            stream.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    # -- details ------------------------------------------------------------------------------

    def _subscribe(
        self, subscription: Subscription, first: Mapping[str, int], count: int
    ) -> list[Stream]:
        self._check()
        with self._lock:
            if self._coordinator is not None:
                raise UserError(
                    "this connector has its streams already", "make another ConsumerConnector"
                )
            self._streams = [
                Stream(self._gate, self._room, self._queue_bytes) for _ in range(count)
            ]
            self._fetcher = Fetcher(
                self._link, self._streams, self._gate, self._room, self._fetch_settings, self._fail
            )
            self._coordinator = Coordinator(
                self._zookeeper,
                self.group,
                self.consumer_id,
                subscription,
                streams=self._streams,
                first_stream=first,
                gate=self._gate,
                link=self._link,
                fetcher=self._fetcher,
                book=self._book,
                committer=self._committer,
                auto_commit_interval_ms=self._auto_commit_ms,
                before_release=self._before_release,
                on_error=self._fail,
            )
            self._fetcher.start()
            self._coordinator.start()
        self._await_start(self._coordinator)
        return self._streams

    def _await_start(self, coordinator: Coordinator) -> None:
        """Until the partitions are divided and every own one knows where it begins: what is
        published after that is not missed, also with ``largest``."""
        deadline = time.monotonic() + self._start_seconds
        while time.monotonic() < deadline:
            self._check()
            if coordinator.settled.is_set() and all(i.fetch for i in self._book.items()):
                return
            time.sleep(0.005)
        LOG.warning(
            "consumer %s starts without its partitions after %g s: %s",
            self.consumer_id,
            self._start_seconds,
            "no broker answers" if coordinator.settled.is_set() else "others own them still",
        )

    def _fail(self, error: Exception) -> None:
        """From the background threads: the next call of anything raises the error."""
        LOG.error("consumer %s ends: %s: %s", self.consumer_id, type(error).__name__, error)
        self._error = self._error or error
        self._gate.suspend()
        for stream in self._streams:
            stream.end(error)
        if self._fetcher is not None and self._coordinator is not None:
            self._fetcher.stop()
            self._coordinator.stop()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ClosedError(f"consumer {self.consumer_id} was shut down")


def _new_consumer_id(group: str) -> str:
    """Unique for ever: group_host-process-random."""
    host = socket.gethostname().replace("/", "-") or "localhost"
    return f"{group}_{host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
