"""Exports as JSON lines; the layout is drawn in the package's text."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, BinaryIO, Final

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
        self._file.write(line_of(record))

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


def line_of(record: Exported) -> bytes:
    """The record as JSON in a line, as :func:`one_line` makes it, in a third of the time."""
    partition, offset, timestamp, key, value, headers = record
    pairs = ",".join([f"[{_quoted(name)},{_base64(content)}]" for name, content in headers])
    where = f'"partition":{partition},"offset":{offset},"timestamp":{timestamp}'
    contents = f'"key":{_base64(key)},"value":{_base64(value)},"headers":[{pairs}]'
    return f"{{{where},{contents}}}\n".encode()


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


def _base64(data: bytes | None) -> str:
    return "null" if data is None else f'"{binascii.b2a_base64(data, newline=False).decode()}"'


_quoted: Final = lru_cache(maxsize=1024)(json.dumps)
"""The name of a header; few are different."""


def _decoded(text: Any) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
