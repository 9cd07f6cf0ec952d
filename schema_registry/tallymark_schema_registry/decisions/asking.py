"""What a body means in a subject: its references and text, its metadata and rule set, and which
version has that already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog, SchemaEntry, VersionEntry
from tallymark_schema_registry.catalog.content import (
    AVRO,
    OTHER_KINDS,
    Content,
    is_unicode,
    sorted_json,
)
from tallymark_schema_registry.catalog.contracts import (
    merged_metadata,
    merged_rule_sets,
    version_of,
    with_version,
    without_version,
)
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions.commands import Found, Parse, Parsed, Sent
from tallymark_schema_registry.decisions.references import closure, numbered
from tallymark_schema_registry.decisions.scope import config_in_scope, mode_in_scope

LATEST: Final = -1
"""As a version in a body."""
_DEFAULTS: Final = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")


def is_empty(sent: Sent) -> bool:
    """Without a text: the latest version's is meant."""
    return not sent.text or not sent.text.strip()


def question(catalog: Catalog, subject: Subject, sent: Sent, normalize: bool) -> Parse:
    """What has to be parsed. Raises the 42201 error where that is clear without parsing."""
    if sent.kind != AVRO:
        raise errors.invalid_schema(f"schemas of type {sent.kind} are not supported, only AVRO")
    if mode_in_scope(catalog, subject).importing:
        normalize = False
    elif not normalize:
        normalize = config_in_scope(catalog, subject).get("normalize") is True
    if is_empty(sent):
        return _latest_again(catalog, subject, normalize)
    if not is_unicode(sent.text or "", *(reference.name for reference in sent.references)):
        raise errors.invalid_schema("a text has one half of a surrogate pair")
    references = numbered(catalog, subject.context, sent.references)
    return Parse(
        subject.context,
        sent.text,
        references=references,
        closure=closure(catalog, subject.context, references),
        normalize=normalize,
    )


def unread(catalog: Catalog, subject: Subject, sent: Sent) -> Content:
    """A schema of another type than AVRO, as another registry has it: its text is kept as it is,
    since nothing here can read it. Raises the 42201 error where there is no text."""
    if sent.kind not in OTHER_KINDS:
        raise errors.invalid_schema(f"schemas of type {sent.kind[:100]} are not supported")
    if not sent.text or not is_unicode(sent.text, *(named.name for named in sent.references)):
        raise errors.invalid_schema("it is empty, or has one half of a surrogate pair")
    references = numbered(catalog, subject.context, sent.references)
    return Content(sent.text, sent.kind, references, sent.metadata, sent.rule_set)


def _latest_again(catalog: Catalog, subject: Subject, normalize: bool) -> Parse:
    latest = newest(catalog, subject)
    if latest is None:
        raise errors.invalid_schema("it is empty")
    schema = latest.schema
    if schema.kind != AVRO:
        raise errors.invalid_schema(
            f"the latest version has type {schema.kind}: only AVRO can be registered again"
        )
    references = closure(catalog, subject.context, schema.references)
    return Parse(
        subject.context, None, schema.schema_id, schema.references, references, normalize=normalize
    )


def newest(catalog: Catalog, subject: Subject) -> Found | None:
    """The latest version that is not deleted."""
    return next(newest_first(catalog, subject), None)


def newest_first(catalog: Catalog, subject: Subject, *, deleted: bool = False) -> Iterator[Found]:
    """The versions of a subject, with ``deleted`` also the soft-deleted ones."""
    found = catalog.subject(subject)
    schemas = catalog.context(subject.context).schemas
    for entry in reversed(found.versions.values()) if found else ():
        if deleted or not entry.deleted:
            yield Found(subject, entry, schemas[entry.schema_id])


def at(catalog: Catalog, subject: Subject, version: int) -> Found | None:
    """The version with a number, deleted or not."""
    entry = catalog.version(subject, version)
    if entry is None:
        return None
    return Found(subject, entry, catalog.context(subject.context).schemas[entry.schema_id])


# --- the content that is meant


def as_sent(sent: Sent, parsed: Parsed) -> Content:
    """The content of the body, and nothing else."""
    if not is_unicode(parsed.text):
        raise errors.invalid_schema("a text has one half of a surrogate pair")
    return Content(parsed.text, AVRO, parsed.references, sent.metadata, sent.rule_set)


def has_defaults(catalog: Catalog, subject: Subject) -> bool:
    """The config says what the metadata or rules of every schema have."""
    config = config_in_scope(catalog, subject)
    return any(key in config for key in _DEFAULTS)


def inherited(
    catalog: Catalog, subject: Subject, sent: Sent, parsed: Parsed, version: int | None = None
) -> Content:
    """The content as a new version has it: metadata and rule set of the latest version where the
    body has none, above the config's defaults, below its overrides. ``version``: its number, which
    stands in the metadata if the client asked for a number, or if it stood there before."""
    previous = newest(catalog, subject)
    old = previous.schema if previous else None
    config = config_in_scope(catalog, subject)
    metadata = merged_metadata(
        sorted_json(config.get("defaultMetadata")),
        sent.metadata or (old.metadata if old else ""),
        sorted_json(config.get("overrideMetadata")),
    )
    rule_set = merged_rule_sets(
        sorted_json(config.get("defaultRuleSet")),
        sent.rule_set or (old.rule_set if old else ""),
        sorted_json(config.get("overrideRuleSet")),
    )
    if version is not None and (sent.version or version_of(metadata) is not None):
        metadata = with_version(metadata, version)
    return replace(as_sent(sent, parsed), metadata=metadata, rule_set=rule_set)


# --- which version has it


def is_same(schema: SchemaEntry, content: Content, md5: str) -> bool:
    """The whole content. The hash does not show where one text ends and the next one begins, so
    it could be that of other metadata."""
    return (
        schema.md5 == md5
        and schema.metadata == content.metadata
        and schema.rule_set == content.rule_set
        and schema.references == content.references
        and schema.kind == content.kind
    )


def find(
    catalog: Catalog, subject: Subject, content: Content, *, deleted: bool = False
) -> Found | None:
    """The newest version with this content; else one that differs in nothing but that one of both
    has the number of the version in its metadata."""
    md5 = content.md5()
    context = catalog.context(subject.context)
    ids = {
        schema_id
        for schema_id in catalog.ids_of(subject.context, md5)
        if is_same(context.schemas[schema_id], content, md5)
    }
    there = catalog.subject(subject)
    for entry in reversed(there.versions.values()) if ids and there else ():
        if entry.schema_id in ids and (deleted or not entry.deleted):
            return Found(subject, entry, context.schemas[entry.schema_id])
    for found in newest_first(catalog, subject, deleted=deleted):
        if _same_but_for_version(content, found.version, found.schema):
            return found
    return None


def is_same_version(found: Found, content: Content) -> bool:
    """One version with this content, or with one that differs in the number of the version."""
    same = is_same(found.schema, content, content.md5())
    return same or _same_but_for_version(content, found.version, found.schema)


def _same_but_for_version(content: Content, entry: VersionEntry, schema: SchemaEntry) -> bool:
    if not content.metadata and not schema.metadata:
        return False
    if (content.kind, content.references) != (schema.kind, schema.references):
        return False
    if not _same_contracts(content, entry, schema):
        return False
    there = replace(content, metadata=schema.metadata)
    return is_same(schema, there, there.md5())


def _same_contracts(content: Content, entry: VersionEntry, schema: SchemaEntry) -> bool:
    """Metadata and rule set are the same, but for the number of the version in one of both."""
    if content.rule_set != schema.rule_set:
        return False
    if content.metadata == schema.metadata:
        return True
    expected, there = version_of(content.metadata), version_of(schema.metadata)
    if expected is None and there is not None:
        return without_version(schema.metadata) == (content.metadata or "{}")
    if expected is not None and there is None:
        same = without_version(content.metadata) == (schema.metadata or "{}")
        return same and expected == entry.version
    return False


def written_out(
    catalog: Catalog, subject: Subject, contents: list[Content], *, deleted: bool = False
) -> tuple[int, ...]:
    """Ids of the subject that may be the same schema as one of ``contents``: these have their types
    written out, the stored ones have references instead. Only texts show which."""
    plain = [content for content in contents if not content.references]
    found = (
        found.version.schema_id
        for found in newest_first(catalog, subject, deleted=deleted)
        if found.schema.references
        and any(_same_contracts(content, found.version, found.schema) for content in plain)
    )
    return tuple(dict.fromkeys(found))


def with_id(
    catalog: Catalog, subject: Subject, schema_id: int | None, *, deleted: bool = False
) -> Found | None:
    """The newest version of a subject that has this id."""
    there = catalog.subject(subject)
    for entry in reversed(there.versions.values()) if there else ():
        if entry.schema_id == schema_id and (deleted or not entry.deleted):
            return Found(subject, entry, catalog.context(subject.context).schemas[entry.schema_id])
    return None
