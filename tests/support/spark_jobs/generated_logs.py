"""Logs of one partition from a seed, as batches in the order of their offsets: what producers,
retries, mirrors and transactions really leave, and some of what they should not."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tallymark.client.producing.stamps import MAX_SEQUENCE, Stamp, encode_stamp
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.columns import RecordColumns

Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
_ODD: tuple[bytes | None, ...] = (
    *(None, b"", b"\x01", b"\x02" + b"i" * 20, b"\x01" + b"i" * 8 + b"\x00\x05we\0b"),
    b"\x01" + b"i" * 8 + b"\x80\x00\x05web",
    b"\x01" + b"i" * 8 + b"\x00\x05we\xff",
    b"\x01" + b"i" * 8 + b"\x00\x85",
    b"\x01" + b"i" * 8 + b"\x00\x05" + b"s" * 256,
)
_SERVERS = ("web-1", "web-2", "", "x" * 255, "wéb-日本", "server-of-24-bytes-name.", "eight-by")


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A batch, as the source's pieces are."""

    columns: RecordColumns
    aborted: bool = False


@dataclass(slots=True)
class _Producer:
    stamp: Stamp
    at: int
    sent: list[Row] = field(default_factory=list[Row])

    def some(self, random: Random, count: int, faults: float) -> list[Row]:
        """Its next records, with what goes wrong between a producer and a log."""
        found: list[Row] = []
        for _ in range(count):
            value = random.choice((None, b"", b"v" * random.randrange(40)))
            key = random.choice((None, None, b"", b"k" * random.randrange(9)))
            row: Row = (key, value, (("tm", encode_stamp(self.stamp)),), self.at)
            sequence = min(MAX_SEQUENCE, self.stamp.sequence + 1)
            stamp = self.stamp
            self.stamp = Stamp(stamp.instance, stamp.partition, sequence, stamp.server)
            self.at += random.choice((0, 0, 1, 3))
            self.sent.append(row)
            what = random.random()
            if what >= faults:
                found.append(row)
            elif what < faults / 3:
                found += [row, row]
            elif what < faults / 2:
                found.append(row)
                found.append(random.choice(self.sent))
        if random.random() < faults:
            random.shuffle(found)
        if random.random() < faults and self.sent:
            at = random.randrange(len(self.sent))
            found += self.sent[at : at + random.randrange(30)]
        return found


def generated_log(seed: int, size: int = 8) -> list[tuple[Batch, bool]]:
    """The batches, and of each whether its transaction was aborted."""
    random = Random(seed)
    faults = random.choice((0.0, 0.0, 0.05, 0.4))
    producers = [_producer(random, number) for number in range(random.choice((1, 1, 2, 7)))]
    mixed = random.random() < 0.5
    offset = random.choice((0, 0, 7, 2**40))
    batches: list[tuple[Batch, bool]] = []
    for _ in range(random.randint(1, size)):
        rows: list[Row] = []
        for _ in range(random.randint(1, 12) if mixed else 1):
            producer = random.choice(producers)
            rows += producer.some(
                random, random.choice((1, 2, 5) if mixed else (1, 20, 70)), faults
            )
            if random.random() < faults:
                rows += _unstamped(random, producer.at)
        if not rows:
            continue
        codec = random.choice(("none", "none", "gzip"))
        data = encode_batch(rows, base_offset=offset, compression=codec)
        (batch,) = split_batches(data)
        batches.append((batch, random.random() < 0.1))
        offset = batch.header.next_offset + random.choice((0, 0, 0, 1, 5))
    return batches


def pieces_of(batches: list[tuple[Batch, bool]]) -> list[LogPiece]:
    """As the source reads them."""
    return [LogPiece(batch.columns(), aborted) for batch, aborted in batches]


def _producer(random: Random, number: int) -> _Producer:
    stamp = Stamp(
        random.choice((b"instance", b"another!", b"%08d" % number)),
        random.choice((0, 0, 1, 200, 2**31 - 1)),
        random.choice((0, 5, 100, 1000, 16_380, 2**40, MAX_SEQUENCE - 20)),
        random.choice(_SERVERS),
    )
    return _Producer(stamp, random.choice((-5, 0, 900, 990, 5_000, 10**12)))


def _unstamped(random: Random, at: int) -> list[Row]:
    raw = random.choice(_ODD)
    choices: tuple[Any, ...] = (
        (("tm", raw),),
        (),
        (("other", b"x"),),
        (("tm", b"first"), ("tm", raw)),
    )
    return [(None, b"v", random.choice(choices), at) for _ in range(random.randint(1, 4))]


@dataclass
class Fetched:
    """What a :class:`GeneratedLog` answers."""

    high_watermark: int
    batches: list[Batch]
    next_offset: int
    left_out: list[Batch]
    last_epoch: int = 0


@dataclass
class GeneratedLog:
    """Answers a reader of spans with ``at_once`` batches from the asked offset on."""

    batches: list[tuple[Batch, bool]]
    at_once: int = 100

    @property
    def end(self) -> int:
        """The offset behind the last batch."""
        return self.batches[-1][0].header.next_offset if self.batches else 0

    def fetch(self, topic: str, partition: int, offset: int, **_: int) -> Fetched:
        """The batches, without those of aborted transactions."""
        some = [one for one in self.batches if one[0].header.next_offset > offset][: self.at_once]
        kept = [batch for batch, aborted in some if not aborted]
        behind = some[-1][0].header.next_offset if some else offset
        return Fetched(self.end, kept, behind, [batch for batch, aborted in some if aborted])
