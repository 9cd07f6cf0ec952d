"""The schema of a run: given, the format's own, or inferred; and its registration."""

from __future__ import annotations

from pathlib import Path

from tallymark.errors import UserError
from tallymark.publishing.reading.rows import Bad, Row, Rows
from tallymark.publishing.reading.sources import Source, sample_rows
from tallymark.publishing.schemas.inference import infer_schema
from tallymark.serialization import AvroEncoder, RegistryError, topic_name_subject


def choose_schema(
    source: Source, rows: Rows, given: Path | None, topic: str
) -> tuple[str | None, Rows]:
    """The schema's text, and all rows again; None if there are no rows at all, good or bad.

    Raises UserError if no schema can be inferred from the rows.
    """
    if given is not None:
        return _read(given), rows
    if source.schema is not None:
        return source.schema, rows
    sample, rows = sample_rows(rows)
    good = [item.values for item in sample if isinstance(item, Row)]
    if good:
        return infer_schema(topic, good, source.cells), rows
    for item in sample:
        if isinstance(item, Bad):
            raise UserError(
                f"no row of {source.name} can be read as {source.format}; line {item.number}: "
                f"{item.reason}",
                "name another format with --format",
            )
    return None, rows


def register(encoder: AvroEncoder, topic: str) -> int:
    """The schema's id. Raises UserError if the registry refuses it, ConnectError if it is away."""
    try:
        return encoder.schema_id(topic)
    except RegistryError as error:
        conflict = error.status == 409
        raise UserError(
            f"the schema cannot be registered for {topic_name_subject(topic)}: {error.message}",
            "give one that reads the earlier events with --schema, or publish to another topic"
            if conflict
            else "give another schema with --schema",
        ) from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read the schema {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"the schema {path} is not UTF-8 text") from error
