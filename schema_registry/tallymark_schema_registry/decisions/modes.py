"""Modes, and the end of a context."""

from __future__ import annotations

from collections.abc import Iterator

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.records import ConfigSet, ContextRemoved, ModeSet, Record
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, GLOBAL, Subject
from tallymark_schema_registry.decisions.asking import newest
from tallymark_schema_registry.decisions.commands import (
    Decision,
    DeleteContext,
    DeleteMode,
    SetMode,
)
from tallymark_schema_registry.decisions.deleting import removed
from tallymark_schema_registry.decisions.references import check_unreferenced
from tallymark_schema_registry.decisions.scope import (
    Mode,
    check_writable,
    mode_at,
    mode_in_scope,
    overriding_mode,
)


def mode(catalog: Catalog, subject: Subject, *, default_to_global: bool = False) -> Mode:
    """The mode set for a subject or a context; the 40409 error where none is. READONLY_OVERRIDE
    above it is answered instead. With ``default_to_global``, and always for the default context:
    the mode in force."""
    if default_to_global or subject == Subject(DEFAULT_CONTEXT, ""):
        return mode_in_scope(catalog, subject)
    found = overriding_mode(catalog, subject) or mode_at(catalog, subject)
    if found is None:
        raise errors.no_subject_mode(subject.qualified)
    return found


def set_mode(catalog: Catalog, command: SetMode) -> Decision:
    """A mode can be set in every mode: else READONLY could not be ended.

    IMPORT brings ids from elsewhere, so no version may be there, unless the client says ``force``;
    soft-deleted ones are removed."""
    subject = command.subject
    name = command.mode.upper()
    if name not in Mode.__members__:
        raise errors.invalid_mode()
    wanted = Mode(name)
    if wanted is Mode.FORWARD and subject.name:
        raise errors.not_permitted(
            "Mode FORWARD can be set for all subjects or for a context, not for one subject"
        )
    records: list[Record] = []
    if (
        wanted is Mode.IMPORT
        and not command.force
        and mode_in_scope(catalog, subject) is not Mode.IMPORT
    ):
        records = _emptied(catalog, subject)
    if mode_at(catalog, subject) is not wanted:
        records.append(ModeSet(subject.context, subject.name, wanted))
    return Decision(tuple(records), str(wanted))


def _emptied(catalog: Catalog, place: Subject) -> list[Record]:
    subjects = list(_below(catalog, place))
    if any(newest(catalog, subject) for subject in subjects):
        raise errors.not_permitted("Cannot import since found existing subjects")
    going = {
        (subject, version): None
        for subject in subjects
        for version in catalog.context(subject.context).subjects[subject.name].versions
    }
    check_unreferenced(catalog, going, permanent=True)
    return removed(catalog, going)


def _below(catalog: Catalog, place: Subject) -> Iterator[Subject]:
    """The subjects that a mode at ``place`` is for."""
    contexts = list(catalog.contexts) if place == GLOBAL else [place.context]
    for context in contexts:
        for name in catalog.context(context).subjects:
            if place.name in ("", name):
                yield Subject(context, name)


def delete_mode(catalog: Catalog, command: DeleteMode) -> Decision:
    """The default context always has a mode: where none is set, nothing changes."""
    subject = command.subject
    own = mode_at(catalog, subject)
    if own is None and not command.recursive and subject != Subject(DEFAULT_CONTEXT, ""):
        raise errors.subject_not_found(subject.qualified)
    names = [subject.name] if own else []
    if command.recursive and not subject.name:
        names += [name for name in catalog.context(subject.context).modes if name]
    records = tuple(ModeSet(subject.context, name, None) for name in names)
    return Decision(records, str(own or mode_in_scope(catalog, subject)))


def delete_context(catalog: Catalog, command: DeleteContext) -> Decision:
    """An empty one: without versions, soft-deleted ones included. Its level and mode and those of
    its subjects go too. Where it is not, nothing changes."""
    name = command.context
    if name == DEFAULT_CONTEXT:
        raise errors.not_permitted("The default context cannot be deleted")
    context = catalog.context(name)
    if any(subject.versions for subject in context.subjects.values()):
        raise errors.context_not_empty(name)
    if not context.listed:
        return Decision((), None)
    check_writable(catalog, Subject(name, ""))
    records: list[Record] = [ConfigSet(name, subject, None) for subject in context.configs]
    records += [ModeSet(name, subject, None) for subject in context.modes]
    return Decision((*records, ContextRemoved(name)), None)
