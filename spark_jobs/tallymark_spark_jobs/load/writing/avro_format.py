"""Rows of decoded values: each field of the reader's schema is a column of the table.

The reader's schema is the newest of the registry when the load begins, and the same in all tasks.
A field that is new is a new column of the table; one that is gone is null from then on. A value
that cannot be decoded goes to the quarantine, with the reason and its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tallymark.client.core.security.http import RegistrySettings, registry_settings
from tallymark.deployment import Deployment
from tallymark.errors import TallymarkError, UserError
from tallymark.serialization import RegistryClient
from tallymark_spark_jobs.lake.table import PARTITION_COLUMNS
from tallymark_spark_jobs.load.writing.rows import RAW_ROWS
from tallymark_spark_jobs.source.avro.decoding import ValueDecoder
from tallymark_spark_jobs.source.avro.reader_schema import ReaderSchema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tallymark_spark_jobs.load.writing.formats import Bad
    from tallymark_spark_jobs.load.writing.rows import Records

_TAKEN: Final = {name.lower() for name in (*RAW_ROWS.names, *PARTITION_COLUMNS)}
_LOG: Final = [one for one in RAW_ROWS if one.name not in ("key", "value")]


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """A :class:`~tallymark_spark_jobs.load.writing.formats.RowFormat`. ``registry``: how tasks
    reach it."""

    reader: ReaderSchema
    registry: RegistrySettings = field(repr=False)

    @property
    def schema(self) -> pa.Schema:
        """The key, the fields of the value, and the log's columns. A field that is called like one
        of these gets ``value_`` before its name. UserError: two fields would be one column."""
        fields = list(_fields(self.reader.kind().arrow))
        names = [one.name.lower() for one in fields]
        for one in fields:
            if names.count(one.name.lower()) > 1:
                raise UserError(
                    f"{self.reader.says} has two fields that are the column {one.name}: upper and "
                    "lower case are the same in a table",
                    "leave the topic out of avro_topics, and load its values as bytes",
                )
        return pa.schema([RAW_ROWS.field("key"), *fields, *_LOG])

    def opened(self) -> AvroRows:
        """What decodes in one task."""
        return AvroRows(self)


class AvroRows:
    """A :class:`~tallymark_spark_jobs.load.writing.formats.RowMaker` that decodes values."""

    def __init__(self, format: AvroFormat) -> None:
        self._schema = format.schema
        self._registry = RegistryClient(**format.registry)
        self._decoder = ValueDecoder(format.reader, self._registry)

    def rows(self, records: Records, late: NDArray[np.bool_]) -> tuple[Any, list[Bad]]:
        """Decoded rows, null where a value cannot be decoded. ConnectError, TimedOutError: the
        registry does not answer."""
        portion = records.portion
        decoded = self._decoder.decode(portion.values())
        made = [portion.key_column(), *_flat(decoded.column), *records.log_columns(late)]
        batch = pa.RecordBatch.from_arrays(made, schema=self._schema)
        return batch, [(one.row, one.why) for one in decoded.poison]

    def close(self) -> None:
        """Disconnect from the registry."""
        self._registry.close()


def avro_format(deployment: Deployment, topic: str) -> AvroFormat:
    """The format of a topic by the newest schema of its subject. UserError: the registry has none,
    or none that a table can have, or cannot be asked."""
    subject = f"{topic}-value"
    settings = registry_settings(deployment)
    try:
        with RegistryClient(**settings) as registry:
            found = registry.latest(subject)
            if found is None:
                raise UserError(
                    f"the registry has no subject {subject}, by which {topic} is to be decoded",
                    "register its schema, or take the topic out of avro_topics of [lake]",
                )
            texts = registry.reference_texts(found.schema)
    except UserError:
        raise
    except (TallymarkError, OSError) as error:
        raise UserError(f"the schema of {subject} cannot be had: {error}") from error
    reader = ReaderSchema(found.text, texts, f"version {found.version} of {subject}")
    made = AvroFormat(reader, settings)
    made.schema  # noqa: B018  (what no table can have is said before anything is read)
    return made


def _fields(kind: Any) -> Iterator[pa.Field]:
    if not pa.types.is_struct(kind):
        yield pa.field("value", kind)
        return
    for one in kind:
        name = f"value_{one.name}" if one.name.lower() in _TAKEN else one.name
        yield pa.field(name, one.type)


def _flat(column: Any) -> list[Any]:
    return column.flatten() if pa.types.is_struct(column.type) else [column]
