"""The consumer connector: a group of consumers that divide the partitions among themselves.

A group coordinates in ZooKeeper, by Algorithm 1 of the Kafka paper, or through the brokers, by
Kafka's classic group protocol (:mod:`.group_protocols`); the rest is the same. It rebalances
whenever consumers, brokers or topics come and go, keeps the offsets of its group, and hands out
messages through streams. Threads of its own: the group's coordinator
(:mod:`tallymark.client.zookeeper_group.coordinator` around the pure
:mod:`tallymark.client.zookeeper_group.machine`, or :mod:`..group.coordinator` around the pure
:mod:`tallymark.client.group.state_machine.machine`), the fetcher
(:mod:`tallymark.client.consuming.fetcher`), and the clients' I/O.

:mod:`tallymark.client.consuming.commit` explains what ``delivery`` promises.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

from tallymark.client.connector.engine import Engine, Shared
from tallymark.client.connector.for_transactions import ForTransactions
from tallymark.client.connector.group_protocols import (
    BrokerGroupProtocol,
    GroupProtocol,
    ZooKeeperGroupProtocol,
)
from tallymark.client.consuming.brokers import BrokerLink, FetchClient
from tallymark.client.consuming.commit import OffsetCommitter
from tallymark.client.consuming.hooks import Hooks, checked_hooks
from tallymark.client.consuming.settings import ConsumerOptions, ConsumerSettings, Policy
from tallymark.client.consuming.stream import Gate, Stream
from tallymark.client.consuming.subscription_state import SubscriptionState
from tallymark.client.core.security.security import ClientSecurity, client_security
from tallymark.client.core.setting_types import shows_options, split_options
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.closing import ClosedByWith
from tallymark.coordination import paths
from tallymark.coordination.consumers.subscriptions import Subscription, topic_filter
from tallymark.errors import ClosedError, UserError
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.client.connector.connector")


class ConsumerConnector(ForTransactions, ClosedByWith):
    """One consumer of a group. Thread-safe, but each stream is for one thread.

    Which group: ``group`` names it; its consumers share the messages, every group gets all of them.
    ``coordinator`` is "zookeeper" (default where ``zookeeper_connect``, ``host:port[,...]/chroot``,
    is given) or "brokers" (default where only ``bootstrap_servers`` is). ``consumer_id`` is this
    consumer's name in ZooKeeper. The brokers are those that ZooKeeper knows, unless named.

    Offsets:

    * ``enable_auto_commit``: store them every ``auto_commit_interval_ms``, before partitions are
      given up, and at shutdown. Without it only ``commit_offsets`` does.
    * ``delivery``: "at_least_once": a message's offset is stored once the next one is asked for; or
      "at_most_once": before it is handed out.
    * ``auto_offset_reset``: where to begin a partition without a stored offset: "smallest" (its
      start), "largest" (its end), "none" (OffsetOutOfRangeError). ``out_of_range``: the same, for a
      stored offset that the log does not have (any more); default: as ``auto_offset_reset``.
    * ``client_rack``: read from a replica in that rack where there is one (KIP-392).
    * ``isolation``: "read_committed" leaves out what transactions aborted or have not ended.

    With brokers as coordinator (times in ms):

    * ``partition_assignment_strategy``: "range", "roundrobin", "cooperative-sticky" (what does not
      move is read on during a rebalance), or several, best first.
    * ``group_instance_id``: a static member (KIP-345): started again within the session timeout it
      gets its partitions back without a rebalance.
    * ``session_timeout_ms`` (45,000; ZooKeeper: 6,000): silent for so long, it is taken for dead;
      ``heartbeat_interval_ms`` (3,000).
    * ``max_poll_interval_ms`` (300,000): an application that does not ask a stream again for so
      long gives its partitions up until it does; a warning before that names the message and the
      function that is slow.
    * ``metadata_max_age_ms``: how often to look for new topics and partitions.

    Hooks:

    * ``on_gap``: called with a :class:`~tallymark.client.reading.message.Gap` when offsets were
    deleted
      before they were consumed, or were cut off after. From the fetcher's thread, ahead of the
      messages that are still queued; it must not call the connector.
    * ``before_release``: called after the last message was handed out and before partitions are
      given up, also at shutdown; it may wait for what the application has under way, and returns
      the offsets to store (``{(topic, partition): next offset}``). From the coordinator's thread;
      the other consumers of the group wait for it meanwhile.
    * ``hooks``: objects notified of what is handed out, and of what is processed before offsets
      are stored (:mod:`tallymark.client.consuming.hooks`); the audit of a group is one.
    * ``client_factory``: another maker of fetch clients, given the bootstrap servers.
    * ``metrics`` is called with what is measured (:mod:`tallymark.client.metrics`).

    The rest: ``fetch_max_bytes`` per partition, ``fetch_max_wait_ms``, ``queue_bytes`` per stream;
    ``consumer_timeout_ms``: iterating raises TimedOutError when no message comes for so long (-1:
    never); ``start_timeout_ms``: how long creating streams waits for the first division of
    partitions; ``compiled_reads``: as :class:`~tallymark.client.reading.simple_consumer
    .SimpleConsumer` has it;
    ``request_timeout_ms``, ``retry_backoff_ms``, ``connect_timeout_ms`` (ZooKeeper's);
    ``security``: TLS and the log-in at the brokers, keywords of
    :class:`~tallymark.client.core.security.security.SecuritySettings`.

    Raises ConnectError when ZooKeeper is not there, UserError for wrong settings, TypeError for one
    that is none. An error in the background ends the streams and is raised by the next call of
    anything: KafkaError, ConnectError (AuthenticationError), OffsetOutOfRangeError.
    """

    @shows_options(ConsumerSettings)
    def __init__(self, **options: Unpack[ConsumerOptions]) -> None:
        own, security = split_options(ConsumerConnector, ConsumerSettings, options)
        secured = client_security(security, ConsumerConnector)
        self._settings = settings = ConsumerSettings(**own)
        self.group = settings.group
        self._lock = threading.Lock()
        self._closed = False
        self._error: Exception | None = None
        self._gate = Gate()
        self._hooks = Hooks(checked_hooks(settings.hooks))
        self._positions = SubscriptionState()
        self._engine: Engine | None = None
        self._link = _link(settings, secured, security)
        self._protocol: GroupProtocol = (
            ZooKeeperGroupProtocol(settings)
            if settings.where == "zookeeper"
            else BrokerGroupProtocol(settings, secured)
        )
        self.consumer_id = self._protocol.member
        self._committer = OffsetCommitter(
            self._protocol.store,
            self._positions,
            at_most_once=settings.delivery == "at_most_once",
            hooks=self._hooks,
        )

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

    def create_message_streams_by_filter(
        self, pattern: str = ".*", n: int = 1, *, deny: str | None = None
    ) -> list[Stream]:
        """n streams of all topics, present and future, whose whole name matches the regular
        expression, and does not match ``deny``; internal topics (leading ``_``) are never among
        them. Once per connector."""
        return self._subscribe(
            Subscription({topic_filter(pattern, deny): n}, is_filter=True), {}, n
        )

    @property
    def assignment(self) -> dict[str, tuple[int, ...]]:
        """The partitions this consumer owns now, by topic."""
        owned: dict[str, tuple[int, ...]] = {}
        for item in self._positions.items():
            owned[item.topic] = (*owned.get(item.topic, ()), item.partition)
        return owned

    # -- offsets ------------------------------------------------------------------------------

    def commit_offsets(
        self, offsets: Mapping[TopicPartition, int] | None = None, *, metadata: str = ""
    ) -> None:
        """Store, for every owned partition, the offset after the last message handed out: the
        caller states that all of those are processed. Or, for the given ``{(topic, partition):
        next offset}``, just that. ``metadata`` is a text kept with the offsets (brokers only).

        Raises CommitFailedError for a partition that is not owned (any more), where the group went
        on without us, and, once, where partitions were given up with messages handed out and not
        stored (they come again; what is still owned is stored all the same); ConnectError,
        TimedOutError, a retriable KafkaError or SessionLostError when nothing could be stored.
        """
        self._check()
        self._committer.commit_taken(offsets, metadata)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at ``offset`` in a partition that this consumer owns; what is queued of it is
        dropped, and the next commit stores the new position. Messages that a thread has taken
        before this returns are of the old position.

        Raises CommitFailedError when the partition is not owned (any more), UserError for what is
        no offset. One that the log does not have is a matter of ``out_of_range``, later.
        """
        self._check()
        self._running().rewinder.seek((topic, partition), offset)

    def rewind(
        self,
        *,
        to_time_ms: int | None = None,
        to_offset: int | None = None,
        to: Policy | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> dict[TopicPartition, int]:
        """:meth:`seek` in all owned partitions, or those of a topic, or one: to the first message
        whose timestamp is ``to_time_ms`` (ms since 1970, UTC) or later, to an offset, or to the
        "smallest" or "largest" there is. Returns the position of each; a partition that another
        consumer took over meanwhile is not among them.

        Raises UserError unless exactly one goal is given; ConnectError or KafkaError when the
        brokers do not return the offsets (partitions moved before stay moved).
        """
        self._check()
        return self._running().rewinder.rewind(
            to_time_ms,
            to_offset,
            to,
            lambda item: topic in (None, item.topic) and partition in (None, item.partition),
        )

    # -- end ----------------------------------------------------------------------------------

    def close(self, timeout: float = 10.0) -> None:
        """:meth:`shutdown`, by the name that producers and the other clients have for it."""
        self.shutdown(timeout)

    def shutdown(self, timeout: float = 10.0) -> None:
        """Store offsets (with auto-commit), give up all partitions at once, end the streams and
        all threads. Takes ``timeout`` seconds at most for leaving in order; then it just leaves,
        and the session's end removes what is left. Idempotent. The thread that reads a stream says
        by this call that it has dealt with its last message; another thread does not."""
        me = threading.get_ident()
        streams = self._engine.streams if self._engine is not None else ()
        self._shut_down(timeout, [stream for stream in streams if stream.reader == me])

    def _close_after(self, error: BaseException) -> None:
        self._shut_down(10.0, ())  # the message at hand is not dealt with

    # -- details ------------------------------------------------------------------------------

    def _shut_down(self, timeout: float, settled: Sequence[Stream]) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            engine = self._engine
        for stream in settled:
            stream.settle()
        if engine is not None:
            engine.stop(timeout)
        self._link.close()
        self._protocol.close()
        if engine is not None:
            engine.join()
            engine.end_streams()
        self._hooks.closed()

    def _subscribe(
        self, subscription: Subscription, first: Mapping[str, int], count: int
    ) -> list[Stream]:
        self._check()
        with self._lock:
            if self._engine is not None:
                raise UserError(
                    "this connector has its streams already", "make another ConsumerConnector"
                )
            shared = Shared(
                self._protocol,
                self._link,
                self._positions,
                self._committer,
                self._gate,
                self._hooks,
                self._fail,
            )
            engine = self._engine = Engine(self._settings, shared, subscription, first, count)
            engine.start()
        problem = engine.await_start(self._check)
        if problem is not None:
            self._fail(problem)
            self._check()
        return engine.streams

    def _running(self) -> Engine:
        if self._engine is None:
            raise UserError("this connector has no streams yet", "create them before seeking")
        return self._engine

    def _fail(self, error: Exception) -> None:
        """From the background threads: the next call of anything raises the error."""
        LOG.error("consumer %s ends: %s: %s", self.consumer_id, type(error).__name__, error)
        self._error = self._error or error
        self._gate.suspend()
        if self._engine is not None:
            self._engine.fail(error)

    def _check(self) -> None:
        if self._closed:
            raise ClosedError(f"consumer {self.consumer_id} was shut down")
        if self._error is not None:
            raise self._error


def _link(
    settings: ConsumerSettings,
    secured: ClientSecurity,
    security: Mapping[str, Any],
) -> BrokerLink:
    """The fetcher's way to the brokers: those named; those that the coordinator reads in ZooKeeper;
    or those that each client looks up there by itself."""
    looks_up = settings.where == "brokers" and not settings.servers
    if settings.compiled_reads:  # also of what another client fetches
        from tallymark.protocol.records.compiled.loose_columns import use_compiled_loops

        use_compiled_loops()

    def make(servers: str) -> FetchClient:
        return SimpleConsumer(
            bootstrap_servers=None if looks_up else servers,
            zookeeper_connect=settings.zookeeper_connect if looks_up else None,
            client_id=settings.client_id,
            client_rack=settings.client_rack,
            check_crcs=settings.check_crcs,
            request_timeout_ms=settings.request_timeout_ms,
            isolation=settings.isolation,
            metrics=settings.metrics,
            **security,
        )

    known = settings.zookeeper_connect or "" if looks_up else settings.servers
    return BrokerLink(settings.client_factory or make, known, secured.protocol)
