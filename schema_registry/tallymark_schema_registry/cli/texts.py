"""Schemas on the command line: read from files, and shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tallymark.errors import UserError
from tallymark.serialization import RegistryClient
from tallymark.serialization.schemas import AVRO, LATEST, Reference, RegisteredSchema, Schema
from tallymark.untrusted import command

F = TypeVar("F", bound=Callable[..., Any])

LATEST_WORD: Final = "latest"
_REFERENCE: Final = "A named type and the subject and version (number or latest) that define it."


def reference_option(function: F) -> F:
    """``--reference NAME SUBJECT VERSION``, repeatable."""
    return click.option(
        "--reference",
        "references",
        nargs=3,
        multiple=True,
        metavar="NAME SUBJECT VERSION",
        help=_REFERENCE,
    )(function)


def read_text(path: str) -> str:
    """The text of a file, ``-`` for standard input. UserError where it is not UTF-8."""
    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8", "convert it") from None


def schema_of(text: str, references: tuple[tuple[str, str, str], ...]) -> Schema:
    """What is registered. UserError where a version is no number."""
    return Schema(text, tuple(_reference(*one) for one in references))


def _reference(name: str, subject: str, version: str) -> Reference:
    if version.lower() == LATEST_WORD:
        return Reference(name, subject, LATEST)
    if not version.isdecimal() or not int(version):
        raise UserError(f"{version!r} is no version of {subject}", "give a number, or latest")
    return Reference(name, subject, int(version))


def document_of(found: RegisteredSchema) -> dict[str, Any]:
    """A version for ``--json``."""
    document: dict[str, Any] = {
        "subject": found.subject,
        "version": found.version,
        "id": found.schema_id,
        "type": found.kind,
        "deleted": found.deleted,
        "schema": found.text,
    }
    if found.references:
        document["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version}
            for one in found.references
        ]
    for name, value in (("metadata", found.metadata), ("ruleSet", found.rule_set)):
        if value:
            document[name] = dict(value)
    return document


def pretty(found: Schema) -> str:
    """The text over several lines; what is no JSON as it is."""
    if found.kind not in (AVRO, "JSON"):
        return found.text
    try:
        return json.dumps(json.loads(found.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return found.text


def version_of(
    registry: RegistryClient, subject: str, version: str, *, deleted: bool
) -> RegisteredSchema:
    """A version by its number, or ``latest``. UserError where there is none."""
    if version.lower() == LATEST_WORD:
        found = registry.latest(subject)
    elif version.isdecimal():
        found = registry.version(subject, int(version))
        if found is None and deleted:
            hidden = registry.version(subject, int(version), deleted=True)
            found = hidden and replace(hidden, deleted=True)  # not every registry marks it
    else:
        raise click.UsageError(f"{version!r} is no version: give a number, or latest.")
    if found is None:
        raise _missing(registry, subject, version)
    return found


def check_version(
    registry: RegistryClient, subject: str, version: int | None, *, deleted: bool
) -> None:
    """UserError where there is no such version, or for None no version at all; ``deleted``: a
    softly deleted one counts."""
    versions = registry.versions(subject, deleted=deleted)
    if not versions or (version is not None and version not in versions):
        raise _missing(registry, subject, str(version))


def _missing(registry: RegistryClient, subject: str, version: str) -> UserError:
    if registry.versions(subject):
        return UserError(
            f"there is no version {version} of {subject}",
            f"see '{command('tallymark schema list --all', subject)}'",
        )
    if registry.versions(subject, deleted=True):
        return UserError(
            f"{subject} was deleted", f"see '{command('tallymark schema list --deleted', subject)}'"
        )
    return UserError(f"there is no subject {subject}", "see 'tallymark schema list'")
