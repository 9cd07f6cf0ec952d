"""Avro schemas: parse and validate, canonical text, compatibility. Pure: no I/O, no clock."""

from tallymark_schema_registry.schemas.canonical import canonical_text
from tallymark_schema_registry.schemas.compatibility import Incompatibility, incompatibilities
from tallymark_schema_registry.schemas.model import Schema
from tallymark_schema_registry.schemas.parse import InvalidSchemaError, parse_schema

__all__ = [
    "Incompatibility",
    "InvalidSchemaError",
    "Schema",
    "canonical_text",
    "incompatibilities",
    "parse_schema",
]
