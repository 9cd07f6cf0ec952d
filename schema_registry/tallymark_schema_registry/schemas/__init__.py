"""Avro schemas: parse and validate, canonical text, compatibility. Pure: no I/O, no clock."""

from tallymark_schema_registry.schemas.budget import LIGHT, Budget, TooLargeError
from tallymark_schema_registry.schemas.canonical import canonical_text
from tallymark_schema_registry.schemas.compatibility import Incompatibility, incompatibilities
from tallymark_schema_registry.schemas.model import Schema
from tallymark_schema_registry.schemas.names import InvalidSchemaError
from tallymark_schema_registry.schemas.parse import parse_schema

__all__ = [
    "LIGHT",
    "Budget",
    "Incompatibility",
    "InvalidSchemaError",
    "Schema",
    "TooLargeError",
    "canonical_text",
    "incompatibilities",
    "parse_schema",
]
