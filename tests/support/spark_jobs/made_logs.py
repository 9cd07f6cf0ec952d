"""Logs of many kinds of batches, made from a seed, with what is used of the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

from hostile_batches import garbage

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, encode_stamp
from tallymark.protocol.records.batch import Batch, encode_batch, place_batch, split_batches


@dataclass
class Fetched:
    high_watermark: int
    batches: Sequence[Batch]
    next_offset: int
    left_out: Sequence[Batch]
    last_epoch: int = 0


@dataclass
class Log:
    """Answers with ``at_once`` batches from the asked offset on."""

    batches: list[tuple[Batch, bool]]
    at_once: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self.batches[-1][0].header.next_offset

    def fetch(self, topic: str, partition: int, offset: int, **_: int) -> Fetched:
        some = [one for one in self.batches if one[0].header.next_offset > offset][: self.at_once]
        kept = [batch for batch, aborted in some if not aborted]
        behind = some[-1][0].header.next_offset if some else offset
        return Fetched(self.end, kept, behind, [batch for batch, aborted in some if aborted])


def made(seed: int) -> Log:
    """Batches of many kinds: of one record and of hundreds, of equal and of different sizes,
    compressed or not, aborted, full of holes, and such as cannot be read."""
    random = Random(seed)
    batches: list[tuple[Batch, bool]] = []
    offset = random.randrange(3)
    for _ in range(random.randint(1, 12)):
        if random.random() < 0.1:
            count = random.randint(1, 4)
            room = bytearray(garbage(random.randrange(99), count=count, last_delta=count - 1))
        else:
            size = random.choice((0, 3, 90))
            sequence = random.choice((0, 100, 16_300))
            rows = [
                (
                    random.choice((None, b"key")),
                    random.choice((None, b"v" * size, b"w" * random.randint(0, 99))),
                    headers(random, sequence),
                    random.choice((0, 5, 10)),
                )
                for sequence in range(sequence, sequence + random.choice((1, 2, 7, 120)))
            ]
            room = bytearray(encode_batch(rows, compression=random.choice(("none", "zstd", "lz4"))))
        place_batch(room, 0, offset, 0)
        (batch,) = split_batches(bytes(room))
        batches.append((batch, random.random() < 0.2))
        offset = batch.header.next_offset + random.choice((0, 0, 0, 5))
    return Log(batches, random.randint(1, 8))


def headers(random: Random, sequence: int) -> tuple[tuple[str, bytes | None], ...]:
    """Mostly the stamp of the sequence."""
    kind = random.random()
    if kind < 0.9:
        server = "web-1" if kind < 0.88 else "a\0b"
        return ((STAMP_HEADER, encode_stamp(Stamp(b"instance", 3, sequence, server))),)
    return random.choice(((), ((STAMP_HEADER, b"stamp"),), ((STAMP_HEADER, None), ("x", b"y"))))
