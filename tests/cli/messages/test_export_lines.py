"""The lines and checksums of an export are those of its format, however they are made."""

from __future__ import annotations

import base64
import json
import struct
import zlib

from hypothesis import given
from hypothesis import strategies as st

from tallymark.cli.messages.transfer.json_file import line_of
from tallymark.cli.messages.transfer.plan import Exported, Totals

DATA = st.none() | st.binary(max_size=30)
HEADERS = st.lists(st.tuples(st.text(max_size=6), DATA), max_size=3)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.builds(Exported, st.integers(0, 9), NUMBERS, NUMBERS, DATA, DATA, HEADERS)


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


@given(RECORDS)
def test_a_line_is_the_json_of_the_record(record: Exported) -> None:
    document = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": encoded(record.key),
        "value": encoded(record.value),
        "headers": [[name, encoded(value)] for name, value in record.headers],
    }
    assert line_of(record) == json.dumps(document, separators=(",", ":")).encode() + b"\n"


@given(st.lists(RECORDS, max_size=3))
def test_the_checksum_is_over_lengths_and_bytes(records: list[Exported]) -> None:
    totals, wanted = Totals.start(()), dict[int, int]()
    for record in records:
        totals.add(record)
        crc = wanted.get(record.partition, 0)
        crc = zlib.crc32(
            struct.pack(">qqi", record.offset, record.timestamp, len(record.headers)), crc
        )
        pieces = [record.key, record.value]
        for name, value in record.headers:
            pieces += (name.encode("utf-8", "surrogateescape"), value)
        for piece in pieces:
            crc = zlib.crc32(struct.pack(">i", -1 if piece is None else len(piece)), crc)
            crc = zlib.crc32(piece or b"", crc)
        wanted[record.partition] = crc
    assert totals.checksums == wanted
