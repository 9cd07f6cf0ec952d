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


def columns_of(mode: str, headers: bool, contents: bool) -> Mapping[str, str]:
    """All columns of a mode, with Spark's types."""
    if mode == "stamps":
        return STAMPS | (CONTENT if contents else {})
    return RECORDS | (HEADERS if headers else {})
