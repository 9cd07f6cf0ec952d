"""Version 2 of the schema of monitoring events, kept to read what older programs wrote: version 3
without the sequences that were processed more than once. Its fingerprint is in their events, and
pinned by a test."""

from __future__ import annotations

from typing import Final

from tallymark_audit.events import event_schema, event_schema_v3
from tallymark_audit.events.event_schema import Schema
from tallymark_audit.events.event_schema_v3 import without


def _with_cell(event: Schema, cell: Schema) -> Schema:
    cells = {"name": "cells", "type": {"type": "array", "items": cell}}
    fields = [cells if one["name"] == "cells" else one for one in event["fields"]]
    return event | {"fields": fields}


SCHEMA: Final = _with_cell(event_schema_v3.SCHEMA, without(event_schema.CELL, "again"))
