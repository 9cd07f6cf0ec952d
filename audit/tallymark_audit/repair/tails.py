"""Messages that brokers saved before they cut their logs: a repair copies them from the folder
(:mod:`tallymark.protocol.records.saved_tail` draws it) as it copies others from upstream.

A source of a plan is named ``tail:CLUSTER:FOLDER`` then. A tail is of the cluster whose topic has
its topic id: that of a topic which was deleted and made again is of none, and nothing of it is
copied. It is looked at again when the plan is carried out.

Of a transaction that is taken what its COMMIT marker follows in the tail. Another one was aborted,
or nothing says that it was committed: such a record must not come back.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from tallymark.client import Fetched
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.isolation import Isolation
from tallymark.deployment import Deployment
from tallymark.errors import CODES, CorruptRecordError, KafkaError, UserError
from tallymark.protocol.records.batch import Batch, split_batches
from tallymark.protocol.records.markers import marker_of
from tallymark.protocol.records.saved_tail import DESCRIPTION, TRUNCATED, Tail, decode_tail
from tallymark.protocol.topic_partition import EARLIEST
from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.model.log_reader import FetchedLike, LogReader, TopicLike, topic_id_of
from tallymark_audit.model.ranges import EMPTY, RangeSet

PREFIX: Final = "tail:"
_FETCH_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class HeldTail:
    """A tail of a cluster. ``sequences`` of its stamped messages by (instance as hex, origin
    partition)."""

    cluster: str
    folder: str
    tail: Tail
    sequences: Mapping[tuple[str, int], RangeSet] = field(
        default_factory=dict[tuple[str, int], RangeSet]
    )

    @property
    def source(self) -> str:
        """The name of the source in a plan."""
        return f"{PREFIX}{self.cluster}:{self.folder}"

    @property
    def within(self) -> OffsetRange:
        """Where its messages are."""
        return OffsetRange(self.tail.partition, self.tail.from_offset, self.tail.to_offset - 1)


class FoundTails(NamedTuple):
    """``held``: those of the clusters. ``others``: folder and why nothing of it is copied."""

    held: tuple[HeldTail, ...]
    others: tuple[tuple[str, str], ...] = ()


def find_tails(
    paths: Iterable[Path],
    clusters: Sequence[str],
    reader_of: Callable[[str], LogReader],
) -> FoundTails:
    """The tails at ``paths``: each the folder of a tail, or one that has some, as a broker's data
    directory. UserError: a path is neither. TallymarkError: a cluster cannot be asked."""
    found = [pair for path in paths for pair in _at(path)]
    if not found:
        return FoundTails(())
    ids = {name: _topic_ids(reader_of(name)) for name in clusters}
    held: list[HeldTail] = []
    others: list[tuple[str, str]] = []
    for folder, tail in dict(found).items():
        cluster = next((name for name in clusters if tail.topic_id.hex in ids[name]), None)
        if cluster is None:
            others.append((folder, _foreign(tail)))
        else:
            held.append(HeldTail(cluster, folder, tail, _sequences(folder)))
    return FoundTails(tuple(held), tuple(others))


def tails_for(
    deployment: Deployment, reader_of: Callable[[str], LogReader], named: Iterable[Path] = ()
) -> FoundTails:
    """What brokers saved: in the folders ``named``, and in those of the brokers of this machine.
    Errors as of :func:`find_tails`."""
    here = [
        deployment.data_dir / cluster.name / f"broker-{broker.id}"
        for cluster in deployment.clusters
        for broker in cluster.brokers
    ]
    paths = [*named, *(path for path in here if path.is_dir())]
    return find_tails(paths, [one.name for one in deployment.clusters], reader_of)


def from_tails(
    tails: Iterable[HeldTail], cluster: str, topic: str, origin: tuple[str, int], missing: RangeSet
) -> Iterator[tuple[HeldTail, RangeSet]]:
    """Which of the ``missing`` sequences each tail has; one that several have is of the first."""
    left = missing
    for held in tails:
        if (held.cluster, held.tail.topic) == (cluster, topic):
            there = left & held.sequences.get(origin, EMPTY)
            if there:
                yield held, there
                left = left - there


def open_tail(source: str, reader_of: Callable[[str], LogReader]) -> TailReader:
    """The tail of a plan's source. UserError: it is not there any more, or the topic is another one
    by now."""
    _, cluster, folder = source.split(":", 2)
    tail = _tail_in(Path(folder))
    if tail is None:
        raise UserError(f"{folder} has no saved records", "make a new plan")
    if tail.topic_id.hex not in _topic_ids(reader_of(cluster)):
        raise UserError(f"{folder}: {_foreign(tail)}", "make a new plan")
    return TailReader(folder, tail)


class _TailTopic(NamedTuple):
    name: str
    topic_id: Any
    partitions: tuple[int, ...]


class TailReader:
    """The folder of a tail, read like a cluster with one partition. Batches whose checksum does not
    hold are left out."""

    def __init__(self, folder: str, tail: Tail) -> None:
        self._folder = folder
        self._tail = tail
        self._next = -1
        self._rest: Iterator[Batch] = iter(())
        self._ends: _Ends | None = None

    def topics(self) -> Mapping[str, TopicLike]:
        """The one topic."""
        tail = self._tail
        found: Any = _TailTopic(tail.topic, tail.topic_id, (tail.partition,))
        return {tail.topic: found}

    def topics_named(self, names: Any) -> Mapping[str, TopicLike | KafkaError]:
        """Those of the names that are here."""
        there = self.topics()
        return {name: there.get(name) or _unknown(name) for name in names}

    def multifetch(
        self,
        specs: Any,
        *,
        max_bytes: int = _FETCH_BYTES,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        isolation: Isolation | None = None,
    ) -> Sequence[FetchedLike | KafkaError]:
        """Batches from each offset on; reading on from where the last one ended is cheap. A tail
        has no markers that follow, so ``isolation`` is without meaning."""
        return [self._fetch(each[0], each[1], each[2], max_bytes) for each in specs]

    def get_offsets_before(
        self, topic: str, partition: int, time: int, max_offsets: int = 1
    ) -> Sequence[int]:
        """Where the tail begins or ends."""
        if (topic, partition) != (self._tail.topic, self._tail.partition):
            raise _unknown(f"{topic}-{partition}")
        return [self._tail.from_offset if time == EARLIEST else self._tail.to_offset]

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Where to begin: at its start, since a tail is short."""
        return self.get_offsets_before(topic, partition, EARLIEST)[0]

    def close(self) -> None:
        """Nothing is open."""

    def _fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Any:
        self.get_offsets_before(topic, partition, EARLIEST)
        if offset != self._next:
            self._rest = _batches_of(self._folder)
        found: list[Batch] = []
        at, size = offset, 0
        try:
            if self._ends is None:
                self._ends = _ends_in(self._folder)
            for batch in self._rest:
                if batch.header.next_offset <= offset:
                    continue
                at = batch.header.next_offset
                if _is_whole(batch) and _is_committed(batch, self._ends):
                    found.append(batch)
                size += batch.header.size
                if size >= max_bytes:
                    break
        except (OSError, CorruptRecordError) as error:
            return KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{self._folder}: {error}")
        self._next = at
        tail = self._tail
        return Fetched(
            topic,
            partition,
            offset,
            tail.to_offset,
            tail.from_offset,
            found,
            at,
            -1,
            tail.to_offset,
        )


def _at(path: Path) -> list[tuple[str, Tail]]:
    folder = path.absolute()
    try:
        own = _tail_in(folder)
        if own is not None:
            return [(os.fspath(folder), own)]
        inner = [each for each in folder.iterdir() if each.name.endswith(TRUNCATED)]
        found = [(os.fspath(each), _tail_in(each)) for each in inner]
    except OSError as error:
        raise UserError(
            f"{folder} cannot be read: {error.strerror or error}",
            "give --tails a folder named -truncated, or one that has some",
        ) from error
    whole = [(name, tail) for name, tail in found if tail is not None]
    return sorted(whole, key=lambda one: (one[1].saved_at, one[0]))


def _tail_in(folder: Path) -> Tail | None:
    path = folder / DESCRIPTION
    return decode_tail(path.read_bytes()) if path.is_file() else None


def _batches_of(folder: str) -> Iterator[Batch]:
    """In their order. CorruptRecordError: what follows are no batches."""
    for path in sorted(Path(folder).glob("*.log")):
        with path.open("rb") as file:
            rest = b""
            while piece := file.read(_FETCH_BYTES):
                data, taken = rest + piece, 0
                for batch in split_batches(data):
                    taken += batch.header.size
                    yield batch
                rest = data[taken:]


def _topic_ids(reader: LogReader) -> set[str]:
    return {topic_id_of(topic) for topic in reader.topics().values()} - {""}


def _sequences(folder: str) -> dict[tuple[str, int], RangeSet]:
    found: dict[tuple[str, int], list[int]] = {}
    try:
        ends = _ends_in(folder)
        for batch in _batches_of(folder):
            if batch.header.is_control or not (_is_whole(batch) and _is_committed(batch, ends)):
                continue
            for record in batch.records(batch.usual_max_size):
                stamp = stamp_of(record.headers)
                if isinstance(stamp, Stamp):
                    origin = stamp.instance.hex(), stamp.partition
                    found.setdefault(origin, []).append(stamp.sequence)
    except (OSError, CorruptRecordError) as error:
        raise UserError(f"{folder} cannot be read: {error}", "leave it out of --tails") from error
    return {origin: RangeSet.of(sorted(sequences)) for origin, sequences in found.items()}


_Ends: TypeAlias = Mapping[int, Sequence[tuple[int, bool]]]
"""Of each producer the offsets of its markers, ascending, and whether they commit."""


def _ends_in(folder: str) -> _Ends:
    found: dict[int, list[tuple[int, bool]]] = {}
    for batch in _batches_of(folder):
        if batch.header.is_control and batch.header.is_transactional and _is_whole(batch):
            marker = marker_of(batch)
            if marker is not None:
                ends = found.setdefault(batch.header.producer_id, [])
                ends.append((batch.header.base_offset, marker.commit))
    return found


def _is_committed(batch: Batch, ends: _Ends) -> bool:
    """Whether the batch is of no transaction, or the next marker of its producer commits it."""
    header = batch.header
    if header.is_control or not header.is_transactional:
        return True
    own = ends.get(header.producer_id, ())
    following = bisect_right(own, header.base_offset, key=lambda end: end[0])
    return following < len(own) and own[following][1]


def _is_whole(batch: Batch) -> bool:
    try:
        batch.check_crc()
    except CorruptRecordError:
        return False
    return True


def _foreign(tail: Tail) -> str:
    return (
        f"no cluster has the topic {tail.topic} with the id {tail.topic_id}: it was deleted, and "
        "one that was made again under its name is another one"
    )


def _unknown(what: str) -> KafkaError:
    return KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], f"{what} is not in the saved records")
