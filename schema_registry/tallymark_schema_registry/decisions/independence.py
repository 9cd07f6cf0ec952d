"""Which commands may be decided side by side on one catalog, and stored in one transaction.

Each command reads some facts and writes some. Two are independent if neither writes what the other
one reads or writes; then it does not matter which one comes first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.catalog.subject import Subject, parse_subject
from tallymark_schema_registry.decisions.commands import (
    Check,
    Command,
    DeleteSubject,
    DeleteVersion,
    Import,
    LookUp,
    Register,
    RestoreVersion,
)
from tallymark_schema_registry.decisions.scope import followed

Fact: TypeAlias = tuple[str, str, str]
"""("everything", "", ""), ("subject", context, name), ("content", context, text) or
("id", context, number)."""

_EVERYTHING: Fact = ("everything", "", "")


class Touched(NamedTuple):
    """The facts that a command reads and writes. ``ids``: "next" where it may take the next id of
    its context, "chosen" where it brings one: that could be the next."""

    reads: frozenset[Fact]
    writes: frozenset[Fact]
    ids: str = ""

    def is_independent_of(self, other: Touched) -> bool:
        """Neither writes what the other one reads or writes."""
        return (
            self.writes.isdisjoint(other.reads | other.writes)
            and other.writes.isdisjoint(self.reads)
            and {self.ids, other.ids} != {"next", "chosen"}
        )


def touched(catalog: Catalog, command: Command) -> Touched:
    """Levels, modes and contexts are facts of everything: a command that changes them is alone in
    its transaction; and so is a permanent deletion, which also takes ids and contents away."""
    if isinstance(command, LookUp | Check):
        return _touched()
    if isinstance(command, Import):
        subject = command.subject
        content = command.content
        writes = {_subject(subject), _id(subject, command.schema_id), _text(subject, content.text)}
        return _touched(_targets(subject, content.references), writes, "chosen")
    if isinstance(command, Register):
        return _of_registration(followed(catalog, command.subject), command)
    if isinstance(command, DeleteVersion | DeleteSubject) and not command.permanent:
        return _touched(writes={_subject(followed(catalog, command.subject))})
    if isinstance(command, RestoreVersion):
        return _touched(writes={_subject(followed(catalog, command.subject))})
    return Touched(frozenset(), frozenset({_EVERYTHING}))


def _of_registration(subject: Subject, command: Register) -> Touched:
    if command.parsed is None:
        return _touched()
    reads, text = _targets(subject, command.parsed.references), command.parsed.text
    # Metadata may still be added: two contents with one text may become the same.
    writes = {_subject(subject), _text(subject, text)}
    schema_id = command.sent.schema_id
    if schema_id is None or schema_id < 0:
        return _touched(reads, writes, "next")
    return _touched(reads, writes | {_id(subject, schema_id)}, "chosen")


def _touched(reads: Collection[Fact] = (), writes: Collection[Fact] = (), ids: str = "") -> Touched:
    return Touched(frozenset((_EVERYTHING, *reads)), frozenset(writes), ids)


def _subject(subject: Subject) -> Fact:
    return ("subject", subject.context, subject.name)


def _text(subject: Subject, text: str) -> Fact:
    return ("content", subject.context, text)


def _id(subject: Subject, schema_id: int) -> Fact:
    return ("id", subject.context, str(schema_id))


def _targets(subject: Subject, references: tuple[Reference, ...]) -> list[Fact]:
    return [_subject(parse_subject(reference.subject, subject.context)) for reference in references]
