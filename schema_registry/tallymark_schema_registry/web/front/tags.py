"""What answers depend on, and what changes touch.

=====================  ===============================================================
an answer about ...    depends on
=====================  ===============================================================
a schema by its id     :func:`schema`, touched when it is permanently deleted
a subject              :func:`about`: the subject, and the settings that are in force
a list, a search       :data:`ANYTHING`, touched by every change
=====================  ===============================================================

An answer that followed an alias is about both subjects; so is a registration about the subjects
that it refers to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from tallymark_schema_registry.catalog.records import (
    ConfigSet,
    ContextRemoved,
    ModeSet,
    Record,
    SchemaAdded,
    SchemaRemoved,
)
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, GLOBAL, Subject

Tag: TypeAlias = tuple[str, ...]

ANYTHING: Final[Tag] = ("anything",)
_EVERYWHERE: Final = (Subject(DEFAULT_CONTEXT, ""), GLOBAL)


def schema(context: str, schema_id: int) -> Tag:
    """A schema by its id."""
    return "schema", context, str(schema_id)


def subject(of: Subject) -> Tag:
    """A subject's versions and its own settings; of ``Subject(context, "")`` the settings of the
    context."""
    return "subject", of.context, of.name


def about(*subjects: Subject) -> tuple[Tag, ...]:
    """What an answer about subjects depends on: themselves, and wherever settings that are in force
    for them may be set (:mod:`tallymark_schema_registry.decisions.scope`)."""
    places = [place for each in subjects for place in (each, each.context_place)]
    return tuple(dict.fromkeys(subject(place) for place in (*places, *_EVERYWHERE)))


def touched(record: Record) -> Iterator[Tag]:
    """The tags of the answers that a change makes void."""
    yield ANYTHING
    if isinstance(record, SchemaRemoved):
        yield schema(record.context, record.schema_id)
    elif isinstance(record, ConfigSet | ModeSet):
        yield subject(Subject(record.context, record.subject))
    elif isinstance(record, ContextRemoved):
        yield subject(Subject(record.context, ""))
    elif not isinstance(record, SchemaAdded):
        yield subject(Subject(record.context, record.subject))
