"""Bytes to lines. A line is bounded, and UTF-8; one that is not becomes a :class:`Bad`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tallymark.errors import UserError
from tallymark.publishing.reading.rows import Bad, Line, Lines

MAX_LINE: Final = 1_048_576
"""Bytes. A broker takes batches of 1 MB by default; a longer line could not be sent."""
MAX_RAW: Final = 2_000
"""Characters of an over-long line that are kept to recognise it by."""
MAX_ENDLESS: Final = 64 * MAX_LINE
"""Bytes without any end of line after which the input is given up as no text at all."""
_BOM: Final = b"\xef\xbb\xbf"


def split_lines(chunks: Iterator[bytes | None]) -> Lines:
    """Lines of a stream of chunks; None passes through. The last line needs no newline."""
    splitter = _Splitter()
    for chunk in chunks:
        if chunk is None:
            yield None
        else:
            yield from splitter.feed(chunk)
    yield from splitter.end()


class _Splitter:
    def __init__(self) -> None:
        self._number = 0
        self._rest = bytearray()
        # Of an over-long line only the beginning is kept, while the rest of it flows by.
        self._overlong: bytes | None = None
        self._endless = 0

    def feed(self, chunk: bytes) -> Iterator[Line | Bad]:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            yield self._finish(piece)
            self._endless = 0
        self._endless += len(rest)
        if self._endless > MAX_ENDLESS:
            raise UserError(
                f"line {self._number + 1} has no end within {MAX_ENDLESS >> 20} MiB",
                "give text: JSON lines, CSV or an access log",
            )
        self._keep(rest)

    def end(self) -> Iterator[Line | Bad]:
        if self._rest or self._overlong is not None:
            yield self._finish(b"")

    def _keep(self, piece: bytes) -> None:
        if self._overlong is None:
            self._rest += piece
            if len(self._rest) > MAX_LINE:
                self._overlong = bytes(self._rest[:MAX_RAW])
                self._rest.clear()

    def _finish(self, piece: bytes) -> Line | Bad:
        self._keep(piece)
        self._number += 1
        data, overlong = bytes(self._rest), self._overlong
        self._rest.clear()
        self._overlong = None
        if overlong is not None:
            raw = overlong.decode("utf-8", "replace")
            return Bad(self._number, f"the line is longer than {MAX_LINE} bytes", raw)
        if self._number == 1:
            data = data.removeprefix(_BOM)
        data = data.removesuffix(b"\r")
        try:
            return Line(self._number, data.decode("utf-8"))
        except UnicodeDecodeError as error:
            reason = f"the line is not UTF-8: byte 0x{data[error.start]:02x} at {error.start}"
            return Bad(self._number, reason, data.decode("utf-8", "backslashreplace"))
