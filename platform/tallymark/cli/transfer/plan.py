"""What an exported file is of, and one record of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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


def counts_document(counts: Mapping[int, int]) -> dict[str, Any]:
    """The last line of a file."""
    return {"records": {str(number): count for number, count in sorted(counts.items())}}


def counts_of(document: Any) -> Counts:
    """The counts in a last line. ValueError when there are none."""
    try:
        return {int(number): int(count) for number, count in document["records"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its counts cannot be read ({error!r})") from None


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

    def finish(self, counts: Counts) -> None:
        """Say how many it were, and sync."""
        ...

    def close(self) -> None:
        """Close the file, finished or not. Idempotent."""
        ...


class ExportReader(Protocol):
    """Reads a file; ``counts`` is None for one that was never finished. ValueError and OSError of
    ``records`` say what is wrong with it."""

    plan: Plan
    counts: Counts | None

    def records(self) -> Iterator[Exported]:
        """All records. After the last one ``intact`` is the size of the file up to its end."""
        ...

    intact: int
    """Bytes up to the end of what has been read whole."""

    def close(self) -> None:
        """Close the file."""
        ...
