"""Registration: a known schema is found, a new one becomes a version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog, SchemaEntry, VersionEntry
from tallymark_schema_registry.catalog.content import AVRO, Content
from tallymark_schema_registry.catalog.records import Record, VersionAdded, VersionRemoved
from tallymark_schema_registry.catalog.subject import Subject, check_registrable
from tallymark_schema_registry.decisions.asking import (
    LATEST,
    as_sent,
    at,
    find,
    has_defaults,
    inherited,
    is_empty,
    is_same,
    is_same_version,
    newest,
    newest_first,
    question,
    unread,
    with_id,
    written_out,
)
from tallymark_schema_registry.decisions.commands import (
    Answer,
    Compare,
    Decision,
    Found,
    NewContent,
    Parsed,
    Register,
)
from tallymark_schema_registry.decisions.comparing import (
    OTHER_KIND,
    details,
    earlier,
    has_other_kind,
    reserved_names,
)
from tallymark_schema_registry.decisions.importing import MAX, added_schema, entry_of, take
from tallymark_schema_registry.decisions.references import check_live
from tallymark_schema_registry.decisions.scope import (
    Mode,
    followed,
    mode_in_scope,
    not_in_mode,
)
from tallymark_schema_registry.levels import Level

_NO_NEXT: Final = "Version is not one more than previous version"


def register(
    catalog: Catalog, command: Register, now_ms: int, taken: Mapping[str, int] | None = None
) -> Answer:
    """A known schema changes nothing, in any mode: producers send theirs at every start."""
    subject = followed(catalog, command.subject)
    check_registrable(subject)
    _check_numbers(command)
    mode = mode_in_scope(catalog, subject)
    if mode.importing and command.sent.kind != AVRO:
        _check_mode(subject, command, mode)
        return _import(catalog, subject, command, unread(catalog, subject, command.sent), now_ms)
    if is_empty(command.sent):
        # It can only be meant as a new version: what is refused does not depend on what is there.
        _check_mode(subject, command, mode)
    asked = question(catalog, subject, command.sent, command.normalize)
    parsed = command.parsed
    if parsed is None or parsed.question != asked:
        return asked
    known = _known(catalog, subject, command, parsed, mode)
    if isinstance(known, Found):
        return Decision((), known)
    if known and mode.read_only:
        same = Compare(subject.context, Level.NONE, (), known)
        if command.checked is None or command.checked.question != same:
            return same
        known_by_text = _accepted(with_id(catalog, subject, command.checked.same), command, mode)
        if known_by_text:
            return Decision((), known_by_text)
    _check_mode(subject, command, mode)
    if mode.importing:
        return _import(catalog, subject, command, as_sent(command.sent, parsed), now_ms)
    return _new(catalog, subject, command, parsed, known, now_ms, taken or {})


def _import(
    catalog: Catalog, subject: Subject, command: Register, content: Content, now_ms: int
) -> Decision:
    version, schema_id = command.sent.version or 0, command.sent.schema_id
    assert schema_id is not None
    if version < 1:
        version = _next_version(catalog, subject)
    return take(catalog, subject, version, schema_id, content, at_ms=now_ms, by=command.by)


def _check_numbers(command: Register) -> None:
    version, schema_id = command.sent.version, command.sent.schema_id
    if version is not None and not LATEST <= version <= MAX:
        raise errors.invalid_version(str(version))
    if schema_id is not None and not -1 <= schema_id <= MAX:
        raise errors.invalid_schema(f"{schema_id} is not an id: it must be between 0 and 2^31-1")


def _id_of(command: Register) -> int | None:
    """-1 is what clients send that mean none."""
    schema_id = command.sent.schema_id
    return None if schema_id is None or schema_id < 0 else schema_id


def _check_mode(subject: Subject, command: Register, mode: Mode) -> None:
    if mode.read_only:
        raise not_in_mode(subject, "is in read-only mode")
    if mode.importing and _id_of(command) is None:
        raise not_in_mode(subject, "is not in read-write mode")
    if not mode.importing and _id_of(command) is not None:
        raise not_in_mode(subject, "is not in import mode")


# --- is it known?


def _known(
    catalog: Catalog, subject: Subject, command: Register, parsed: Parsed, mode: Mode
) -> Found | tuple[int, ...]:
    """The version that has the schema; else the ids that have it if their texts say so."""
    sent = command.sent
    contents: list[Content] = []
    for content in _meant(catalog, subject, command, parsed, mode):
        contents.append(content)
        if sent.version and sent.version > 0:
            found = _expected(catalog, subject, command, content)
        else:
            found = find(catalog, subject, content)
        found = _accepted(found, command, mode)
        if found and (sent.version != LATEST or found == newest(catalog, subject)):
            return found
    return () if sent.version else written_out(catalog, subject, contents)


def _meant(
    catalog: Catalog, subject: Subject, command: Register, parsed: Parsed, mode: Mode
) -> Iterator[Content]:
    """Producers send a schema without the metadata that the registry added to it."""
    if mode.importing or not has_defaults(catalog, subject):
        yield as_sent(command.sent, parsed)
    if not mode.importing:
        yield inherited(catalog, subject, command.sent, parsed)


def _accepted(found: Found | None, command: Register, mode: Mode) -> Found | None:
    """Not the version under another id than the client says. Where the client may choose ids and
    means this version, or none in particular, that is the 42207 error."""
    expected = _id_of(command)
    if found is None or expected is None or found.version.schema_id == expected:
        return found
    if mode.importing:
        raise errors.id_does_not_match(found.version.schema_id, expected)
    return None


def _expected(
    catalog: Catalog, subject: Subject, command: Register, content: Content
) -> Found | None:
    """The version whose number the client says: a request that was sent again after a timeout
    finds what the first one did."""
    there = at(catalog, subject, command.sent.version or 0)
    if there is None or there.version.deleted or not is_same_version(there, content):
        return None
    return there


# --- it is new


def _new(
    catalog: Catalog,
    subject: Subject,
    command: Register,
    parsed: Parsed,
    same: tuple[int, ...],
    now_ms: int,
    taken: Mapping[str, int],
) -> Answer:
    version = _next_version(catalog, subject)
    content = inherited(catalog, subject, command.sent, parsed, version)
    if has_other_kind(catalog, subject):
        raise errors.incompatible(subject.qualified, [OTHER_KIND])
    asked = earlier(catalog, subject, content, same)
    if command.force:
        asked = replace(asked, earlier=())
    checked = command.checked
    if asked.earlier or asked.same:
        if checked is None or checked.question != asked:
            _check_new(catalog, subject, command, parsed, version)
            return asked
        known = with_id(catalog, subject, checked.same)
        if known:
            return Decision((), known)
    _check_new(catalog, subject, command, parsed, version)
    found = checked.conflicts[:1] if checked and checked.question == asked else ()
    names = [] if command.force else reserved_names(catalog, subject, content)
    if found or names:
        reasons = details(catalog, subject, found, names)
        raise errors.incompatible(subject.qualified, reasons)
    return _add(catalog, subject, version, content, command, now_ms, taken)


def _check_new(
    catalog: Catalog, subject: Subject, command: Register, parsed: Parsed, version: int
) -> None:
    if parsed.fault:
        raise errors.invalid_schema(parsed.fault)
    check_live(catalog, subject.context, parsed.references)
    expected = command.sent.version or 0
    if expected > 0 and expected != version:
        raise errors.invalid_schema(_NO_NEXT)


def _next_version(catalog: Catalog, subject: Subject) -> int:
    there = catalog.context(subject.context).subjects.get(subject.name)
    version = (there.last_version if there else 0) + 1
    if version > MAX:
        raise errors.not_permitted(
            f"Subject {subject.qualified} has used the last version number, {MAX}"
        )
    return version


def _next_id(catalog: Catalog, context: str, taken: Mapping[str, int]) -> int:
    """Above every id that was ever given, deleted ones included."""
    schema_id = max(catalog.context(context).last_id, taken.get(context, 0)) + 1
    if schema_id > MAX:
        raise errors.not_permitted(f"Context {context} has used the last id, {MAX}")
    return schema_id


def _add(
    catalog: Catalog,
    subject: Subject,
    version: int,
    content: Content,
    command: Register,
    now_ms: int,
    taken: Mapping[str, int],
) -> Decision:
    context = subject.context
    schema = _there(catalog, context, content)
    records: list[Record] = []
    contents: tuple[NewContent, ...] = ()
    if schema is None:
        added = added_schema(context, _next_id(catalog, context, taken), content)
        records.append(added)
        contents = (NewContent(context, added.schema_id, content),)
        schema = entry_of(added)
    records += _replaced(catalog, subject, schema.schema_id)
    entry = VersionEntry(version, schema.schema_id, now_ms, command.by)
    records.append(
        VersionAdded(context, subject.name, version, schema.schema_id, now_ms, command.by)
    )
    return Decision(tuple(records), Found(subject, entry, schema), contents)


def _there(catalog: Catalog, context: str, content: Content) -> SchemaEntry | None:
    """The same content in the context, in any subject, deleted ones included."""
    md5 = content.md5()
    for schema_id in sorted(catalog.ids_of(context, md5)):
        schema = catalog.schema(context, schema_id)
        if schema is not None and is_same(schema, content, md5):
            return schema
    return None


def _replaced(catalog: Catalog, subject: Subject, schema_id: int) -> list[VersionRemoved]:
    """A soft-deleted version that has the same schema: the new one stands for it, unless something
    refers to it by its number."""
    return [
        VersionRemoved(subject.context, subject.name, found.version.version)
        for found in newest_first(catalog, subject, deleted=True)
        if found.version.deleted
        and found.version.schema_id == schema_id
        and not any(catalog.referrers(subject, found.version.version))
    ]
