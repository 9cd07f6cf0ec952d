"""Why a schema would be refused, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from tallymark.serialization import RegistryClient, RegistryError
from tallymark.serialization.schemas import Schema
from tallymark.shell.output import print_line
from tallymark.untrusted import escaped_json

_NOT_FOUND = 404


def conflicts(
    registry: RegistryClient, subject: str, schema: Schema, *, normalize: bool = False
) -> list[str]:
    """Why ``schema`` could not be registered; a subject that is not there takes any schema, though
    some registries answer 404."""
    try:
        return registry.conflicts(subject, schema, normalize=normalize)
    except RegistryError as error:
        if error.status == _NOT_FOUND:
            return []
        raise


def print_reasons(subject: str, reasons: Sequence[str], as_json: bool) -> None:
    """What the registry says, one line each."""
    if as_json:
        document = {"subject": subject, "compatible": False, "messages": list(reasons)}
        click.echo(escaped_json(json.dumps(document, ensure_ascii=False)))
        return
    print_line(f"{subject}: incompatible")
    for reason in reasons:
        print_line(f"  {reason}")
