"""What the registry keeps, as this client gives and takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tallymark.serialization.errors import RegistryError

AVRO: Final = "AVRO"
LATEST: Final = -1
"""As the version of a reference: the newest one when the schema is registered."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The named type ``name`` is defined by ``version`` of ``subject``."""

    name: str
    subject: str
    version: int = LATEST


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's ``text`` with what belongs to it: the schemas it refers to; metadata and rules,
    which the registry keeps. ``kind`` is AVRO, or another one that can only be read. ``guid`` is ""
    where the registry does not say it."""

    text: str
    references: tuple[Reference, ...] = ()
    kind: str = AVRO
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)
    guid: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a subject. ``deleted``: it is softly deleted."""

    subject: str
    version: int
    schema_id: int
    text: str
    references: tuple[Reference, ...] = ()
    kind: str = AVRO
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)
    guid: str = field(default="", compare=False)
    deleted: bool = field(default=False, compare=False)

    @property
    def schema(self) -> Schema:
        """Without the subject."""
        return Schema(
            self.text, self.references, self.kind, self.metadata, self.rule_set, self.guid
        )


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a registration would do. ``version`` and ``schema_id`` are those that the schema has or
    would get (None: not known before). ``messages``: why it would be refused. ``diff``: to the
    latest version, as the registry words it."""

    would_create: bool
    compatible: bool
    schema_id: int | None
    version: int | None
    messages: tuple[str, ...]
    diff: Any


def body_of(schema: str | Schema) -> dict[str, Any]:
    """What a registration sends."""
    if isinstance(schema, str):
        return {"schema": schema}
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version}
            for one in schema.references
        ]
    if schema.metadata is not None:
        body["metadata"] = dict(schema.metadata)
    if schema.rule_set is not None:
        body["ruleSet"] = dict(schema.rule_set)
    return body


def read_schema(answer: Any) -> Schema:
    """From the answer to a request by id or guid."""
    return Schema(
        str(required(answer, "schema")),
        _references(answer),
        str(answer.get("schemaType") or AVRO),
        answer.get("metadata"),
        answer.get("ruleSet"),
        str(answer.get("guid") or ""),
    )


def read_version(answer: Any) -> RegisteredSchema:
    """From the answer to a request for a version."""
    schema = read_schema(answer)
    return RegisteredSchema(
        str(required(answer, "subject")),
        int(required(answer, "version")),
        int(required(answer, "id")),
        schema.text,
        schema.references,
        schema.kind,
        schema.metadata,
        schema.rule_set,
        schema.guid,
        bool(answer.get("deleted")),
    )


def required(answer: Any, key: str) -> Any:
    """Of an answer that must have it. Raises RegistryError where no registry wrote it."""
    if not isinstance(answer, dict) or key not in answer:
        raise RegistryError(200, 200, f"the answer has no {key!r}; is this a schema registry?")
    return answer[key]


def _references(answer: dict[str, Any]) -> tuple[Reference, ...]:
    return tuple(
        Reference(
            str(required(one, "name")), str(required(one, "subject")), int(required(one, "version"))
        )
        for one in answer.get("references") or ()
    )
