"""``tallymark schema diff``."""

from __future__ import annotations

import json
from dataclasses import asdict
from difflib import unified_diff
from typing import Any

import click

from tallymark.errors import UserError
from tallymark.serialization import RegistryClient
from tallymark.serialization.schemas import AVRO, Schema
from tallymark.shell.output import json_option
from tallymark.untrusted import escaped, escaped_json
from tallymark_schema_registry.cli.connection import (
    client,
    exit_codes,
    registry_options,
    take_access,
)
from tallymark_schema_registry.cli.texts import pretty, read_text, version_of
from tallymark_schema_registry.schemas import (
    Change,
    InvalidSchemaError,
    TooLargeError,
    diff,
    parse_schema,
)
from tallymark_schema_registry.schemas import Schema as Parsed

_FILE = "In place of NEW: a file, or - for standard input."
_TEXT = "Compare the texts line by line, attributes without a meaning included."


@click.command("diff")
@click.argument("subject")
@click.argument("old", default="latest")
@click.argument("new", required=False)
@click.option("--file", type=click.Path(allow_dash=True), help=_FILE)
@click.option("--text", "by_text", is_flag=True, help=_TEXT)
@json_option
@registry_options
def command(**options: Any) -> None:
    """Show what changed between the versions OLD and NEW of SUBJECT, or between OLD (default: the
    latest) and a file.

    One line a change: + added, - removed, ~ changed. Exits with 0, whether there are changes or
    not.
    """
    subject, new, file = options["subject"], options["new"], options["file"]
    if (new is None) is (file is None):
        raise click.UsageError("Give the version NEW, or --file.")
    with exit_codes(), client(take_access(options)) as registry:
        old = version_of(registry, subject, options["old"], deleted=True)
        if file:
            other = Schema(read_text(file), old.references, old.kind)
        else:
            other = version_of(registry, subject, new, deleted=True).schema
        if options["by_text"] or old.kind != AVRO or other.kind != AVRO:
            before, after = (pretty(one).splitlines() for one in (old.schema, other))
            names = f"{subject} version {old.version}", file or f"{subject} version {new}"
            for line in unified_diff(before, after, *names, lineterm=""):
                click.echo(escaped(line))
            return
        changes = _changes(registry, old.schema, other)
    if options["as_json"]:
        document = [asdict(change) for change in changes]
        click.echo(escaped_json(json.dumps(document, indent=2, ensure_ascii=False)))
        return
    for change in changes:
        click.echo(escaped(change.line()))
    if not changes and pretty(old.schema) != pretty(other):
        click.echo("nothing but the order of attributes; see --text", err=True)


def _changes(registry: RegistryClient, old: Schema, new: Schema) -> list[Change]:
    try:
        return diff(_parsed(registry, old), _parsed(registry, new))
    except (InvalidSchemaError, TooLargeError) as error:
        raise UserError(f"a schema cannot be read: {error}", "see --text") from None


def _parsed(registry: RegistryClient, schema: Schema) -> Parsed:
    """As leniently as what is stored, with the types of its references."""
    known: list[Parsed] = []
    for text in registry.reference_texts(schema):
        known.append(parse_schema(text, references=known, stored=True))
    return parse_schema(schema.text, references=known, stored=True)
