"""One round of a fetch: reads every requested partition, within the byte limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from tallymark.broker.partitions.lead import READ_COMMITTED, ReadUntil
from tallymark.broker.partitions.leader_hint import leader_hint
from tallymark.broker.partitions.partition import Partition, first_header
from tallymark.broker.partitions.producible import uses_zstd
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.log import Log
from tallymark.log.segments.segment import ColdSegmentError
from tallymark.net.server.handler import Connection
from tallymark.net.server.responses import SENDFILE_FROM
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    FetchResponseEpochEndOffset,
    FetchResponseLeader,
    FetchResponseNode,
)
from tallymark.protocol.wire.fetch import Ask, Found, PlainFetch, Topic

_FIRST_WITH_ZSTD: Final = 10
_COMMITTED: Final = ReadUntil.HIGH_WATERMARK
_STABLE: Final = ReadUntil.LAST_STABLE_OFFSET


class FetchPartition(NamedTuple):
    """One partition of a request: the partition, or the error by which there is none."""

    topic: Topic
    name: str
    ask: Ask
    found: Partition | KafkaError


def resolve(
    state: BrokerState, connection: Connection, asked: Iterable[tuple[Topic, Ask]]
) -> list[FetchPartition]:
    """Look up the requested partitions, in their order, and check that ``connection`` may read
    them."""
    wanted: list[FetchPartition] = []
    topic: Topic | None = None
    name, refused = "", None
    for each, ask in asked:
        if each is not topic:
            topic, refused = each, None
            try:
                name = each if isinstance(each, str) else state.partitions.name_of(each)
                require(state.authorizer, connection, Operation.READ, ResourceType.TOPIC, name)
            except KafkaError as error:
                refused = error
        wanted.append(FetchPartition(each, name, ask, refused or _find(state, name, ask.partition)))
    return wanted


def _find(state: BrokerState, topic: str, index: int) -> Partition | KafkaError:
    try:
        return state.partitions.find(topic, index)
    except KafkaError as error:
        return error


class FetchRound:
    """Reads on construction. ``complete``: the answer need not wait for more records. ``found`` is
    in the order of ``wanted``; only some answers need ``diverging`` and ``leaders``.

    Without ``wait``, logs whose indexes are not in memory are not read, and are in ``cold``: load
    the indexes in a thread (:meth:`warm`) and make another round."""

    bound: ReadUntil = _COMMITTED
    """How far it reads."""
    preferred: Mapping[tuple[Topic, int], int] = MappingProxyType({})
    """The replicas to which readers are sent."""

    def __init__(
        self,
        state: BrokerState,
        request: PlainFetch,
        version: int,
        wanted: Sequence[FetchPartition],
        listener: str,
        wait: bool,
    ) -> None:
        self.found: list[tuple[Topic, Found]] = []
        self.complete = not wanted
        self.cold: list[tuple[Log, int]] = []
        self.diverging: dict[tuple[Topic, int], FetchResponseEpochEndOffset] = {}
        self.leaders: dict[tuple[Topic, int], FetchResponseLeader] = {}
        self.nodes: dict[int, FetchResponseNode] = {}
        self._state = state
        self._version = version
        self._listener = listener
        self._wait = wait
        if request.isolation_level == READ_COMMITTED and self.bound is _COMMITTED:
            self.bound = _STABLE
        limit = min(request.max_bytes, state.settings.fetch_max_bytes)
        size = 0
        for item in wanted:
            try:
                # Only the first batch of the whole answer may exceed the limit (KIP-74).
                found = self._read(item, limit - size, first=not size)
                size += length_of(found)
            except KafkaError as error:
                found = self._failed(item, error)
                self.complete = True
            except ColdSegmentError:
                found = self._cold(item)
            self.found.append((item.topic, found))
        if size >= request.min_bytes:
            self.complete = True

    @property
    def to_tell(self) -> Collection[tuple[Topic, int]]:
        """The partitions that a session's response must contain, changed or not."""
        return self.diverging

    def _read(self, item: FetchPartition, room: int, *, first: bool) -> Found:
        partition, ask = item.found, item.ask
        if isinstance(partition, KafkaError):
            raise partition
        partition.check_epoch(ask.current_leader_epoch)
        log, high_watermark = partition.log, partition.high_watermark
        aborted: Sequence[tuple[int, int]] = ()
        if ask.last_fetched_epoch >= 0 and self._diverges(item, partition):
            data: object = b""
        else:
            room = max(0, min(ask.max_bytes, room))
            until = high_watermark
            if self.bound is not _COMMITTED:
                until = partition.until(self.bound)
            read = log.read(ask.fetch_offset, room, until, min_one=first, wait=self._wait)
            data = read.data
            if self.bound is _STABLE and read.data:
                aborted = self._aborted(log, ask.fetch_offset, read.next_offset)
            if not isinstance(data, bytes):
                if self._version < _FIRST_WITH_ZSTD and uses_zstd(first_header(data)):
                    raise KafkaError(CODES["UNSUPPORTED_COMPRESSION_TYPE"], f"{partition}: zstd")
                if data.size < SENDFILE_FROM:
                    data = data.read()  # cheaper than a system call of its own
        return Found(
            ask.partition,
            0,
            high_watermark,
            partition.last_stable_offset,
            log.start_offset,
            data,
            aborted=aborted,
        )

    def _aborted(self, log: Log, offset: int, until: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of what is aborted in the records from ``offset`` to below
        ``until``."""
        found = log.aborted(offset, until, wait=self._wait)
        return [(each.producer_id, each.first_offset) for each in found]

    def _cold(self, item: FetchPartition) -> Found:
        assert isinstance(item.found, Partition)
        self.cold.append((item.found.log, item.ask.fetch_offset))
        return Found(item.ask.partition, 0, -1, -1, -1, b"")

    def _diverges(self, item: FetchPartition, partition: Partition) -> bool:
        """Whether the reader has read records that were truncated since (KIP-595). The response
        then has the end offset of the reader's epoch, and no records. OFFSET_OUT_OF_RANGE where the
        epoch is unknown."""
        ask, log = item.ask, partition.log
        epoch, end = log.end_offset_for_epoch(ask.last_fetched_epoch)
        if epoch < 0 or ask.fetch_offset < log.start_offset:
            raise KafkaError(
                CODES["OFFSET_OUT_OF_RANGE"],
                f"{partition}: offset {ask.fetch_offset} of epoch {ask.last_fetched_epoch}",
            )
        if epoch == ask.last_fetched_epoch and ask.fetch_offset <= end:
            return False
        self.diverging[item.topic, ask.partition] = FetchResponseEpochEndOffset(epoch, end)
        self.complete = True
        return True

    def _failed(self, item: FetchPartition, error: KafkaError) -> Found:
        index = item.ask.partition
        hint = leader_hint(self._state.partitions, item.name, index, error, self._listener)
        if hint is not None:
            self.leaders[item.topic, index] = FetchResponseLeader(hint.node.node_id, hint.epoch)
            self.nodes[hint.node.node_id] = FetchResponseNode(
                node_id=hint.node.node_id, host=hint.node.host, port=hint.node.port
            )
        return Found(index, error.code, -1, -1, -1, b"")

    def warm(self) -> None:
        """Load the indexes of the ``cold`` logs. Blocks: run it in a thread."""
        for log, offset in self.cold:
            with suppress(KafkaError):  # the next round raises it again
                log.warm(offset)
                if self.bound is _STABLE:
                    log.warm_aborted(offset)


def length_of(found: Found) -> int:
    """The number of bytes of the records."""
    records = found.records
    return len(records) if isinstance(records, bytes) else cast(int, records.size)
