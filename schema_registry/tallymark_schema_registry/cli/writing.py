"""``tallymark schema register``, ``delete`` and ``undelete``."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from tallymark.errors import UserError
from tallymark.serialization import RegistryError
from tallymark.serialization.schemas import RegisteredSchema
from tallymark.shell.confirm import confirmed, destructive_options
from tallymark.shell.output import json_result, print_line
from tallymark.untrusted import escaped_json
from tallymark_schema_registry.cli.connection import (
    client,
    exit_codes,
    registry_options,
    take_access,
)
from tallymark_schema_registry.cli.reasons import (
    NOTHING_AGAINST,
    Verdict,
    verdict_document,
    verdict_lines,
)
from tallymark_schema_registry.cli.texts import (
    check_version,
    read_text,
    reference_option,
    schema_of,
)

_NORMALIZE: Final = "Normalize it: names in full, attributes and references in order."
_DRY_RUN: Final = "Only show what would happen."
_CONFLICT: Final = 409
_NOT_SERVED: Final = (404, 405)
_NO_SUCH: Final = range(40400, 40410)


@click.command("register")
@click.argument("subject")
@click.argument("file", type=click.Path(allow_dash=True))
@reference_option
@click.option("--normalize", is_flag=True, help=_NORMALIZE)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@json_result
@registry_options
def register(**options: Any) -> None:
    """Register the schema in FILE (- for standard input) as a version of SUBJECT.

    What is there already keeps its version. Exits with 1 where the schema is incompatible.
    """
    subject, normalize = options["subject"], options["normalize"]
    schema = schema_of(read_text(options["file"]), options["references"])
    with exit_codes(), client(take_access(options)) as registry:
        known = registry.lookup(subject, schema, normalize=normalize)
        verdict = NOTHING_AGAINST
        done = "was there already" if known else "would be registered"
        if known is None and options["dry_run"]:
            verdict = registry.verdict(subject, schema, normalize=normalize)
        elif known is None:
            try:
                registry.register(subject, schema, normalize=normalize)
            except RegistryError as error:
                if error.status != _CONFLICT:
                    raise
                verdict = registry.verdict(subject, schema, normalize=normalize)
                verdict = verdict._replace(messages=verdict.messages or (error.message,))
            done, known = "registered", registry.lookup(subject, schema, normalize=normalize)
    if verdict.messages:
        done, known = "incompatible", None
    _tell(subject, done, known, verdict, options["as_json"])
    if verdict.messages:
        raise click.exceptions.Exit(1)


def _tell(
    subject: str, done: str, known: RegisteredSchema | None, verdict: Verdict, as_json: bool
) -> None:
    if as_json:
        document = {
            "subject": subject,
            "compatible": not verdict.messages,
            "done": done,
            "version": known.version if known else None,
            "id": known.schema_id if known else None,
        } | verdict_document(verdict)
        click.echo(escaped_json(json.dumps(document, ensure_ascii=False)))
        return
    place = f" version {known.version}, id {known.schema_id}" if known else ""
    print_line(f"{subject}{place}: {done}")
    for line in verdict_lines(verdict):
        print_line(f"  {line}")


@click.command("delete")
@click.argument("subject")
@click.argument("version", required=False, type=click.IntRange(min=1))
@click.option("--permanent", is_flag=True, help="For good, after it was deleted softly.")
@destructive_options
@json_result
@registry_options
def delete(**options: Any) -> None:
    """Delete SUBJECT, or one VERSION of it, softly.

    What is softly deleted is hidden, but can be read by its id, and 'undelete' brings it back. With
    --permanent what was softly deleted is removed; data that was written with it cannot be read
    then.
    """
    subject, version, permanent = options["subject"], options["version"], options["permanent"]
    what = f"{subject} version {version}" if version else f"all versions of {subject}"
    how = " for good" if permanent else ""
    with exit_codes(), client(take_access(options)) as registry:
        if not options["yes"]:  # else the deletion itself says that it is not there
            check_version(registry, subject, version, deleted=permanent)
        if not confirmed(f"delete {what}{how}", dry_run=options["dry_run"], yes=options["yes"]):
            return
        if version:
            deleted = [registry.delete_version(subject, version, permanent=permanent)]
        else:
            deleted = registry.delete_subject(subject, permanent=permanent)
    _print_versions(subject, "deleted", deleted, options["as_json"])


@click.command("undelete")
@click.argument("subject")
@click.argument("version", required=False, type=click.IntRange(min=1))
@json_result
@registry_options
def undelete(**options: Any) -> None:
    """Bring back what was softly deleted: SUBJECT, or one VERSION of it.

    Only this project's registry can do so; elsewhere the schema can be registered again, and gets a
    new version with the old id.
    """
    subject, version = options["subject"], options["version"]
    with exit_codes(), client(take_access(options)) as registry:
        versions = [version] if version else registry.versions(subject, deleted_only=True)
        if not versions:
            raise UserError(f"{subject} has no version that was softly deleted", "see 'list'")
        try:
            restored = [registry.restore(subject, one) for one in versions]
        except RegistryError as error:
            if error.status in _NOT_SERVED and error.code not in _NO_SUCH:
                raise UserError(
                    "this registry cannot undelete", "register the schema again"
                ) from error
            raise
    _print_versions(subject, "restored", restored, options["as_json"])


def _print_versions(subject: str, done: str, versions: list[int], as_json: bool) -> None:
    if as_json:
        document = {"subject": subject, done: versions}
        click.echo(escaped_json(json.dumps(document, ensure_ascii=False)))
    else:
        print_line(f"{subject}: {done} {', '.join(map(str, versions)) or 'nothing'}")
