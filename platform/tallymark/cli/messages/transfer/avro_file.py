"""Exports as Avro object containers.

The header of a container is at its beginning, the counts are known at the end: the metadata
``tallymark.export`` is padded with spaces, and :meth:`AvroWriter.finish` writes the counts into
that room.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import fastavro
import fastavro.write

from tallymark.cli.messages.transfer.plan import (
    Exported,
    Plan,
    Totals,
    one_line,
)

METADATA: Final = "tallymark.export"
SCHEMA: Final[Any] = {
    "type": "record",
    "name": "ExportedRecord",
    "namespace": "tallymark",
    "fields": [
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "timestamp", "type": "long", "doc": "milliseconds since 1970, UTC"},
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "value", "type": ["null", "bytes"]},
        {
            "name": "headers",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Header",
                    "fields": [
                        {"name": "name", "type": "string"},
                        {"name": "value", "type": ["null", "bytes"]},
                    ],
                },
            },
        },
    ],
}
_BLOCK_BYTES: Final = 256 * 1024
_COUNT_ROOM: Final = 64
"""Bytes for one partition: its number and count, its number and checksum, what is around them."""


class AvroWriter:
    """See :class:`~tallymark.cli.messages.transfer.plan.ExportWriter`. ``plan`` None: the file goes
    on."""

    def __init__(self, file: BinaryIO, plan: Plan | None) -> None:
        self._file = file
        metadata = {} if plan is None else {METADATA: _padded(plan).decode()}
        self._writer: Any = fastavro.write.Writer(
            file, SCHEMA, "deflate", sync_interval=_BLOCK_BYTES, metadata=metadata
        )

    def write(self, record: Exported) -> None:
        """Add a record to the block."""
        self._writer.write(
            {
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": record.key,
                "value": record.value,
                "headers": [{"name": name, "value": value} for name, value in record.headers],
            }
        )

    def flush(self) -> None:
        """End the block, to the operating system."""
        self._writer.flush()

    def finish(self, totals: Totals) -> None:
        """End the block, write the counts and checksums into the header."""
        self.flush()
        self._file.seek(0)
        old, at = _metadata(self._file)
        document = {**json.loads(old), **totals.document()}
        if len(one_line(document)) > len(old):  # begun by a version that left no room for them
            del document["crc32"]
        self._file.seek(at)
        self._file.write(one_line(document).ljust(len(old)))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class AvroReader:
    """See :class:`~tallymark.cli.messages.transfer.plan.ExportReader`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        raw, _ = _metadata(file)
        document = json.loads(raw)
        self.plan = Plan.of(document)
        self.totals: Totals | None = Totals.of(document) if "records" in document else None
        file.seek(0)
        self._blocks: Any = fastavro.block_reader(file)
        self.intact = file.tell()

    def records(self) -> Iterator[Exported]:
        """Block by block; one that is cut short at the end of an unfinished file ends it. Once."""
        while True:
            try:
                block = next(self._blocks, None)
                if block is None:
                    return
                found = [_record(item) for item in block]
            except Exception as error:  # broken bytes come out as anything
                if self.totals is None:
                    return
                raise ValueError(f"the block at byte {self.intact} is broken ({error!r})") from None
            yield from found
            self.intact = block.offset + block.size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _record(item: dict[str, Any]) -> Exported:
    headers = [(header["name"], header["value"]) for header in item["headers"]]
    numbers = item["partition"], item["offset"], item["timestamp"]
    return Exported(*numbers, item["key"], item["value"], headers)


def _padded(plan: Plan) -> bytes:
    text = one_line(plan.document())
    return text.ljust(len(text) + _COUNT_ROOM * (1 + len(plan.partitions)))


def _metadata(file: BinaryIO) -> tuple[bytes, int]:
    """The text in ``tallymark.export`` and its position in the file. ValueError."""
    file.seek(0)
    try:
        text: str = fastavro.reader(file).metadata[METADATA]
    except Exception:
        raise ValueError("it is an Avro file, but no export of Tallymark's") from None
    raw = text.encode()
    end = file.tell()
    file.seek(0)
    return raw, file.read(end).index(raw)
