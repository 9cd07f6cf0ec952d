"""What the rows of a table are made of: the records as they are, or what :mod:`.avro_format` makes
of their values. A format is sent to every task, so that all of them make the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tallymark_spark_jobs.load.writing.rows import RAW_ROWS, Records

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Bad = tuple[int, str]
"""The place of a record that cannot be a row, and why."""


class RowFormat(Protocol):
    """Can be pickled. ``schema``: the columns of the files."""

    @property
    def schema(self) -> pa.Schema: ...

    def opened(self) -> RowMaker:
        """What makes rows in one task."""
        ...


class RowMaker(Protocol):
    """Makes the rows of one task."""

    def rows(self, records: Records, late: NDArray[np.bool_]) -> tuple[Any, list[Bad]]:
        """A batch of the format's schema, a row a record, and which of these are none, with why."""
        ...

    def close(self) -> None:
        """The task has ended."""
        ...


class RawFormat:
    """Keys and values as bytes; every record can be a row."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source, and ``late``."""
        return RAW_ROWS

    def opened(self) -> RowMaker:
        """Itself: it has no state."""
        return self

    def rows(self, records: Records, late: NDArray[np.bool_]) -> tuple[Any, list[Bad]]:
        """One row a record."""
        return records.raw(late), []

    def close(self) -> None:
        """Nothing is open."""


RAW = RawFormat()


def joined(poison: Sequence[Any]) -> list[Any]:
    """All tables of poison as one; none if there is none."""
    return [pa.concat_tables(poison)] if poison else []
