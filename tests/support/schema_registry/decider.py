"""Commands to the end, as a node does it, with texts of a language that is easy to compare.

A text is a word; white space around it does not count. ``a(b,c)`` is the word ``a`` with the
references to ``b`` and ``c`` written out. Words that begin with ``x`` are compatible with nothing,
those with ``w`` only by the letter; ``~`` can be read, but not be registered as new; ``!`` cannot
be read at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import Content, Reference
from tallymark_schema_registry.catalog.records import Record
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject, parse_subject
from tallymark_schema_registry.decisions.commands import (
    Checked,
    Command,
    Compare,
    Conflict,
    Decision,
    Parse,
    Parsed,
    Register,
    Sent,
)
from tallymark_schema_registry.decisions.decide import decide


class Refusal(NamedTuple):
    """Why a command was not carried out: HTTP status, code and message of the answer."""

    status: int
    code: int
    message: str


class Decider:
    """A catalog, the texts by (context, id), and every record that was applied."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.texts: dict[tuple[str, int], str] = {}
        self.records: list[Record] = []
        self.asked: list[Parse | Compare] = []
        self.now_ms = 1_000

    def do(self, command: Command) -> Any:
        """The reply. Raises RegistryError where the command is refused; then nothing changed."""
        decision = self.decided(command)
        self.apply(decision)
        return decision.reply

    def refused(self, command: Any) -> Refusal:
        """The refusal; AssertionError where there is none, or where something has changed."""
        before = self.catalog.number
        with pytest.raises(errors.RegistryError) as found:
            self.do(command)
        assert self.catalog.number == before
        return Refusal(found.value.status, found.value.code, found.value.message)

    def decided(self, command: Any, taken: Mapping[str, int] | None = None) -> Decision:
        """The decision, not applied."""
        return self.prepared(command, taken)[1]

    def prepared(
        self, command: Any, taken: Mapping[str, int] | None = None
    ) -> tuple[Any, Decision]:
        """The command with all that it was asked, and the decision, not applied."""
        for _ in range(4):
            self.now_ms += 1
            answer = decide(self.catalog, command, self.now_ms, taken)
            if isinstance(answer, Decision):
                return command, answer
            self.asked.append(answer)
            if isinstance(answer, Parse):
                command = replace(command, parsed=self.parse(answer))
            else:
                command = replace(command, checked=self.compare(answer, command.parsed))
        raise AssertionError(f"asked again and again: {self.asked[-4:]}")

    def apply(self, decision: Decision) -> None:
        """As a node does after the transaction."""
        for context, schema_id, content in decision.contents:
            self.texts[context, schema_id] = content.text
        for record in decision.records:
            self.catalog.apply(self.catalog.number + 1, record)
            self.records.append(record)

    def parse(self, question: Parse) -> Parsed:
        """What a worker thread does."""
        text = question.text
        if text is None:
            assert question.same_as is not None
            text = self.texts[question.context, question.same_as]
        for place in question.closure:
            assert place in self.texts
        text = text.strip().lower() if question.normalize else text.strip()
        if text.startswith("!"):
            raise errors.invalid_schema("it cannot be read")
        fault = "only old schemas may be so" if text.startswith("~") else ""
        return Parsed(question, text, question.references, fault)

    def compare(self, question: Compare, parsed: Parsed) -> Checked:
        """What a worker thread does."""
        mine = self.written_out(parsed.text, question.context, parsed.references)
        for schema_id in question.same:
            schema = self.catalog.contexts[question.context].schemas[schema_id]
            text = self.texts[question.context, schema_id]
            if self.written_out(text, question.context, schema.references) == mine:
                return Checked(question, same=schema_id)
        conflicts: list[Conflict] = []
        warnings: list[str] = []
        for version, schema_id in question.earlier:
            text = self.texts[question.context, schema_id]
            if "x" in (parsed.text[0], text[0]):
                conflicts.append(Conflict(version, (f"{parsed.text} is not {text}",), text))
            elif "w" in (parsed.text[0], text[0]):
                reason = f"{parsed.text} is not {text} in spirit"
                if question.logical:
                    conflicts.append(Conflict(version, (reason,), text))
                else:
                    warnings.append(reason)
        return Checked(question, None, tuple(conflicts), tuple(warnings))

    def written_out(self, text: str, context: str, references: tuple[Reference, ...]) -> str:
        """The text with what it refers to."""
        inner = []
        for reference in references:
            subject = parse_subject(reference.subject, context)
            entry = self.catalog.version(subject, reference.version)
            assert entry is not None
            schema = self.catalog.contexts[subject.context].schemas[entry.schema_id]
            there = self.texts[subject.context, entry.schema_id]
            inner.append(self.written_out(there, subject.context, schema.references))
        return f"{text}({','.join(inner)})" if inner else text


def registered(place: Subject, *texts: str) -> Decider:
    """One whose subject has these schemas."""
    decider = Decider()
    for text in texts:
        decider.do(Register(place, sent(text)))
    return decider


def subject(text: str) -> Subject:
    """A subject by its qualified name."""
    return parse_subject(text)


def sent(
    text: str | None,
    *references: tuple[str, int],
    metadata: str = "",
    rule_set: str = "",
    schema_id: int | None = None,
    version: int | None = None,
) -> Sent:
    """A body; ``references`` are (subject, version)."""
    found = tuple(Reference(f"N.{name}", name, number) for name, number in references)
    return Sent(
        text,
        references=found,
        metadata=metadata,
        rule_set=rule_set,
        schema_id=schema_id,
        version=version,
    )


def content(text: str, *references: tuple[str, int]) -> Content:
    """A content to import; ``references`` are (subject, version)."""
    return Content(text, references=sent(text, *references).references)


PLACE = Subject(DEFAULT_CONTEXT, "")
"""The place of the default context's level and mode."""
