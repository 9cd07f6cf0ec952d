"""The columns of a table, and how they may change.

A column may be added, and files that were written before have nulls in it. Rows may leave a column
out. Nothing else may change: a column of another type would make older files unreadable, or mean
something else in them.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from tallymark_spark_jobs.lake.table import PARTITION_COLUMNS, Refused

PARTITION_FIELDS: Final = (
    pa.field("topic", pa.string()),
    pa.field("date", pa.date32()),
    pa.field("hour", pa.string()),
)


_PLAIN: Final = (
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_int8, pa.int32()),
    (pa.types.is_int16, pa.int32()),
    (pa.types.is_uint8, pa.int32()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_float16, pa.float32()),
)


def with_partition_columns(rows: pa.Schema) -> pa.Schema:
    """The columns of a new table: those of its rows, all nullable, and those of its folders."""
    _check_names(rows)
    return pa.schema([*(_nullable(field) for field in rows), *PARTITION_FIELDS])


def first_columns(rows: pa.Schema | None) -> pa.Schema:
    """Those of a table that does not exist yet. Refused: its first rows do not say any."""
    if not rows:
        raise Refused("the first commit of a table has to say which columns its rows have")
    return with_partition_columns(rows)


def as_told(columns: pa.Schema) -> pa.Schema:
    """The columns that a format says it has: those of the folders last, and every type in the one
    form that :func:`written_as` gives it."""
    kept = [_nullable(field) for field in columns if field.name not in PARTITION_COLUMNS]
    return pa.schema([*kept, *PARTITION_FIELDS])


def evolved(table: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """The table's columns with those of the rows that it does not have, in front of those of the
    folders. The table's own where there is nothing to add. Refused: a column has another type."""
    _check_names(rows)
    for new in rows:
        at = table.get_field_index(new.name)
        if at >= 0 and not same_type(table.field(at).type, new.type):
            raise Refused(
                f"column {new.name} is {table.field(at).type} in the table and {new.type} in the"
                " rows: a table cannot change the type of a column. Give the column another name,"
                " or load into a new table"
            )
    added = [field for field in rows if table.get_field_index(field.name) < 0]
    if not added:
        return table
    kept = [field for field in table if field.name not in PARTITION_COLUMNS]
    return pa.schema([*kept, *(_nullable(field) for field in added), *PARTITION_FIELDS])


def columns_to_add(table: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """Those of the rows that the table does not have. Refused: a column has another type."""
    return pa.schema([field for field in evolved(table, rows) if field.name not in table.names])


def written_as(rows: pa.Schema) -> pa.Schema:
    """The rows' columns in the types in which files have to hold them: those that both table
    formats and all readers know. Tasks cast to it before they write."""
    _check_names(rows)
    return pa.schema([_nullable(field) for field in rows])


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether a table keeps both types as one."""
    return bool(_plain(one) == _plain(other))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Without what no table format knows: large and viewed texts, dictionaries, integers below 32
    bits, times other than in microseconds, and how the elements of a list are called."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in kind])
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    for is_one, plain in _PLAIN:
        if is_one(kind):
            return plain
    return kind


def _check_names(rows: pa.Schema) -> None:
    for name in rows.names:
        if name in PARTITION_COLUMNS:
            raise Refused(f"column {name} is one that the table's folders are named after")
    lower = [name.lower() for name in rows.names]
    for name in rows.names:
        if lower.count(name.lower()) > 1:
            raise Refused(f"column {name} is there twice; upper and lower case are the same here")


def _nullable(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain(field.type), nullable=True)
