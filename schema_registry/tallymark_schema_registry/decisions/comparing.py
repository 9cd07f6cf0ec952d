"""With which versions a schema has to be compared, and what an answer says about a conflict."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import AVRO, Content
from tallymark_schema_registry.catalog.contracts import property_of
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions.asking import newest, newest_first
from tallymark_schema_registry.decisions.commands import Compare, Conflict, Found
from tallymark_schema_registry.decisions.scope import LEVEL, LOGICAL, POLICY, config_in_scope
from tallymark_schema_registry.levels import Level, against

OTHER_KIND: Final = "Incompatible because of different schema type"
RESERVED_PROPERTY: Final = "confluent:reserved"
"""A property of the metadata: names that no field may have, with commas between them."""
_SHOWN_SCHEMA: Final = 10_240
_SHOWN_REASONS: Final = 32_768
_SHOWN: Final = 262_144
"""Characters of an answer: a subject may have thousands of versions."""


def earlier(
    catalog: Catalog, subject: Subject, content: Content, same: tuple[int, ...] = ()
) -> Compare:
    """All that the level in force asks to compare with, the newest first: of the same group, where
    the config has groups."""
    config = config_in_scope(catalog, subject)
    level = Level(config[LEVEL])
    found = in_group(config.get("compatibilityGroup"), content, newest_first(catalog, subject))
    logical = config.get(POLICY) == LOGICAL
    return Compare(subject.context, level, tuple(against(level, found)), same, logical)


def only(
    catalog: Catalog, subject: Subject, content: Content, versions: Iterable[Found]
) -> Compare:
    """As :func:`earlier`, with these versions whatever the level is, unless it is NONE."""
    asked = earlier(catalog, subject, content)
    group = config_in_scope(catalog, subject).get("compatibilityGroup")
    found = () if asked.level is Level.NONE else in_group(group, content, versions)
    return replace(asked, earlier=tuple(found))


def in_group(
    group: str | None, content: Content, versions: Iterable[Found]
) -> list[tuple[int, int]]:
    """(version, id) of those that have the same value for the property ``group`` of the metadata,
    or as the content none."""
    value = property_of(content.metadata, group) if group else None
    return [
        (found.version.version, found.version.schema_id)
        for found in versions
        if not group or property_of(found.schema.metadata, group) == value
    ]


def has_other_kind(catalog: Catalog, subject: Subject) -> bool:
    """A version was imported that is not Avro: nothing can be registered beside it."""
    return any(found.schema.kind != AVRO for found in newest_first(catalog, subject))


def reserved_names(catalog: Catalog, subject: Subject, content: Content) -> list[str]:
    """Why the names of fields that the metadata reserves stand against a schema, where the config
    says ``validateFields``: a field has one of them, or a name is not reserved any more."""
    if config_in_scope(catalog, subject).get("validateFields") is not True:
        return []
    latest = newest(catalog, subject)
    now = _reserved(content.metadata)
    before = _reserved(latest.schema.metadata) if latest else set[str]()
    tree = json.loads(content.text) if now and content.text.startswith("{") else {}
    fields = {field["name"] for field in tree.get("fields", ())}
    return [
        f"The new schema has reserved field {name} removed from its metadata which is present in "
        "the old schema's metadata."
        for name in sorted(before - now)
    ] + [
        f"The new schema has field that conflicts with the reserved field {name}."
        for name in sorted(now & fields)
    ]


def _reserved(metadata: str) -> set[str]:
    names = (property_of(metadata, RESERVED_PROPERTY) or "").split(",")
    return {name.strip() for name in names} - {""}


def details(
    catalog: Catalog, subject: Subject, conflicts: Iterable[Conflict], others: Iterable[str] = ()
) -> list[str]:
    """The texts of an answer, one a reason; none where nothing conflicts. ``others`` are reasons
    that are not about a version. Of very many versions only the first ones are listed."""
    texts = list(others)
    for conflict in conflicts:
        if sum(map(len, texts)) > _SHOWN:
            texts.append("{and more versions}")
            break
        texts += _first(conflict.reasons)
        texts.append(f"{{oldSchemaVersion: {conflict.version}}}")
        texts.append(f"{{oldSchema: '{conflict.old_text[:_SHOWN_SCHEMA]}'}}")
    if texts:
        config = config_in_scope(catalog, subject)
        fields = "true" if config.get("validateFields") is True else "false"
        texts.append(f"{{validateFields: '{fields}', compatibility: '{config[LEVEL]}'}}")
    return texts


def _first(reasons: Iterable[str]) -> list[str]:
    """The first reasons, as many as an answer may have."""
    kept, size = list[str](), 0
    for reason in reasons:
        size += len(reason)
        if kept and size > _SHOWN_REASONS:
            return [*kept, "{and more}"]
        kept.append(reason[:_SHOWN_REASONS])
    return kept
