"""Messages that are awkward on purpose, and what of them lies in the broker's files."""

from __future__ import annotations

import base64
import random
import struct
import time
from pathlib import Path
from typing import Final, TypeAlias

from tallymark.protocol.records.compression import CODECS

Row: TypeAlias = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]
"""Key, value, headers, timestamp in ms."""

COUNT: Final = 60
FIRST_TIMESTAMP: Final = int(time.time()) * 1000 - 3_600_000
"""An hour ago: inside of every retention."""

SECONDS: Final = 15.0
"""How long a client may take for anything before its test fails."""

LINGER_MS: Final = 100
"""Clients store a batch as it is where compressing makes it larger, as of one short message; so
that batches hold many, however slow the test is."""


def rows(seed: str, null_headers: bool = False) -> list[Row]:
    """Empty, null and binary keys, values and headers among them; null values of headers only when
    asked for: kafka-python reads them but refuses to send them."""
    found: list[Row] = []
    for n in range(COUNT):
        key = None if n % 7 == 5 else b"" if n % 11 == 4 else b"k%d" % n
        value = bytes(range(256)) * (n % 4) + seed.encode()
        if n % 12 == 8:
            value = b""
        # Both null is what kafka-python refuses to send.
        tombstone = n % 10 == 3 and key is not None
        last = None if null_headers else b"\0"
        headers = [("h", b"%d" % n), ("h", b""), ("ä", bytes([n])), ("last", last)]
        row = key, None if tombstone else value, headers[: n % 5], FIRST_TIMESTAMP + n * 1000
        found.append(row)
    return found


COLUMN_HEADERS: Final[list[tuple[str, bytes | None]]] = [("h", b""), ("ä", b"\xff"), ("null", None)]
LARGE: Final = 700_000
_DAY_MS: Final = 86_400_000


def columns(seed: str) -> list[Row]:
    """Rows with the same headers, as one call with columns makes them: lengths on both sides of
    where a varint grows, one that no codec makes smaller, times that go back by days, both null."""
    chance = random.Random(seed)
    found: list[Row] = []
    for n in range(2 * COUNT):
        value = None if n % 9 == 5 else chance.randbytes(n + n // 60 * 8_000)
        key = None if n % 7 == 5 else b"" if n % 11 == 4 else b"k" * (n // 2)
        timestamp = FIRST_TIMESTAMP + chance.choice([0, 1, -1, -70_000, -4 * _DAY_MS])
        found.append((key, value, COLUMN_HEADERS, timestamp))
    found[COUNT] = None, chance.randbytes(LARGE), COLUMN_HEADERS, FIRST_TIMESTAMP
    return found


def to_tsv(some: list[Row], file: Path) -> None:
    """Write rows for the Java driver; ``Row.java`` says how a line is made."""
    lines: list[str] = []
    for key, value, headers, timestamp in some:
        cells = [f"{_text(name.encode())}.{_text(data)}" for name, data in headers]
        lines.append("\t".join([_text(key), _text(value), str(timestamp), *cells]))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def from_tsv(file: Path) -> list[Row]:
    """Read rows that the Java driver wrote."""
    found: list[Row] = []
    for line in file.read_text(encoding="ascii").splitlines():
        key, value, timestamp, *cells = line.split("\t")
        headers = [
            ((_bytes(name) or b"").decode(), _bytes(data))
            for name, _, data in (cell.partition(".") for cell in cells)
        ]
        found.append((_bytes(key), _bytes(value), headers, int(timestamp)))
    return found


def _text(data: bytes | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def _bytes(cell: str) -> bytes | None:
    return None if cell == "-" else base64.b64decode(cell)


_BATCH: Final = struct.Struct(">qiibIh")
"""Base offset, length of what follows it, leader epoch, magic, CRC, attributes."""


def stored_codecs(data_folder: Path, topic: str) -> set[str]:
    """The codecs of the batches in the files of partition 0, wherever it lies in the folder."""
    found: set[str] = set()
    for file in data_folder.rglob(f"{topic}-0/*.log"):
        data, at = file.read_bytes(), 0
        while at + _BATCH.size <= len(data):
            _, length, _, magic, _, attributes = _BATCH.unpack_from(data, at)
            assert magic == 2
            found.add(CODECS[attributes & 7])
            at += 12 + length
    return found


def stored_bytes(data_folder: Path, topic: str) -> int:
    """Bytes of the segments of partition 0."""
    return sum(file.stat().st_size for file in data_folder.rglob(f"{topic}-0/*.log"))
