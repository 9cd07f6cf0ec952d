"""The simple consumer: any offset of any partition, as often as wanted. It keeps no position."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar, Unpack

from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.cluster import Cluster
from tallymark.client.core.io_thread import IoThread
from tallymark.client.core.metadata import TopicInfo, topic_told
from tallymark.client.core.security.security import SecuritySettings, client_security
from tallymark.client.metrics import Metrics
from tallymark.client.reading.fetch_ready import ReadyFetcher
from tallymark.client.reading.fetch_request import FetchLimits
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.fetching import Fetcher
from tallymark.client.reading.isolation import Isolation, isolation_level
from tallymark.client.reading.list_offsets import (
    OffsetAnswered,
    each_offset,
    list_offset,
    offsets_before,
)
from tallymark.client.reading.truncation import epoch_end
from tallymark.closing import ClosedByWith
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import MetadataRequest, MetadataRequestTopic
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition

__all__ = ["EARLIEST", "LATEST", "FetchSpec", "Fetched", "SimpleConsumer"]

T = TypeVar("T")
_MARGIN: Final = 5.0


class SimpleConsumer(ClosedByWith):
    """Reads partitions of one cluster from given offsets. Thread-safe; close it, or use ``with``.
    Calls share one connection to each broker, which answers in order: while a fetch waits for data,
    those of other threads there wait behind it.

    ``security`` is TLS and the log-in
    (:class:`~tallymark.client.core.security.security.SecuritySettings`). ``check_crcs`` verifies
    every batch. ``request_timeout_ms`` bounds every call (beside the waiting that a fetch asks
    for): while brokers are away it is tried again, then raised. ``isolation`` "read_committed"
    leaves out the records of aborted transactions and ends where the first open one begins, also in
    what :meth:`get_offsets_before` and :meth:`end_offsets` call the end; it can be given with each
    fetch instead. ``compiled_reads``, for processes that read millions of messages: those of
    different sizes are read by loops that numba compiles (extra ``fast``; without it nothing
    changes). That needs 140 MB, and holds for the whole process.
    With ``client_rack`` it reads from a replica in that rack where the cluster has one that is in
    sync (``replica.selector.class`` of its brokers), and from the leader when that fails.
    ``metrics`` is called with what is measured (:mod:`tallymark.client.metrics`).
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] | None = None,
        zookeeper_connect: str | None = None,
        client_id: str = "tallymark",
        check_crcs: bool = True,
        compiled_reads: bool = False,
        request_timeout_ms: float = 30000,
        isolation: Isolation = "read_uncommitted",
        metrics: Metrics | None = None,
        client_rack: str = "",
        **security: Unpack[SecuritySettings],
    ) -> None:
        bootstrap = Bootstrap.of(
            bootstrap_servers,
            zookeeper_connect,
            client_security(security, SimpleConsumer),
        )
        if compiled_reads:
            from tallymark.protocol.records.compiled.loose_columns import use_compiled_loops

            use_compiled_loops()
        self._timeout = request_timeout_ms / 1000
        self._cluster = Cluster(
            bootstrap, client_id, request_timeout=self._timeout, metrics=metrics
        )
        self._isolation = isolation_level(isolation)
        self._fetcher = Fetcher(self._cluster, check_crcs, client_rack)
        self._ready = ReadyFetcher(self._cluster, self._fetcher)
        self._io = IoThread(f"consumer {client_id}")

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = 1048576,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        last_epoch: int = -1,
        isolation: Isolation | None = None,
    ) -> Fetched:
        """Batches from ``offset`` on: about ``max_bytes``, at least one batch when there is any;
        none after ``max_wait_ms`` without data.

        Raises KafkaError: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, CORRUPT_MESSAGE, or the
        retriable one that lasted for the request timeout; LogTruncatedError when ``last_epoch``
        (of the fetch before) shows that the log was cut below ``offset``; ConnectError when no
        broker of the cluster can be reached.
        """
        spec = FetchSpec(topic, partition, offset, last_epoch)
        (outcome,) = self.multifetch(
            [spec],
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            isolation=isolation,
        )
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    def multifetch(
        self,
        specs: Iterable[FetchSpec],
        *,
        max_bytes: int = 1048576,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        isolation: Isolation | None = None,
    ) -> list[Fetched | KafkaError]:
        """Like :meth:`fetch` for several partitions at once, one request per broker; ``max_bytes``
        is per partition. One outcome per spec, in their order: a partition's error does not keep
        the others back, nor does a broker that is slow or gone: a second after the others' time is
        up its outcomes are REQUEST_TIMED_OUT, and what it answers later is there for the next call
        that asks for the same."""
        asked = [_checked(spec) for spec in specs]
        limits = self._limits(max_bytes, max_wait_ms, min_bytes, isolation)
        work = self._fetcher.fetch(asked, limits)
        return self._run(work, f"fetch of {len(asked)} partitions", max_wait_ms / 1000)

    def multifetch_ready(
        self,
        specs: Iterable[FetchSpec],
        *,
        max_bytes: int = 1048576,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
    ) -> list[Fetched | KafkaError | None]:
        """Like :meth:`multifetch`, but returns as soon as one broker has answered; None for
        requests without an answer yet: ask for those again, the answer is on the way. For one
        thread that goes on from what it gets. Errors come at once, nothing is tried again."""
        asked = [_checked(spec) for spec in specs]
        limits = self._limits(max_bytes, max_wait_ms, min_bytes, None)
        work = self._ready.fetch(asked, limits)
        return self._run(work, f"fetch of {len(asked)} partitions", max_wait_ms / 1000)

    def get_offsets_before(
        self, topic: str, partition: int, time: int = LATEST, max_offsets: int = 1
    ) -> list[int]:
        """Up to ``max_offsets`` positions at or before ``time`` (ms; LATEST -1, EARLIEST -2),
        descending: where the records of that time begin, then the beginning of the log."""
        work = offsets_before(self._cluster, topic, partition, time, max_offsets, self._isolation)
        return self._run(work, f"offsets of {topic}-{partition}")

    def each_offset(
        self, places: Collection[TopicPartition], time: int, answered: OffsetAnswered
    ) -> None:
        """The end of the log that ``time`` (LATEST, EARLIEST) names, of many partitions, with one
        request to each leader. ``answered`` is called in another thread, once for each partition:
        its offset, or why there is none. Nothing is tried again. Returns when all are answered."""
        work = each_offset(self._cluster, places, time, self._isolation, answered)
        self._run(work, f"offsets of {len(places)} partitions")

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """The offset of the first record whose timestamp (ms) is ``timestamp`` or later; None when
        there is none."""
        work = list_offset(self._cluster, topic, partition, timestamp, self._isolation)
        found = self._run(work, f"offsets of {topic}-{partition}")
        return None if found is None else found.offset

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> offset behind its last record."""
        return self._run(self._all_offsets(topic, LATEST), f"end offsets of {topic}")

    def start_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> offset of its first record."""
        return self._run(self._all_offsets(topic, EARLIEST), f"start offsets of {topic}")

    def topics(self) -> dict[str, TopicInfo]:
        """All topics of the cluster, asked for now."""
        self._run(self._cluster.refresh(None), "listing topics")
        return self._cluster.metadata.topics()

    def topics_named(self, names: Iterable[str]) -> dict[str, TopicInfo | KafkaError]:
        """These topics, requested by name now; a KafkaError where one is not returned:
        UNKNOWN_TOPIC_OR_PARTITION when there is none, TOPIC_AUTHORIZATION_FAILED when we may not
        know. A list of all (:meth:`topics`) leaves out both alike. None is made by being asked
        for."""
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in sorted(set(names))),
            allow_auto_topic_creation=False,
        )
        response = self._run(self._cluster.ask_any(request), "looking topics up")
        return {one.name: topic_told(one) for one in response.topics if one.name is not None}

    @property
    def cluster_id(self) -> str | None:
        """The cluster's own name for itself, known after the first answer of a broker."""
        return self._cluster.metadata.cluster_id

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The leader epoch that this client knows of; -1 when none."""
        leader = self._cluster.metadata.leader(topic, partition)
        return leader.epoch if leader else -1

    def epoch_end(self, topic: str, partition: int, leader_epoch: int) -> int | None:
        """The offset at which the partition's records of ``leader_epoch`` and before it end, asked
        for now. One below what was read under that epoch says that the log was cut since (KIP-320).
        None: the log knows no epochs, or the broker does not know."""
        work = epoch_end(self._cluster, topic, partition, leader_epoch)
        return self._run(work, f"epochs of {topic}-{partition}")

    def close(self) -> None:
        """Close the connections; calls under way end with ClosedError. Twice does nothing."""
        if self._io.stopped:
            return
        try:
            self._io.finish(self._cluster.close())
        finally:
            self._io.stop()

    def _limits(
        self, max_bytes: int, max_wait_ms: int, min_bytes: int, isolation: Isolation | None
    ) -> FetchLimits:
        level = self._isolation if isolation is None else isolation_level(isolation)
        return FetchLimits(max_bytes, max_wait_ms, min_bytes, isolation_level=level)

    async def _close(self) -> None:
        await self._ready.close()
        await self._fetcher.close()
        await self._cluster.close()

    async def _all_offsets(self, topic: str, time: int) -> dict[int, int]:
        await self._cluster.refresh([topic])
        info = self._cluster.metadata.topic(topic)
        if info is None:
            code = self._cluster.metadata.error(topic) or CODES["UNKNOWN_TOPIC_OR_PARTITION"]
            raise KafkaError(code, f"topic {topic}")
        found = await asyncio.gather(
            *(
                list_offset(self._cluster, topic, part, time, self._isolation)
                for part in info.partitions
            )
        )
        return {
            part: one.offset
            for part, one in zip(info.partitions, found, strict=True)
            if one is not None
        }

    def _run(self, work: Coroutine[Any, Any, T], what: str, wait: float = 0.0) -> T:
        # Every attempt has its own deadlines; this one only keeps a bug from hanging the caller.
        return self._io.run(work, wait + 3 * self._timeout + _MARGIN, what)


def _checked(spec: FetchSpec) -> FetchSpec:
    whole = type(spec.partition) is int and type(spec.offset) is int
    if not isinstance(spec.topic, str) or not whole:
        raise TypeError(f"a topic is a str, partition and offset are ints, not {spec[:3]}")
    return spec
