"""Avro's types as Spark has them: each an Arrow type, and how a column of it is built.

==============================================  =================================================
Avro                                            Spark
==============================================  =================================================
boolean, int, long, float, double               boolean, int, bigint, float, double
string, enum, uuid (as string or fixed)         string
bytes, fixed, duration                          binary
decimal                                         decimal(precision, scale), at most 38 digits
date                                            date
timestamp-millis, timestamp-micros              timestamp
local-timestamp-millis, local-timestamp-micros  timestamp_ntz
time-..., timestamp-nanos, others               int or bigint: the number as it was written
array, map, record                              array, map<string, ...>, struct
[null, T], [T]                                  T
[int, long], [float, double], with null or not  bigint, double
other unions                                    struct<member0, member1, ...>: one is not null
null                                            string, always null
==============================================  =================================================

Every column may hold nulls, as the columns of Spark's ``from_avro`` may. Decoded values come
without logical types, so that a timestamp is the number that was written, and no object in between
has a smaller range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from tallymark_spark_jobs.source.avro import buffers

Values = Sequence[Any]
"""Decoded values, None where there is none."""


class Kind(Protocol):
    """One type. ``build`` raises ValueError, TypeError or OverflowError where a value has no place
    in its column."""

    @property
    def arrow(self) -> Any: ...

    def build(self, values: Values) -> Any: ...


@dataclass(frozen=True, slots=True)
class Plain:
    """A type without types in it. ``made``: the column of values."""

    arrow: Any
    made: Callable[[Values], Any]
    takes: tuple[type, ...]
    """Of which Python types its values are, for unions."""

    def build(self, values: Values) -> Any:
        return self.made(values)


def _number(kind: Any, dtype: str, takes: type) -> Plain:
    return Plain(kind, lambda values: buffers.numbers(kind, dtype, values), (takes,))


BOOLEAN: Final = Plain(pa.bool_(), buffers.booleans, (bool,))
INT: Final = _number(pa.int32(), "<i4", int)
LONG: Final = _number(pa.int64(), "<i8", int)
FLOAT: Final = _number(pa.float32(), "<f4", float)
DOUBLE: Final = _number(pa.float64(), "<f8", float)
STRING: Final = Plain(pa.string(), buffers.texts, (str,))
BINARY: Final = Plain(pa.binary(), lambda values: buffers.variable(pa.binary(), values), (bytes,))
NULL: Final = Plain(pa.string(), buffers.texts, ())
DATE: Final = _number(pa.date32(), "<i4", int)
_INSTANT: Final = pa.timestamp("us", tz="UTC")
_LOCAL: Final = pa.timestamp("us")


def _of_millis(kind: Any) -> Plain:
    def build(values: Values) -> Any:
        micros = [None if value is None else value * 1000 for value in values]
        return buffers.numbers(kind, "<i8", micros)  # OverflowError: beyond Spark's timestamps

    return Plain(kind, build, (int,))


def _uuid_of_bytes(values: Values) -> Any:
    import uuid

    return buffers.texts([None if one is None else str(uuid.UUID(bytes=one)) for one in values])


UUID_OF_BYTES: Final = Plain(pa.string(), _uuid_of_bytes, (bytes,))
OF_INT: Final = {"date": DATE}
OF_LONG: Final = {
    "timestamp-millis": _of_millis(_INSTANT),
    "timestamp-micros": _number(_INSTANT, "<i8", int),
    "local-timestamp-millis": _of_millis(_LOCAL),
    "local-timestamp-micros": _number(_LOCAL, "<i8", int),
}


def decimal(precision: int, scale: int) -> Plain:
    """Avro writes the number without its point, big-endian, two's complement."""
    kind = pa.decimal128(precision, scale)

    def build(values: Values) -> Any:
        read = [
            None if value is None else int.from_bytes(value, "big", signed=True) for value in values
        ]
        return buffers.decimals(kind, read)

    return Plain(kind, build, (bytes,))


class Tagged:
    """A named type (record, enum, fixed) of a schema with unions of several branches: there the
    decoder gives its values as ``(name, value)``, wherever the writer had a union."""

    def __init__(self, name: str, inner: Kind) -> None:
        self.name = name
        self.inner = inner
        self.arrow = inner.arrow

    def build(self, values: Values) -> Any:
        return self.inner.build([one[1] if type(one) is tuple else one for one in values])


class ListKind:
    """An array."""

    def __init__(self, item: Kind) -> None:
        self._item = item
        self.arrow = pa.list_(pa.field("element", item.arrow))

    def build(self, values: Values) -> Any:
        items = [item for value in values if value for item in value]
        return buffers.lists(self.arrow, values, self._item.build(items))


class MapKind:
    """A map. Its keys are texts, and never null."""

    def __init__(self, value: Kind) -> None:
        self._value = value
        self.arrow = pa.map_(pa.string(), pa.field("value", value.arrow))
        self._entry = pa.struct([self.arrow.key_field, self.arrow.item_field])

    def build(self, values: Values) -> Any:
        keys = [key for value in values if value for key in value]
        items = [item for value in values if value for item in value.values()]
        children = [buffers.texts(keys), self._value.build(items)]
        return buffers.lists(self.arrow, values, buffers.structs(self._entry, keys, children))


class RecordKind:
    """A record: a struct."""

    def __init__(self, fields: Sequence[tuple[str, Kind]]) -> None:
        self.fields = tuple(fields)
        self.arrow = pa.struct([pa.field(name, kind.arrow) for name, kind in fields])

    def build(self, values: Values) -> Any:
        if None in values:
            columns = [
                kind.build([None if value is None else value[name] for value in values])
                for name, kind in self.fields
            ]
        else:
            columns = [kind.build([value[name] for value in values]) for name, kind in self.fields]
        return buffers.structs(self.arrow, values, columns)


class UnionKind:
    """A union of several types: a struct with a member a type, of which one is not null. As in
    Spark, null is no member, and members are counted from 0."""

    def __init__(self, members: Sequence[Kind]) -> None:
        self._members = tuple(members)
        self._names = {kind.name: at for at, kind in enumerate(members) if isinstance(kind, Tagged)}
        # A named type has no tag only where the writer had no union.
        tagged = [isinstance(kind, Tagged) for kind in members]
        self._untagged_first = sorted(range(len(members)), key=tagged.__getitem__)
        self.arrow = pa.struct(
            [pa.field(f"member{at}", kind.arrow) for at, kind in enumerate(members)]
        )

    def build(self, values: Values) -> Any:
        at = [-1 if value is None else self._member(value) for value in values]
        columns = [
            kind.build(
                [value if own == number else None for value, own in zip(values, at, strict=True)]
            )
            for number, kind in enumerate(self._members)
        ]
        return buffers.structs(self.arrow, values, columns)

    def _member(self, value: Any) -> int:
        if type(value) is tuple:
            return self._names[value[0]]
        for number in self._untagged_first:
            if _takes(self._members[number], value):
                return number
        raise TypeError(f"a {type(value).__name__} is of no type of its union")


def _takes(kind: Kind, value: Any) -> bool:
    """A value without a name: the writer had no union there, or it is of a type without a name."""
    if isinstance(kind, Tagged):
        return _takes(kind.inner, value)
    if isinstance(kind, RecordKind):
        return type(value) is dict and value.keys() == {name for name, _ in kind.fields}
    if isinstance(kind, MapKind):
        return type(value) is dict
    if isinstance(kind, ListKind):
        return type(value) is list
    if kind is INT and type(value) is int:
        return -(1 << 31) <= value < 1 << 31
    return isinstance(kind, Plain) and type(value) in kind.takes
