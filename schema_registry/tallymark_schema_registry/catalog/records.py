"""The changes of the registry. One request makes some of them, in one transaction of the store.

Every process applies the same records in the same order to its :class:`~.catalog.Catalog`; what the
catalog knows is what the records say. They are stored as JSON in the table ``changes``, and
tables beside it hold what they amount to, so that a start reads those and not every change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from tallymark_schema_registry.catalog.content import AVRO, Reference


@dataclass(frozen=True, slots=True)
class SchemaAdded:
    """An id has been given to a content. The text is in the store, under the id; ``metadata`` and
    ``rule_set`` ("" for none) are decided with: groups, defaults, and what a version inherits."""

    context: str
    schema_id: int
    md5: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""
    record: Literal["schema-added"] = "schema-added"


@dataclass(frozen=True, slots=True)
class SchemaRemoved:
    """No version has the schema any more, deleted ones included. Its id is never given again."""

    context: str
    schema_id: int
    record: Literal["schema-removed"] = "schema-removed"


@dataclass(frozen=True, slots=True)
class VersionAdded:
    """``at_ms`` is the time, ``by`` the user ("" where none logs in)."""

    context: str
    subject: str
    version: int
    schema_id: int
    at_ms: int
    by: str = ""
    deleted: bool = False
    record: Literal["version-added"] = "version-added"


@dataclass(frozen=True, slots=True)
class VersionDeleted:
    """Soft deletion: it can be restored, and its id can still be read."""

    context: str
    subject: str
    version: int
    record: Literal["version-deleted"] = "version-deleted"


@dataclass(frozen=True, slots=True)
class VersionRestored:
    """The end of a soft deletion."""

    context: str
    subject: str
    version: int
    record: Literal["version-restored"] = "version-restored"


@dataclass(frozen=True, slots=True)
class VersionRemoved:
    """Permanent deletion. The number is never used again."""

    context: str
    subject: str
    version: int
    record: Literal["version-removed"] = "version-removed"


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """``subject`` "" is the context itself. ``values`` None: deleted. Its keys are those of a
    request (``compatibilityLevel``, ``normalize``, ``alias``, ...)."""

    context: str
    subject: str
    values: dict[str, Any] | None = field(default=None)
    record: Literal["config-set"] = "config-set"


@dataclass(frozen=True, slots=True)
class ModeSet:
    """``subject`` "" is the context itself. ``mode`` None: deleted."""

    context: str
    subject: str
    mode: str | None = None
    record: Literal["mode-set"] = "mode-set"


@dataclass(frozen=True, slots=True)
class ContextRemoved:
    """An empty context is not listed any more. Its ids are not given again."""

    context: str
    record: Literal["context-removed"] = "context-removed"


Record: TypeAlias = (
    SchemaAdded
    | SchemaRemoved
    | VersionAdded
    | VersionDeleted
    | VersionRestored
    | VersionRemoved
    | ConfigSet
    | ModeSet
    | ContextRemoved
)

_JSON: Final[TypeAdapter[Record]] = TypeAdapter(Annotated[Record, Field(discriminator="record")])


def to_json(record: Record) -> str:
    """As it stands in the table ``changes``."""
    return _JSON.dump_json(record).decode()


def from_json(text: str) -> Record:
    """The inverse of :func:`to_json`. ValueError where it is none."""
    return _JSON.validate_json(text)
