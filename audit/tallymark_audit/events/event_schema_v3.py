"""Version 3 of the schema of monitoring events, kept to read what older programs wrote: version 4
without the checksum. Its fingerprint is in their events, and pinned by a test."""

from __future__ import annotations

from typing import Final

from tallymark_audit.events import event_schema
from tallymark_audit.events.event_schema import Schema


def without(record: Schema, field: str) -> Schema:
    """The record as it was before that field."""
    return record | {"fields": [one for one in record["fields"] if one["name"] != field]}


SCHEMA: Final = without(event_schema.SCHEMA, event_schema.CHECKSUM["name"])
