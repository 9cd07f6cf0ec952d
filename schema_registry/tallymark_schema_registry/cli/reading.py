"""``tallymark schema get`` and ``list``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import click

from tallymark.serialization import RegistryClient, RegistryError
from tallymark.serialization.schemas import RegisteredSchema
from tallymark.shell.output import json_option, json_result, show
from tallymark.untrusted import LINES, escaped, escaped_json
from tallymark_schema_registry.cli.connection import (
    client,
    exit_codes,
    registry_options,
    take_access,
)
from tallymark_schema_registry.cli.texts import LATEST_WORD, document_of, pretty, version_of

_NOT_SERVED: Final = (404, 405)
_COLUMNS: Final = {"subject": "SUBJECT", "version": "VERSION", "id": "ID", "type": "TYPE"}


@click.command("get")
@click.argument("subject", required=False)
@click.argument("version", default=LATEST_WORD)
@click.option("--id", "schema_id", type=click.IntRange(min=1), help="By its id instead.")
@click.option("--deleted", is_flag=True, help="Also if it was softly deleted.")
@click.option("--pretty", "over_lines", is_flag=True, help="Over several lines.")
@json_result
@registry_options
def get(**options: Any) -> None:
    """Print the schema of SUBJECT's latest VERSION, of another one, or the one with an id."""
    subject, schema_id = options["subject"], options["schema_id"]
    if (subject is None) is (schema_id is None):
        raise click.UsageError("Give a SUBJECT, or --id.")
    with exit_codes(), client(take_access(options)) as registry:
        if subject:
            found = version_of(registry, subject, options["version"], deleted=options["deleted"])
            schema, document = found.schema, document_of(found)
        else:
            schema = registry.schema_by_id(schema_id)
            document = {"id": schema_id, "type": schema.kind, "schema": schema.text}
    if options["as_json"]:
        click.echo(escaped_json(json.dumps(document, ensure_ascii=False)))
    else:
        click.echo(escaped(pretty(schema) if options["over_lines"] else schema.text, LINES))


@click.command("list")
@click.argument("prefix", default="")
@click.option("--all", "every", is_flag=True, help="All versions [default: the latest ones].")
@click.option("--deleted", is_flag=True, help="Softly deleted ones, too.")
@json_option
@registry_options
def listing(**options: Any) -> None:
    """List the subjects that begin with PREFIX, with their versions and ids.

    ':*:' as the PREFIX lists those of all contexts.
    """
    with exit_codes(), client(take_access(options)) as registry:
        found = list(_versions(registry, options["prefix"], options["every"], options["deleted"]))
    rows = [
        {name: value for name, value in document_of(one).items() if name != "schema"}
        for one in found
    ]
    columns = _COLUMNS | ({"deleted": "DELETED"} if options["deleted"] else {})
    show(rows, columns, options["as_json"])


def _versions(
    registry: RegistryClient, prefix: str, every: bool, deleted: bool
) -> Iterator[RegisteredSchema]:
    try:
        found = list(registry.all_versions(prefix, latest_only=not every, deleted=deleted))
        if not deleted:
            yield from found
            return
        # Not every registry marks them.
        live = {(one.subject, one.version) for one in registry.all_versions(prefix)}
        yield from (replace(one, deleted=(one.subject, one.version) not in live) for one in found)
    except RegistryError as error:
        if error.status not in _NOT_SERVED:
            raise
        yield from _one_by_one(registry, prefix, every, deleted)


def _one_by_one(
    registry: RegistryClient, prefix: str, every: bool, deleted: bool
) -> Iterator[RegisteredSchema]:
    for subject in registry.subjects(prefix, deleted=deleted):
        live = registry.versions(subject)
        numbers = registry.versions(subject, deleted=True) if deleted else live
        for number in numbers if every else numbers[-1:]:
            if found := registry.version(subject, number, deleted=deleted):
                yield replace(found, deleted=number not in live)
