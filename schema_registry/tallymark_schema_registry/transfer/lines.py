"""Keys and values of the topic ``_schemas``, in which other registries keep their state.

A key is JSON; all records of one key are about one thing, and the last of them counts::

    {"keytype":"SCHEMA","subject":"s","version":1,"magic":1}         one version
    {"keytype":"CONFIG","subject":"s","magic":0}                     a level; subject null: for all
    {"keytype":"MODE","subject":"s","magic":0}                       likewise
    {"keytype":"DELETE_SUBJECT","subject":"s","magic":0}             softly, up to a version
    {"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}              softly deleted ones are gone
    {"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}
    {"keytype":"NOOP","magic":0}

Programs differ in the order of the properties, in ``magic``, and in properties of their own
(``seq``, ``node``). The key is the same: :class:`Key` has only what distinguishes one thing from
another. A file has one record a line, ``{"key":...,"value":...}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

SCHEMA: Final = "SCHEMA"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
CONTEXT: Final = "CONTEXT"
NOOP: Final = "NOOP"
_OF_SUBJECTS: Final = frozenset((CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT))

Json: TypeAlias = Mapping[str, Any]


class Key(NamedTuple):
    """What a record is about. ``subject`` is qualified, "" where the key has none (null);
    ``version`` is 0 but for a SCHEMA; ``context`` only for a CONTEXT. ``kind`` is the ``keytype``,
    one of the above or one that is not known here."""

    kind: str
    subject: str = ""
    version: int = 0
    context: str = ""

    @property
    def known(self) -> bool:
        """Whether it is a kind that this program understands."""
        return self.kind in _OF_SUBJECTS or self.kind in (SCHEMA, CONTEXT, NOOP)

    def document(self) -> dict[str, Any]:
        """The key as JSON, its properties in the order in which registries write them: the bytes
        of a key are what a topic is compacted by."""
        document: dict[str, Any] = {"keytype": self.kind}
        if self.kind == CONTEXT:
            document |= {"tenant": "default", "context": self.context}
        elif self.kind == SCHEMA:
            document |= {"subject": self.subject, "version": self.version}
        elif self.kind != NOOP:
            document["subject"] = self.subject or None
        document["magic"] = int(self.kind == SCHEMA)
        return document


class Entry(NamedTuple):
    """One record. ``value`` None is a tombstone: what the key is about is not there any more."""

    key: Key
    value: Json | None


class UnreadableError(ValueError):
    """What is no record of a registry; the text says why."""


def read_key(document: Any) -> Key:
    """The key in the JSON of a key. Raises UnreadableError."""
    if not isinstance(document, dict) or not isinstance(document.get("keytype"), str):
        raise UnreadableError("its key has no keytype")
    kind, subject = document["keytype"], document.get("subject")
    if subject is not None and not isinstance(subject, str):
        raise UnreadableError("the subject of its key is no text")
    if kind == SCHEMA:
        version = document.get("version")
        if not subject or not is_number(version):
            raise UnreadableError("a SCHEMA key needs a subject and a version")
        return Key(SCHEMA, subject, version)
    if kind == CONTEXT:
        return Key(CONTEXT, context=str(document.get("context")))
    return Key(kind, (subject or "") if kind in _OF_SUBJECTS else "")


def read_entry(key: Any, value: Any) -> Entry:
    """The record of two JSON values. Raises UnreadableError."""
    found = read_key(key)
    if value is not None and not isinstance(value, dict) and found.known:
        raise UnreadableError(f"the value of its {found.kind} is no JSON object")
    return Entry(found, value)


def read_line(line: str) -> Entry:
    """The record of a line: ``{"key":...,"value":...}``, or key, tab and value, as Kafka's
    console consumer prints them with ``print.key=true``. Raises UnreadableError."""
    key, tab, value = line.partition("\t")
    if tab and key.startswith('{"keytype"'):
        return read_entry(_json(key), _json(value))
    document = _json(line)
    if not isinstance(document, dict) or "key" not in document or "value" not in document:
        raise UnreadableError('it is not {"key": ..., "value": ...}')
    return read_entry(document["key"], document["value"])


def line_of(entry: Entry) -> str:
    """The line of a record, without the newline. Equal records have equal lines."""
    document = {"key": entry.key.document(), "value": entry.value}
    text = one_line(document)
    # Half of a surrogate pair, which JSON can name and UTF-8 cannot write.
    return text if _writable(text) else one_line(document, ascii_only=True)


def one_line(document: Any, *, ascii_only: bool = False) -> str:
    """JSON without spaces."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=ascii_only)


def is_number(value: Any, least: int = 1) -> TypeGuard[int]:
    """An integer from ``least`` on: JSON's ``true`` is none, though Python says so."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"it is not JSON: {error}") from None


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
