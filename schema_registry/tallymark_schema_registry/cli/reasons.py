"""Why a schema would be refused, for people and for programs.

Registries write reasons as texts of one form, those of a version before its number::

    {errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'...', additionalInfo:'b'}
    {oldSchemaVersion: 3}
    {oldSchema: '...'}
    {validateFields: 'false', compatibility: 'BACKWARD'}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import click

from tallymark.serialization import RegistryClient, RegistryError
from tallymark.serialization.schemas import Schema
from tallymark.shell.output import print_line
from tallymark.untrusted import escaped_json

_NOT_FOUND: Final = 404
_REASON: Final = re.compile(
    r"\{errorType:'(\w*)', description:'(.*)', additionalInfo:'(.*)'\}", re.DOTALL
)
_VERSION: Final = re.compile(r"\{oldSchemaVersion: (\d+)\}")
_BESIDE: Final = re.compile(r"\{(oldSchema|validateFields|compatibility): .*\}", re.DOTALL)


class Reason(NamedTuple):
    """``rule`` is "" where the registry wrote a text of its own; ``version`` is the one that the
    schema conflicts with, None where it is not said."""

    rule: str
    text: str
    version: int | None

    def line(self) -> str:
        """For people."""
        against = f"version {self.version}: " if self.version else ""
        return f"{against}{self.rule}{': ' if self.rule else ''}{self.text}"


def conflicts(
    registry: RegistryClient, subject: str, schema: Schema, *, normalize: bool = False
) -> list[str]:
    """Why ``schema`` could not be registered, as the registry says it; a subject that is not there
    takes any schema, though some registries answer 404."""
    try:
        return registry.conflicts(subject, schema, normalize=normalize)
    except RegistryError as error:
        if error.status == _NOT_FOUND:
            return []
        raise


def read_reasons(messages: Sequence[str]) -> list[Reason]:
    """The reasons in what a registry says; other texts are reasons of their own."""
    return [
        Reason(rule, text, version)
        for version, texts in _by_version(messages)
        for rule, text in texts
    ]


def _by_version(
    messages: Sequence[str],
) -> Iterator[tuple[int | None, list[tuple[str, str]]]]:
    waiting: list[tuple[str, str]] = []
    for message in messages:
        if found := _VERSION.fullmatch(message):
            yield int(found[1]), waiting
            waiting = []
        elif found := _REASON.fullmatch(message):
            waiting.append((found[1], found[2]))
        elif not _BESIDE.fullmatch(message):
            waiting.append(("", message))
    yield None, waiting


def reasons_document(messages: Sequence[str]) -> dict[str, Any]:
    """For ``--json``: ``reasons``, and ``messages`` as the registry wrote them."""
    reasons = [one._asdict() for one in read_reasons(messages)]
    return {"reasons": reasons, "messages": list(messages)}


def print_reasons(subject: str, messages: Sequence[str], as_json: bool) -> None:
    """What the registry says, one line a reason."""
    if as_json:
        document = {"subject": subject, "compatible": False} | reasons_document(messages)
        click.echo(escaped_json(json.dumps(document, ensure_ascii=False)))
        return
    print_line(f"{subject}: incompatible")
    for reason in read_reasons(messages):
        print_line(f"  {reason.line()}")
