"""The bodies of requests and answers as the OpenAPI document describes them.

Nothing is checked with these models: :mod:`.requests` reads what clients really send, and
:mod:`.responses` writes what they read.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """Unknown properties are ignored."""

    model_config = ConfigDict(extra="allow")


class SchemaReference(Document):
    """The type ``name`` is defined by a version of another subject."""

    name: str
    subject: str
    version: int = Field(ge=-1, lt=2**31, description="-1: the latest when it is registered")


class SchemaRequest(Document):
    """A schema to register, look up or check."""

    schema_: str | None = Field(
        default=None,
        alias="schema",
        description="The Avro schema, a JSON text; none: that of the latest version again",
        examples=['{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'],
    )
    schemaType: Literal["AVRO"] | None = None
    references: list[SchemaReference] | None = None
    metadata: dict[str, Any] | None = Field(
        default=None, description="`tags`, `properties` and `sensitive`: part of the identity"
    )
    ruleSet: dict[str, Any] | None = Field(
        default=None, description="Kept for serializers, which run it: part of the identity"
    )
    id: int | None = Field(default=None, lt=2**31, description="The id to give, in mode IMPORT")
    version: int | None = Field(
        default=None,
        lt=2**31,
        description="The number that the new version has to get, or the request is refused",
    )


class SchemaById(Document):
    """A schema. Profile 8 adds ``guid`` and ``schemaType``, and ``subject`` and ``version`` where
    the request names a subject."""

    schema_: str = Field(alias="schema")
    schemaType: str | None = None
    guid: str | None = None
    references: list[SchemaReference] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None
    maxId: int | None = None
    subjects: list[str] | None = None
    subject: str | None = None
    version: int | None = None


class SchemaVersion(Document):
    """One version. Profile 8 adds ``guid``, ``schemaType``, ``ts`` and ``deleted``."""

    subject: str
    version: int
    id: int
    schema_: str = Field(alias="schema")
    schemaType: str | None = None
    guid: str | None = None
    references: list[SchemaReference] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None
    ts: int | None = Field(default=None, description="When it was registered, ms")
    deleted: bool | None = None


class Registered(Document):
    """Profile 7: the id alone. Profile 8: all that SchemaVersion has. With ``dryRun=true`` what
    would happen: ``id`` and ``version`` are those that it has or would get."""

    id: int | None = None
    version: int | None = None
    would_create: bool | None = None
    compatible: bool | None = None
    messages: list[str] | None = Field(default=None, description="Why it would be refused")
    warnings: list[str] | None = Field(
        default=None, description="What does not stop it, and may be a mistake"
    )
    diff: list[dict[str, Any]] | None = Field(
        default=None, description="What differs from the latest version"
    )


class SubjectVersion(Document):
    """Where a schema is registered."""

    subject: str
    version: int


class ContextId(Document):
    """Where a guid has an id."""

    context: str
    id: int


class Compatibility(Document):
    """``messages`` and ``warnings``: with ``verbose=true``."""

    is_compatible: bool
    messages: list[str] | None = Field(default=None, description="Why it could not be registered")
    warnings: list[str] | None = Field(
        default=None, description="What does not stop it, and may be a mistake"
    )


Level = Literal[
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
]


class ConfigRequest(Document):
    """What is given is set, what is not stays as it is."""

    compatibility: str | None = Field(default=None, examples=["FULL"])
    normalize: bool | None = None
    alias: str | None = None
    compatibilityGroup: str | None = None
    compatibilityPolicy: str | None = Field(
        default=None, description="`LOGICAL`: changes of logical types are refused, too"
    )
    validateFields: bool | None = None
    defaultMetadata: dict[str, Any] | None = None
    overrideMetadata: dict[str, Any] | None = None
    defaultRuleSet: dict[str, Any] | None = None
    overrideRuleSet: dict[str, Any] | None = None


class Config(ConfigRequest):
    """The level is called ``compatibilityLevel`` here, and ``compatibility`` in requests."""

    compatibilityLevel: str | None = None


class Mode(Document):
    """READWRITE, READONLY, READONLY_OVERRIDE, IMPORT or FORWARD."""

    mode: str = Field(examples=["READONLY"])


class Fault(Document):
    """Every answer that is not a success."""

    error_code: int
    message: str
