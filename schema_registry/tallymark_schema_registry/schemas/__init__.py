"""Avro schemas: parsed, checked, compared. Pure: no I/O, no clock.

Read ``model`` (what a schema is) and ``parse`` first, with ``json_tree``, ``names``, ``references``
and ``defaults``; then ``canonical`` with ``json_text`` (the text that identifies a schema) and
``compatibility`` with ``matching`` (which schema can read what another wrote). ``logical`` (changes
that the rules do not see), ``report`` and ``diff`` are for people; ``normalize`` is a form that a
client may ask for. ``budget`` bounds what one schema may cost.
"""

from tallymark_schema_registry.schemas.budget import LIGHT, Budget, TooLargeError
from tallymark_schema_registry.schemas.canonical import canonical_text, resolved_text
from tallymark_schema_registry.schemas.compatibility import Incompatibility, incompatibilities
from tallymark_schema_registry.schemas.diff import Change, diff
from tallymark_schema_registry.schemas.logical import logical_changes
from tallymark_schema_registry.schemas.model import Schema
from tallymark_schema_registry.schemas.names import InvalidSchemaError
from tallymark_schema_registry.schemas.normalize import normalized
from tallymark_schema_registry.schemas.parse import parse_schema
from tallymark_schema_registry.schemas.report import Finding, compare, doubts

__all__ = [
    "LIGHT",
    "Budget",
    "Change",
    "Finding",
    "Incompatibility",
    "InvalidSchemaError",
    "Schema",
    "TooLargeError",
    "canonical_text",
    "compare",
    "diff",
    "doubts",
    "incompatibilities",
    "logical_changes",
    "normalized",
    "parse_schema",
    "resolved_text",
]
