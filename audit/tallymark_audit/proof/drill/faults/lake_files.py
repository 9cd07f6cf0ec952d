"""Faults in the files of a lake's table after a load: what a disk, a person or another engine does.

A drill neither compacts its tables nor kills its loads, so every Parquet file in a table's folders
is one that the table names. Files are rewritten in place: the table's own log knows nothing of it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

from tallymark.errors import UserError
from tallymark.protocol.records.batch import Record
from tallymark_audit.proof.drill.faults import kinds

_ROWS: Final = 8
"""Rows that are taken out, or that are there twice."""
_FOLDERS: Final = "topic=*/date=*/hour=*/*.parquet"


def files_of(table: Path) -> list[Path]:
    """The files with rows of the table in that folder; none before the first load."""
    return sorted(table.glob(_FOLDERS))


def records_of(file: Path) -> dict[int, list[Record]]:
    """By partition, the rows of a file as the records that they were. Raises what pyarrow raises
    where it is none of Parquet."""
    found: dict[int, list[Record]] = {}
    for row in _read(file).to_pylist():
        headers = tuple((one["key"], one["value"]) for one in row["headers"] or ())
        at = round(row["timestamp"].timestamp() * 1000)
        record = Record(row["offset"], at, row["key"], row["value"], headers)
        found.setdefault(row["partition"], []).append(record)
    return found


def damage(file: Path, kind: str, chance: random.Random) -> list[Record]:
    """Do what the kind says to a file of some rows; returns the records it was done to."""
    rows = _read(file)
    everything = [record for some in records_of(file).values() for record in some]
    if kind == kinds.LAKE_FILE_LOST:
        file.unlink()
        return everything
    picked = sorted(chance.sample(range(len(rows)), min(len(rows), _ROWS)))
    offsets = {rows["offset"][place].as_py() for place in picked}
    if kind == kinds.LAKE_ROWS_GONE:
        _write(rows.take([one for one in range(len(rows)) if one not in picked]), file)
    else:
        _write(_arrow().concat_tables([rows, rows.take(picked)]), file)
    return [record for record in everything if record.offset in offsets]


def _read(file: Path) -> Any:
    parquet: Any = _arrow("pyarrow.parquet")
    with parquet.ParquetFile(file) as opened:
        return opened.read()


def _write(rows: Any, file: Path) -> None:
    parquet: Any = _arrow("pyarrow.parquet")
    draft = file.with_suffix(".draft")
    parquet.write_table(rows, draft)
    draft.replace(file)


def _arrow(name: str = "pyarrow") -> Any:
    """UserError: it is not installed."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(
            "faults of the lake need what reads its files", "pip install 'tallymark[lake]'"
        ) from None
