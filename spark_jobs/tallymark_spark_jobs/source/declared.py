"""The columns of the source as Spark declares them. :mod:`tallymark_spark_jobs.source.rows` has the
same for Arrow: the processes that only plan do not load it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RECORDS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS: Final = {"headers": "array<struct<key: string, value: binary>>"}
STAMPS: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "bigint",
    "size": "int",
    "stamped": "tinyint",
    "server": "string",
    "instance": "string",
    "origin_partition": "int",
    "sequence": "bigint",
}
CONTENT: Final = {"content": "bigint"}
COPIES: Final = "array<struct<partition: int, offset: bigint, sequence: bigint>>"
_CELL: Final = {
    "topic": "string",
    "origin_partition": "int",
    "window": "bigint",
    "server": "string",
    "instance": "string",
    "aborted": "boolean",
    "damaged": "boolean",
    "kind": "tinyint",
}
_BLOCK: Final = {"block": "bigint"}
_SEQUENCES: Final = {"first_sequence": "bigint", "last_sequence": "bigint", "messages": "bigint"}
_EXTRA: Final = {
    "extra": "bigint",
    "copies": COPIES,
}
_DIGESTS: Final = {"digest_xor": "bigint", "digest_low": "bigint", "digest_high": "bigint"}
_BOUNDS: Final = {
    "bytes": "bigint",
    "malformed": "bigint",
    "first_partition": "int",
    "last_partition": "int",
    "first_offset": "bigint",
    "last_offset": "bigint",
    "min_timestamp": "bigint",
    "max_timestamp": "bigint",
}
_HALVES: Final = {"content_low": "bigint", "content_high": "bigint"}


def columns_of(mode: str, headers: bool, contents: bool) -> Mapping[str, str]:
    """All columns of a mode, with Spark's types."""
    if mode in ("runs", "cells"):
        return _counted(mode, contents)
    if mode == "stamps":
        return STAMPS | (CONTENT if contents else {})
    return RECORDS | (HEADERS if headers else {})


def _counted(mode: str, contents: bool) -> Mapping[str, str]:
    """Name and Spark's type of each column. ``contents``: keys and values are hashed."""
    if mode == "cells":
        columns = _CELL | _SEQUENCES | _DIGESTS | _BOUNDS
    else:
        columns = _CELL | (_BLOCK if contents else {}) | _SEQUENCES | _EXTRA | _BOUNDS
    return columns | (_HALVES if contents else {})
