"""What an exported file is of, and one record of it. Pure."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

VERSION = 1


class Exported(NamedTuple):
    """A record as it was in its log."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Plan:
    """``partitions``: partition -> (first offset, offset behind the last), fixed when the export
    begins, whenever it ends."""

    topic: str
    topic_id: str
    cluster_id: str
    exported_at_ms: int
    partitions: Mapping[int, tuple[int, int]]

    def document(self) -> dict[str, Any]:
        """The first line of a file."""
        return {
            "tallymark-export": VERSION,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "cluster_id": self.cluster_id,
            "exported_at_ms": self.exported_at_ms,
            "partitions": {str(number): list(ends) for number, ends in self.partitions.items()},
        }

    @classmethod
    def of(cls, document: Any) -> Plan:
        """The plan in a first line. ValueError when it is none."""
        try:
            version = document["tallymark-export"]
            if version != VERSION:
                raise ValueError(f"the format's version is {version!r}, not {VERSION}")
            return cls(
                topic=str(document["topic"]),
                topic_id=str(document["topic_id"]),
                cluster_id=str(document["cluster_id"]),
                exported_at_ms=int(document["exported_at_ms"]),
                partitions={
                    int(number): (int(first), int(end))
                    for number, (first, end) in document["partitions"].items()
                },
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it does not say what it is an export of ({error!r})") from None


Counts = dict[int, int]
"""Partition -> records."""

_NUMBERS = struct.Struct(">qqi")
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)


@dataclass(slots=True)
class Totals:
    """What the file holds of each partition: how many records, and the CRC-32 of them all.
    ``checksums`` is empty for a file that has none (those of the first version)."""

    counts: Counts
    checksums: dict[int, int]

    @classmethod
    def start(cls, partitions: Iterable[int]) -> Totals:
        """Nothing yet, of these partitions."""
        return cls(zeros := dict.fromkeys(partitions, 0), dict(zeros))

    def add(self, record: Exported) -> None:
        """Count the next record of its partition."""
        number = record.partition
        self.counts[number] = self.counts.get(number, 0) + 1
        self.checksums[number] = _checksum(record, self.checksums.get(number, 0))

    def document(self) -> dict[str, Any]:
        """The last line of a file."""
        return {
            "records": {str(number): self.counts[number] for number in sorted(self.counts)},
            "crc32": {str(number): self.checksums[number] for number in sorted(self.checksums)},
        }

    @classmethod
    def of(cls, document: Any) -> Totals:
        """The totals in a last line. ValueError when there are none."""
        try:
            counts, checksums = (
                {int(number): int(value) for number, value in found.items()}
                for found in (document["records"], document.get("crc32", {}))
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"its counts cannot be read ({error!r})") from None
        return cls(counts, checksums)

    def check(self, found: Totals) -> None:
        """ValueError unless ``found``, of the records that were read, is what the file says."""
        for number in sorted({*self.counts, *found.counts}):
            says, has = self.counts.get(number, 0), found.counts.get(number, 0)
            if says != has:
                raise ValueError(
                    f"partition {number} of the file has {has} records, but says that it has {says}"
                )
        for number, checksum in self.checksums.items():
            if found.checksums.get(number, 0) != checksum:
                raise ValueError(
                    f"the records of partition {number} are not those that were exported "
                    "(checksum): the file was damaged"
                )


def _checksum(record: Exported, before: int) -> int:
    """Over the offset, time and number of headers, then the lengths (-1: null) and bytes of key,
    value, and each header's name and value."""
    found = [_NUMBERS.pack(record.offset, record.timestamp, len(record.headers))]
    pieces = [record.key, record.value]
    for name, value in record.headers:
        pieces += (name.encode("utf-8", "surrogateescape"), value)
    for piece in pieces:
        if piece is None:
            found.append(_NULL)
        else:
            found += (_LENGTH.pack(len(piece)), piece)
    return zlib.crc32(b"".join(found), before)


def one_line(document: Mapping[str, Any]) -> bytes:
    """JSON without spaces."""
    return json.dumps(document, separators=(",", ":")).encode()


class ExportWriter(Protocol):
    """Writes a file from its first or next record on."""

    def write(self, record: Exported) -> None:
        """Add a record."""
        ...

    def flush(self) -> None:
        """Hand everything over to the operating system: a kill loses nothing of it."""
        ...

    def finish(self, totals: Totals) -> None:
        """Say what it were, and sync."""
        ...

    def close(self) -> None:
        """Close the file, finished or not. Idempotent."""
        ...


class ExportReader(Protocol):
    """Reads a file; ``totals`` is None for one that was never finished. ValueError and OSError of
    ``records`` say what is wrong with it."""

    plan: Plan
    totals: Totals | None

    def records(self) -> Iterator[Exported]:
        """All records. After the last one ``intact`` is the size of the file up to its end."""
        ...

    intact: int
    """Bytes up to the end of what has been read whole."""

    def close(self) -> None:
        """Close the file."""
        ...
