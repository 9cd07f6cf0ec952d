"""Look-ups and checks of a schema that a client has: they change nothing."""

from __future__ import annotations

from functools import partial

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import AVRO, Content
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject
from tallymark_schema_registry.decisions.asking import (
    as_sent,
    at,
    find,
    inherited,
    is_empty,
    newest,
    newest_first,
    question,
    with_id,
    written_out,
)
from tallymark_schema_registry.decisions.commands import (
    Answer,
    Check,
    CheckReport,
    Compare,
    Decision,
    Found,
    LookUp,
)
from tallymark_schema_registry.decisions.comparing import (
    OTHER_KIND,
    details,
    earlier,
    has_other_kind,
    only,
    reserved_names,
)
from tallymark_schema_registry.decisions.scope import followed
from tallymark_schema_registry.levels import Level


def look_up(catalog: Catalog, command: LookUp) -> Answer:
    """The newest version with this schema; 40401 or 40403 where there is none."""
    subject = in_some_context(catalog, followed(catalog, command.subject), command.deleted)
    there = any(newest_first(catalog, subject, deleted=command.deleted))
    missing = errors.schema_not_found() if there else errors.subject_not_found(subject.qualified)
    if is_empty(command.sent):
        raise missing
    asked = question(catalog, subject, command.sent, command.normalize)
    parsed = command.parsed
    if parsed is None or parsed.question != asked:
        return asked
    contents = list[Content]()
    for meant in (as_sent, partial(inherited, catalog, subject)):
        content = meant(command.sent, parsed)
        contents.append(content)
        found = find(catalog, subject, content, deleted=command.deleted)
        if found:
            return Decision((), found)
    same = written_out(catalog, subject, contents, deleted=command.deleted)
    compare = Compare(subject.context, Level.NONE, (), same)
    if not same:
        raise missing
    if command.checked is None or command.checked.question != compare:
        return compare
    found = with_id(catalog, subject, command.checked.same, deleted=command.deleted)
    if found is None:
        raise missing
    return Decision((), found)


def in_some_context(catalog: Catalog, subject: Subject, deleted: bool) -> Subject:
    """A subject that the default context does not have is looked for in the others, in the order
    of their names: consumers name a topic and know of no contexts."""
    if subject.context != DEFAULT_CONTEXT or any(newest_first(catalog, subject, deleted=deleted)):
        return subject
    for context in sorted(catalog.contexts):
        there = Subject(context, subject.name)
        if any(newest_first(catalog, there, deleted=deleted)):
            return there
    return subject


def check(catalog: Catalog, command: Check) -> Answer:
    """Why it could not be registered; nothing where it could. A subject that is not there is
    compatible with everything; a version that is not there is the 40402 error."""
    subject = followed(catalog, command.subject)
    one = None if command.spec is None else _one(catalog, subject, command.spec)
    if is_empty(command.sent):
        raise errors.invalid_schema("it is empty")
    asked = question(catalog, subject, command.sent, command.normalize)
    parsed = command.parsed
    if parsed is None or parsed.question != asked:
        return asked
    if parsed.fault:
        raise errors.invalid_schema(parsed.fault)
    content = as_sent(command.sent, parsed)
    if one is None:
        compare = earlier(catalog, subject, content)
        other_kind = compare.level is not Level.NONE and has_other_kind(catalog, subject)
    else:
        compare = only(catalog, subject, content, one)
        other_kind = any(found.schema.kind != AVRO for found in one)
    if other_kind:
        return _reported(command, [OTHER_KIND], parsed.doubts)
    names = reserved_names(catalog, subject, content)
    if not compare.earlier:
        return _reported(command, details(catalog, subject, (), names), parsed.doubts)
    checked = command.checked
    if checked is None or checked.question != compare:
        return compare
    reasons = details(catalog, subject, checked.conflicts, names)
    return _reported(command, reasons, parsed.doubts + checked.warnings)


def _reported(command: Check, reasons: list[str], warnings: tuple[str, ...]) -> Decision:
    return Decision((), CheckReport(reasons, list(warnings)) if command.report else reasons)


def _one(catalog: Catalog, subject: Subject, spec: str) -> list[Found]:
    """The version that is asked for; none where it is the latest of nothing."""
    number = version_number(spec)
    latest = newest(catalog, subject)
    if number is None:
        return [latest] if latest else []
    found = at(catalog, subject, number)
    if found is None or found.version.deleted:
        raise errors.version_not_found(number)
    return [found]


def version_number(text: str) -> int | None:
    """A positive int of 31 bits; None for "latest" (any case) and "-1". Raises the 42202 error."""
    if text.lower() == "latest" or text == "-1":
        return None
    if text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) < 2**31:
        return int(text)
    raise errors.invalid_version(text)
