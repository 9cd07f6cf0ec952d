"""Tallies as JSON and as Arrow: each drawn once, here.

JSON, an object a tally; what is empty is left out, numbers of 64 bits unsigned are hex::

    {"cell": [topic, partition, window, server, instance], "aborted": true,
     "messages": 50, "extra": 1, "bytes": 500, "malformed": 0,
     "ranges": [first, last, first, last ...], "again": [[first, last ...] ...],
     "copies": [partition, offset, sequence ...], "digest": [xor, sum],
     "partitions": [first, last], "offsets": [first, last], "timestamps": [min, max],
     "blocks": [block, records, hash ...]}

Arrow, a row a tally (:func:`schema`): the same columns, lists flat in the same way; xor, sum and
the hashes of blocks are the 64 bits read as signed numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tallymark_audit.model.cells import Block, CellKey, Copy
from tallymark_spark_jobs.counting.arrow import column
from tallymark_spark_jobs.counting.digests import BITS
from tallymark_spark_jobs.counting.intervals import Range
from tallymark_spark_jobs.counting.tally import CellTally

if TYPE_CHECKING:
    import pyarrow as pa

_SIGN: Final = 1 << 63
_MOST: Final = _SIGN - 1
_AT_ONCE: Final = 4096
_COUNTS: Final = ("messages", "extra", "bytes", "malformed")
_BOUNDS: Final = (
    "first_partition",
    "last_partition",
    "first_offset",
    "last_offset",
    "min_timestamp",
    "max_timestamp",
)


def to_json(tally: CellTally) -> dict[str, object]:
    """The object of one tally."""
    told: dict[str, object] = {"cell": list(tally.key)}
    if tally.aborted:
        told["aborted"] = True
    for name in _COUNTS:
        if number := getattr(tally, name):
            told[name] = number
    if tally.ranges:
        told["ranges"] = _flat(tally.ranges)
        told["digest"] = [f"{tally.digest_xor:016x}", f"{tally.digest_sum:016x}"]
    if tally.again:
        told["again"] = [_flat(level) for level in tally.again]
    if tally.copies:
        told["copies"] = _flat(tally.copies)
    told["partitions"] = [tally.first_partition, tally.last_partition]
    told["offsets"] = [tally.first_offset, tally.last_offset]
    told["timestamps"] = [tally.min_timestamp, tally.max_timestamp]
    if tally.blocks:
        told["blocks"] = [
            told for block in tally.blocks for told in (*block[:2], f"{block.hash:016x}")
        ]
    return told


def from_json(raw: object) -> CellTally:
    """The inverse of :func:`to_json`. ValueError says what is no tally."""
    if not isinstance(raw, dict):
        raise ValueError(f"a tally is an object, not {type(raw).__name__}")
    try:
        topic, partition, window, server, instance = raw["cell"]
        if not all(isinstance(one, str) for one in (topic, server, instance)):
            raise ValueError(f"a cell has a topic, a server and an instance, not {raw['cell']}")
        _whole([partition, window])
        xor, total = (int(one, 16) & BITS for one in raw.get("digest", ["0", "0"]))
        return CellTally(
            key=CellKey(topic, partition, window, server, instance),
            aborted=raw.get("aborted", False) is True,
            ranges=_ranges(_whole(raw.get("ranges", []))),
            copies=tuple(Copy(*one) for one in _rows(_whole(raw.get("copies", [])), 3)),
            digest_xor=xor,
            digest_sum=total,
            blocks=tuple(_blocks(raw.get("blocks", []))),
            again=tuple(_ranges(_whole(level)) for level in raw.get("again", [])),
            **_numbers(raw),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a tally: {type(error).__name__}: {error}") from error


def _numbers(raw: dict[str, Any]) -> dict[str, Any]:
    counts = _whole([raw.get(name, 0) for name in _COUNTS])
    pairs = [_whole(raw[name]) for name in ("partitions", "offsets", "timestamps")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("partitions, offsets and timestamps of a tally are two numbers each")
    bounds = [number for pair in pairs for number in pair]
    return dict(zip((*_COUNTS, *_BOUNDS), (*counts, *bounds), strict=True))


def _blocks(flat: Sequence[Any]) -> Iterator[Block]:
    for block, records, hashed in _rows(flat, 3):
        _whole([block, records])
        yield Block(block, records, int(hashed, 16) & BITS)


def schema() -> pa.Schema:
    """The columns of :func:`to_arrow`."""
    import pyarrow as pa

    flat = pa.list_(pa.field("element", pa.int64()))
    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("window", pa.int64()),
            ("server", pa.string()),
            ("instance", pa.string()),
            ("aborted", pa.bool_()),
            ("messages", pa.int64()),
            ("extra", pa.int64()),
            ("bytes", pa.int64()),
            ("malformed", pa.int64()),
            ("ranges", flat),
            ("copies", flat),
            ("digest_xor", pa.int64()),
            ("digest_sum", pa.int64()),
            ("first_partition", pa.int32()),
            ("last_partition", pa.int32()),
            ("first_offset", pa.int64()),
            ("last_offset", pa.int64()),
            ("min_timestamp", pa.int64()),
            ("max_timestamp", pa.int64()),
            ("blocks", flat),
            ("again", pa.list_(pa.field("element", flat))),
        ]
    )


def to_arrow(tallies: Iterable[CellTally]) -> pa.RecordBatch:
    """A row each."""
    import pyarrow as pa

    rows = [_row(tally) for tally in tallies]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema())
    made = [column(values, field.type) for values, field in zip(columns, schema(), strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=schema())


def from_arrow(rows: pa.RecordBatch | pa.Table) -> Iterator[CellTally]:
    """The inverse of :func:`to_arrow`, a row at a time. ValueError: other columns, or no tally."""
    wanted = schema()
    names = wanted.names
    if rows.schema.names != names:
        raise ValueError(f"the columns of tallies are {', '.join(names)}")
    for start in range(0, rows.num_rows, _AT_ONCE):  # as Python objects they take ten times as much
        columns = [column.to_pylist() for column in rows.slice(start, _AT_ONCE).columns]
        for row in zip(*columns, strict=True):
            yield _tally(dict(zip(names, row, strict=True)))


def _row(tally: CellTally) -> tuple[object, ...]:
    return (
        *tally.key,
        tally.aborted,
        *(getattr(tally, name) for name in _COUNTS),
        _flat(tally.ranges),
        _flat(tally.copies),
        signed(tally.digest_xor),
        signed(tally.digest_sum),
        *(getattr(tally, name) for name in _BOUNDS),
        [number for block in tally.blocks for number in (*block[:2], signed(block.hash))],
        [_flat(level) for level in tally.again],
    )


def _tally(row: dict[str, Any]) -> CellTally:
    return CellTally(
        key=CellKey(row["topic"], row["partition"], row["window"], row["server"], row["instance"]),
        aborted=row["aborted"],
        ranges=_ranges(row["ranges"]),
        copies=tuple(Copy(*one) for one in _rows(row["copies"], 3)),
        digest_xor=row["digest_xor"] & BITS,
        digest_sum=row["digest_sum"] & BITS,
        blocks=tuple(Block(one[0], one[1], one[2] & BITS) for one in _rows(row["blocks"], 3)),
        again=tuple(_ranges(level) for level in row["again"]),
        **{name: row[name] for name in (*_COUNTS, *_BOUNDS)},
    )


def signed(number: int) -> int:
    """64 bits as Arrow's and Spark's signed numbers have them."""
    return number - (1 << 64) if number >> 63 else number


def _flat(rows: Iterable[Sequence[int]]) -> list[int]:
    return [number for row in rows for number in row]


def _rows(flat: Sequence[Any], width: int) -> Iterator[tuple[Any, ...]]:
    if len(flat) % width:
        raise ValueError(f"{len(flat)} numbers do not make rows of {width}")
    return zip(*(flat[at::width] for at in range(width)), strict=True)


def _ranges(flat: Sequence[int]) -> tuple[Range, ...]:
    """ValueError: not sorted and disjoint."""
    before = -2
    for number, (first, last) in enumerate(found := list(_rows(flat, 2))):
        if first <= before + 1 or last < first:
            raise ValueError(f"range {number} of a tally, {first} to {last}, is out of order")
        before = last
    return tuple((first, last) for first, last in found)


def _whole(numbers: Sequence[object]) -> list[int]:
    found = [one for one in numbers if type(one) is int and -_SIGN <= one <= _MOST]
    if len(found) != len(numbers):
        raise ValueError(f"a tally has numbers of 64 bits, not {numbers!r}"[:200])
    return found
