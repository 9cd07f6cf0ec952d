"""Exports as JSON lines; the layout is drawn in the package's text."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from tallymark.cli.messages.transfer.plan import (
    Exported,
    Plan,
    Totals,
    one_line,
)


class JsonWriter:
    """See :class:`~tallymark.cli.messages.transfer.plan.ExportWriter`. ``plan`` None: the file goes
    on."""

    def __init__(self, file: BinaryIO, plan: Plan | None) -> None:
        self._file = file
        if plan is not None:
            file.write(one_line(plan.document()) + b"\n")

    def write(self, record: Exported) -> None:
        """Add a line."""
        document = {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _encoded(record.key),
            "value": _encoded(record.value),
            "headers": [[name, _encoded(value)] for name, value in record.headers],
        }
        self._file.write(one_line(document) + b"\n")

    def flush(self) -> None:
        """To the operating system."""
        self._file.flush()

    def finish(self, totals: Totals) -> None:
        """The last line."""
        self._file.write(one_line(totals.document()) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class JsonReader:
    """See :class:`~tallymark.cli.messages.transfer.plan.ExportReader`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        line = file.readline()
        self.plan = Plan.of(_document(line, 1))
        self.intact = len(line)
        self._body = self.intact
        self.totals = self._last_line()

    def records(self) -> Iterator[Exported]:
        """Line by line; a line that is cut short at the end of an unfinished file ends it."""
        self._file.seek(self._body)
        self.intact = self._body
        for number, line in enumerate(self._file, start=2):
            if not line.endswith(b"\n"):
                if self.totals is None:
                    return
                raise ValueError(f"line {number} is cut short")
            document = _document(line, number)
            if "records" in document:
                return
            yield _record(document, number)
            self.intact += len(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _last_line(self) -> Totals | None:
        size = self._file.seek(0, os.SEEK_END)
        # The last line is short: a number, a count and a checksum for each partition.
        tail = min(size - self._body, 100 + 80 * (1 + len(self.plan.partitions)))
        self._file.seek(size - tail)
        lines = self._file.read(tail).split(b"\n")
        if len(lines) < 2 or lines[-1] or not lines[-2].startswith(b'{"records":'):
            return None
        return Totals.of(_document(lines[-2], None))


def _document(line: bytes, number: int | None) -> Any:
    where = "the last line" if number is None else f"line {number}"
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{where} is not JSON") from None
    if not isinstance(document, dict):
        raise ValueError(f"{where} is no JSON object")
    return document


def _record(document: dict[str, Any], number: int) -> Exported:
    try:
        return Exported(
            int(document["partition"]),
            int(document["offset"]),
            int(document["timestamp"]),
            _decoded(document["key"]),
            _decoded(document["value"]),
            [(str(name), _decoded(value)) for name, value in document["headers"]],
        )
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise ValueError(f"line {number} is no record ({error!r})") from None


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: Any) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
