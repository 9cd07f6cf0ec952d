"""Columns that send_many takes: lists, tuples, NumPy arrays, pandas Series, Arrow arrays.

Nothing of NumPy, pandas or Arrow is imported: a column is asked for the list that it can make of
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from tallymark.protocol.schema import Buffer

_PLAIN: Final = frozenset((bytes, type(None)))

Encoder: TypeAlias = Callable[[str, Any], bytes | None]
"""``encoder(topic, value) -> bytes``; called in the thread that sends."""


@runtime_checkable
class BatchEncoder(Protocol):
    """An encoder that can do many values at once, faster than one by one: send_many uses it."""

    def __call__(self, topic: str, value: Any, /) -> bytes | None:
        """One value."""
        ...

    def encode_many(self, topic: str, values: Sequence[Any], /) -> Sequence[bytes | None]:
        """As many as there are ``values``, in their order."""
        ...


def encoded_value(what: str, topic: str, value: Any, encoder: Encoder | None) -> Buffer | None:
    """One key or value as bytes. TypeError for what is none; whatever the encoder raises."""
    if encoder is not None:
        value = encoder(topic, value)
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)  # its owner may change it before it is sent
    raise TypeError(
        f"a {what} must be bytes or None, not {type(value).__name__}: encode it, or give the "
        f"Producer a {what}_encoder"
    )


def encoded_column(
    what: str, topic: str, column: Any, encoder: Encoder | None
) -> list[Buffer | None]:
    """A column of keys or values as bytes. Errors as :func:`encoded_value`; ValueError from an
    ``encode_many`` that answers with another number of them."""
    values = as_list(column)
    if encoder is None:
        if _PLAIN.issuperset(map(type, values)):
            return values
        return [encoded_value(what, topic, value, None) for value in values]
    # A value of None is a tombstone, as in send(): no encoder sees it.
    if isinstance(encoder, BatchEncoder):
        given = [value for value in values if value is not None]
        found = list(encoder.encode_many(topic, given))
        if len(found) != len(given):
            raise ValueError(f"{what}_encoder.encode_many made {len(found)} of {len(given)}")
        if len(given) < len(values):
            rest = iter(found)
            found = [None if value is None else next(rest) for value in values]
        return encoded_column(what, topic, found, None)
    return [
        None if value is None else encoded_value(what, topic, value, encoder) for value in values
    ]


def timestamp_column(column: Any, count: int) -> list[int] | None:
    """``count`` timestamps in ms of a number, a column of numbers, or one of NumPy's datetimes.
    ValueError for what is none."""
    if column is None:
        return None
    if isinstance(column, int):
        times = [column] * count
    else:
        if getattr(getattr(column, "dtype", None), "kind", "") == "M":
            column = getattr(column, "to_numpy", lambda: column)().astype("datetime64[ms]")
            column = column.astype("int64")
        times = [int(time) for time in as_list(column)]
    if times and not (min(times) >= 0 and max(times) < 2**63):
        raise ValueError("timestamps are not all milliseconds since the epoch")
    return times


def as_list(column: Any) -> list[Any]:
    """The column as a list of its own: what is done to the column later does not matter."""
    if isinstance(column, (bytes, bytearray, str)):
        raise TypeError(f"one {type(column).__name__} is no column of values: use send()")
    for name in ("to_pylist", "tolist"):  # Arrow; NumPy and pandas
        make = getattr(column, name, None)
        if make is not None:
            return list(make())
    return list(column)
