"""What the registry is asked to do, and what a decision answers. The shapes that all rooms share.

A command goes through one entry point, which is pure: it reads the catalog and names the records,
or raises RegistryError where the command is refused::

    decide(catalog, command, now_ms, taken=None) -> Decision | Parse | Compare

``taken`` maps a context to the highest id that another command of the same batch has taken. A
decision has no texts, so it may first ask for something that only texts show; the caller finds it
out in a worker thread and decides again::

    while True:
        answer = decide(catalog, command, now_ms)
        if isinstance(answer, Parse):      command = replace(command, parsed=Parsed(answer, text))
        elif isinstance(answer, Compare):  command = replace(command, checked=Checked(answer, ...))
        else:                              answer is a Decision: store it, apply it, reply

What was found out carries the question. If the catalog has changed meanwhile and the question with
it, the decision asks again; so nothing is decided by what was true before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tallymark_schema_registry.catalog.catalog import SchemaEntry, VersionEntry
from tallymark_schema_registry.catalog.content import AVRO, Content, Reference
from tallymark_schema_registry.catalog.records import Record
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.levels import Level


@dataclass(frozen=True, slots=True)
class Sent:
    """What the body of a registration, look-up or check carries, already of the right JSON types.

    ``text`` None or blank: the content of the subject's latest version again. A reference's
    version -1 is the latest. ``metadata`` and ``rule_set``: see
    :func:`~tallymark_schema_registry.catalog.contracts.metadata_text` and ``rule_set_text``; "" for
    none. ``schema_id`` and ``version``: chosen by the client (IMPORT), or expected by it; version
    -1 expects that the schema is the latest, or becomes it."""

    text: str | None
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""
    schema_id: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class VersionView:
    """One version with its content, for responses."""

    subject: Subject
    version: int
    schema_id: int
    md5: str
    content: Content
    at_ms: int
    by: str
    deleted: bool


@dataclass(frozen=True, slots=True)
class SchemaView:
    """A schema by id; ``subject`` and ``version`` where the request named a subject."""

    context: str
    schema_id: int
    md5: str
    content: Content
    subject: Subject | None = None
    version: int | None = None


class Found(NamedTuple):
    """One version as the catalog has it: a :class:`VersionView` without its text."""

    subject: Subject
    version: VersionEntry
    schema: SchemaEntry


# --- what has to be found out about texts


@dataclass(frozen=True, slots=True)
class Parse:
    """Parse a text and write it canonically.

    ``text`` None: the stored text of ``same_as``. ``references`` have numbers; ``closure`` is
    (context, id) of every schema that they reach, each after those that it refers to itself, so
    that types are known before they are used."""

    context: str
    text: str | None
    same_as: int | None = None
    references: tuple[Reference, ...] = ()
    closure: tuple[tuple[str, int], ...] = ()
    normalize: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """``text`` is the canonical text. ``references`` are those of the question, in its order, or as
    normalizing orders them. ``fault``: why it could not be registered as a new schema (a default
    that does not fit, an invalid name), though it can be read; "" where it could. A text that
    cannot be read at all is refused by the caller. ``doubts``: what a person should look at in the
    schema itself."""

    question: Parse
    text: str
    references: tuple[Reference, ...] = ()
    fault: str = ""
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compare:
    """Compare the parsed text with stored ones, all of the same context.

    First ``same``: is one of these ids the same schema once all references of both are written out?
    If so, that is the answer, and nothing else is compared. Then ``earlier``, (version, id), the
    newest first: with which of them is the text not compatible at ``level``? ``logical``: nor
    where the meaning of a logical type has changed."""

    context: str
    level: Level
    earlier: tuple[tuple[int, int], ...] = ()
    same: tuple[int, ...] = ()
    logical: bool = False


class Conflict(NamedTuple):
    """``version`` is not compatible; ``reasons`` is one text a reason, ``old_text`` what is stored
    under the version."""

    version: int
    reasons: tuple[str, ...]
    old_text: str


@dataclass(frozen=True, slots=True)
class Checked:
    """``same``: the id out of ``question.same`` that is the same schema. ``conflicts``: versions
    that conflict, the newest first. One is enough to refuse a registration; a check reports all.
    ``warnings``: what a person should look at in a schema that is compatible."""

    question: Compare
    same: int | None = None
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()


class CheckReport(NamedTuple):
    """``reasons`` why a schema could not be registered; ``warnings`` do not stop it."""

    reasons: list[str]
    warnings: list[str]


# --- commands


@dataclass(frozen=True, slots=True)
class Register:
    """Reply: :class:`Found`. ``force``: without comparing with earlier versions."""

    subject: Subject
    sent: Sent
    normalize: bool = False
    force: bool = False
    by: str = ""
    parsed: Parsed | None = None
    checked: Checked | None = None


@dataclass(frozen=True, slots=True)
class LookUp:
    """Under which version does the subject have this schema? Changes nothing. Reply:
    :class:`Found`. ``deleted``: in soft-deleted versions too."""

    subject: Subject
    sent: Sent
    normalize: bool = False
    deleted: bool = False
    parsed: Parsed | None = None
    checked: Checked | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Could it be registered? Changes nothing. Reply: the reasons why not, a list of texts; or with
    ``report`` a :class:`CheckReport`. ``spec`` None: against all versions that the level names."""

    subject: Subject
    spec: str | None
    sent: Sent
    normalize: bool = False
    report: bool = False
    parsed: Parsed | None = None
    checked: Checked | None = None


@dataclass(frozen=True, slots=True)
class Import:
    """Take a version as another registry has it, whatever the mode. Reply: :class:`Found`.

    ``content`` is stored as it is; its references have numbers. Refused if the id has another
    content, or the version another id. Again: no records, unless ``deleted`` differs."""

    subject: Subject
    version: int
    schema_id: int
    content: Content
    deleted: bool = False
    at_ms: int = 0
    by: str = ""


@dataclass(frozen=True, slots=True)
class DeleteVersion:
    """``spec``: a number, "latest" or "-1". Reply: the number."""

    subject: Subject
    spec: str
    permanent: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class DeleteSubject:
    """Reply: the list of the versions deleted."""

    subject: Subject
    permanent: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class RestoreVersion:
    """The end of a soft deletion. Reply: the number."""

    subject: Subject
    spec: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class SetConfig:
    """``values``: the JSON object of the request. Reply: the object to answer."""

    subject: Subject
    values: dict[str, Any] = field(default_factory=dict)
    by: str = ""


@dataclass(frozen=True, slots=True)
class DeleteConfig:
    """Reply: the config that was set."""

    subject: Subject
    by: str = ""


@dataclass(frozen=True, slots=True)
class SetMode:
    """``mode`` as the request has it. Reply: the mode as it is stored."""

    subject: Subject
    mode: str
    force: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class DeleteMode:
    """``recursive``: of all subjects of the context too. Reply: the mode that was set."""

    subject: Subject
    recursive: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class DeleteContext:
    """Reply: None."""

    context: str
    by: str = ""


PlainCommand: TypeAlias = (
    Import
    | DeleteVersion
    | DeleteSubject
    | RestoreVersion
    | SetConfig
    | DeleteConfig
    | SetMode
    | DeleteMode
    | DeleteContext
)
"""Commands that are decided by the catalog alone."""
Command: TypeAlias = Register | LookUp | Check | PlainCommand


class NewContent(NamedTuple):
    """A row for the table of contents."""

    context: str
    schema_id: int
    content: Content


@dataclass(frozen=True, slots=True)
class Decision:
    """``records`` in the order in which they are applied; none where nothing changes. ``contents``
    are those that the ids of SchemaAdded mean, stored in the same transaction. ``reply``: as the
    command says."""

    records: tuple[Record, ...]
    reply: Any
    contents: tuple[NewContent, ...] = ()


Answer: TypeAlias = Decision | Parse | Compare
