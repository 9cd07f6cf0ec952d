"""What a registry holds: its versions with their schemas, its levels and its modes. Pure.

A log of records (:mod:`.lines`) amounts to a snapshot, and a snapshot is written as records again,
in one order, so that equal registries have equal exports.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from tallymark_schema_registry.catalog.content import AVRO, Content, Reference, sorted_json
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, parse_subject
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.transfer.lines import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    SCHEMA,
    Entry,
    Json,
    Key,
    UnreadableError,
    is_number,
)

Place: TypeAlias = tuple[str, int]
"""A subject (qualified) and a number of a version."""
_MOST_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject (qualified). ``deleted``: softly."""

    subject: str
    version: int
    schema_id: int
    content: Content
    deleted: bool = False

    @property
    def place(self) -> Place:
        return self.subject, self.version

    @property
    def context(self) -> str:
        """The context that its id counts in."""
        return context_of(self.subject)

    def references(self) -> list[Place]:
        """The versions it refers to, their subjects qualified."""
        return [
            (parse_subject(one.subject, self.context).qualified, one.version)
            for one in self.content.references
        ]


@dataclass(slots=True)
class Snapshot:
    """``configs`` and ``modes`` are by subject (qualified); ``:.c:`` is the context ``.c`` itself,
    and "" the default one. ``configs`` have the keys of the answers to ``GET /config``."""

    versions: dict[Place, Version] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)

    def add(self, version: Version) -> None:
        """Add a version, or put it in the place of what was there."""
        self.versions[version.place] = version

    def contents(self) -> dict[tuple[str, int], Content]:
        """By context and id."""
        return {(one.context, one.schema_id): one.content for one in self.versions.values()}

    def subjects(self) -> list[str]:
        """All that have a version, softly deleted ones included."""
        return sorted({subject for subject, _ in self.versions})


@dataclass(slots=True)
class Replay:
    """Records in the order of their log. Only the last record of a key counts, so that a log that
    was compacted amounts to the same as before.

    ``unknown`` counts keys of kinds that are not known here, ``unreadable`` has the first 20 of
    what is no record of a registry: other programs may write into the topic, too. ``lost`` has
    records of this registry without what they must have. ``proven``: a file said that it was whole.
    """

    unknown: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    unreadable_count: int = 0
    lost: list[str] = field(default_factory=list)
    records: int = 0
    proven: bool = False
    _last: dict[Key, tuple[int, Json | None]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """Take the next record."""
        self.records += 1
        if entry.key.known:
            self._last[entry.key] = self.records, entry.value
        else:
            self.unknown[entry.key.kind] += 1

    def skip(self, where: str, why: object) -> None:
        """Count what could not be read, at ``where``."""
        self.unreadable_count += 1
        if len(self.unreadable) < _MOST_TOLD:
            self.unreadable.append(f"{where}: {why}")

    def snapshot(self) -> Snapshot:
        """What the records amount to; ``lost`` is complete afterwards."""
        found = Snapshot()
        self.lost = []
        for key, (number, value) in self._last.items():
            if value is None:
                continue
            try:
                if key.kind == SCHEMA and (version := self._version(key, number, value)):
                    found.add(version)
                elif key.kind == CONFIG and (config := config_of(value)):
                    found.configs[key.subject] = config
                elif key.kind == MODE:
                    found.modes[key.subject] = mode_of(value)
            except UnreadableError as error:
                self.lost.append(
                    f"{key.kind} {key.subject} {key.version or ''}".rstrip() + f": {error}"
                )
        return found

    def _version(self, key: Key, number: int, value: Json) -> Version | None:
        """None: it was deleted for good by a CLEAR_SUBJECT that came later."""
        version = version_of(key, value)
        ended, told = self._marker(DELETE_SUBJECT, key.subject)
        up_to = told.get("version")
        if ended > number and is_number(up_to) and version.version <= up_to:
            version = replace(version, deleted=True)
        cleared, _ = self._marker(CLEAR_SUBJECT, key.subject)
        gone = version.deleted and cleared > max(number, ended)
        return None if gone else version

    def _marker(self, kind: str, subject: str) -> tuple[int, Json]:
        """Where the last record of this kind stands, and its value; 0 for a tombstone."""
        number, value = self._last.get(Key(kind, subject), (0, None))
        return (0, {}) if value is None else (number, value)


def version_of(key: Key, value: Json) -> Version:
    """A version, of the value of its record or of an answer to ``GET /schemas``. Raises
    UnreadableError."""
    schema_id, text = value.get("id"), value.get("schema")
    if not is_number(schema_id, 0) or not isinstance(text, str):
        raise UnreadableError("it has no id, or no schema")
    try:
        parse_subject(key.subject)
    except RegistryError as error:
        raise UnreadableError(error.message) from None
    content = Content(
        text,
        str(value.get("schemaType") or AVRO),
        tuple(_references(value.get("references"))),
        sorted_json(value.get("metadata")),
        sorted_json(value.get("ruleSet")),
    )
    return Version(key.subject, key.version, schema_id, content, bool(value.get("deleted")))


def _references(value: Any) -> Iterator[Reference]:
    for one in value or ():
        try:
            reference = Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            parse_subject(reference.subject)
        except (KeyError, TypeError, ValueError, RegistryError):
            raise UnreadableError("a reference of it has no name, subject and version") from None
        yield reference


def config_of(value: Json) -> dict[str, Any]:
    """What a CONFIG says, or an answer to ``GET /config``, without what is not set; keys sorted."""
    found = {name: said for name, said in value.items() if said is not None and name != "subject"}
    return dict(json.loads(sorted_json(found) or "{}"))


def mode_of(value: Json) -> str:
    """What a MODE says, or an answer to ``GET /mode``. Raises UnreadableError."""
    mode = value.get("mode")
    if not isinstance(mode, str):
        raise UnreadableError("it has no mode")
    return mode


def context_of(subject: str) -> str:
    """The context of a qualified subject."""
    return parse_subject(subject).context


def content_document(content: Content) -> dict[str, Any]:
    """The properties of a content in a record or a request, without those that are not set."""
    document: dict[str, Any] = {}
    if content.kind != AVRO:
        document["schemaType"] = content.kind
    if content.references:
        document["references"] = [one._asdict() for one in content.references]
    if content.metadata:
        document["metadata"] = json.loads(content.metadata)
    if content.rule_set:
        document["ruleSet"] = json.loads(content.rule_set)
    return document | {"schema": content.text}


def entries_of(snapshot: Snapshot) -> Iterator[Entry]:
    """The records of a snapshot, in the order of an export: contexts, levels, modes, then versions
    by context, id, subject and number."""
    contexts = {one.context for one in snapshot.versions.values()} - {DEFAULT_CONTEXT}
    for context in sorted(contexts):
        yield Entry(Key(CONTEXT, context=context), {"tenant": "default", "context": context})
    for subject, config in sorted(snapshot.configs.items()):
        yield Entry(Key(CONFIG, subject), config_of(config))
    for subject, mode in sorted(snapshot.modes.items()):
        yield Entry(Key(MODE, subject), {"mode": mode})
    for one in in_order(snapshot.versions.values()):
        value = {"subject": one.subject, "version": one.version, "id": one.schema_id}
        value |= content_document(one.content) | {"deleted": one.deleted}
        yield Entry(Key(SCHEMA, one.subject, one.version), value)


def in_order(versions: Iterable[Version]) -> list[Version]:
    """By context, id, subject and number."""
    return sorted(versions, key=lambda one: (one.context, one.schema_id, one.subject, one.version))
