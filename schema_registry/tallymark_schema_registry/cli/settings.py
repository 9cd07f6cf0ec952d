"""``tallymark schema config`` and ``mode``."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from tallymark.serialization import RegistryClient, RegistryError
from tallymark.shell.output import json_result
from tallymark.untrusted import LINES, escaped, escaped_json
from tallymark_schema_registry.cli.connection import (
    client,
    exit_codes,
    registry_options,
    take_access,
)

_LEVEL: Final = "compatibility"
_NOT_SET: Final = (40401, 40408, 40409)
_SET: Final = "What to set: compatibility=FULL, normalize=true, alias=..., as JSON or text."
_DELETE: Final = "Remove what is set; what holds for all subjects holds then."
_FORCE: Final = "IMPORT also where there are schemas."


@click.command("config")
@click.argument("subject", default="")
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help=_SET)
@click.option("--delete", is_flag=True, help=_DELETE)
@json_result
@registry_options
def config(**options: Any) -> None:
    """Show or set the compatibility level and other configuration of SUBJECT, or of all.

    ':.context:' as the SUBJECT is a context.
    """
    subject, values = options["subject"], dict(map(_pair, options["values"]))
    if values and options["delete"]:
        raise click.UsageError("Give --set or --delete, not both.")
    with exit_codes(), client(take_access(options)) as registry:
        if values:
            registry.set_config(values, subject)
        elif options["delete"]:
            registry.delete_config(subject)
        inherited, found = _config(registry, subject)
    if options["as_json"]:
        document = {"subject": subject, "inherited": inherited, "config": found}
        click.echo(escaped_json(json.dumps(document, ensure_ascii=False)))
        return
    for name, value in found.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        click.echo(escaped(f"{name}={text}{' (inherited)' if inherited else ''}", LINES))


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{text!r} is not NAME=VALUE.")
    name = _LEVEL if name == "compatibilityLevel" else name
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _config(registry: RegistryClient, subject: str) -> tuple[bool, dict[str, Any]]:
    try:
        return False, registry.config(subject)
    except RegistryError as error:
        if error.code not in _NOT_SET:
            raise
    return True, registry.config(subject, default_to_global=True)


@click.command("mode")
@click.argument("subject", default="")
@click.option("--set", "mode", metavar="MODE", help="READWRITE, READONLY or IMPORT.")
@click.option("--force", is_flag=True, help=_FORCE)
@click.option("--delete", is_flag=True, help=_DELETE)
@json_result
@registry_options
def mode(**options: Any) -> None:
    """Show or set the mode of SUBJECT, or of all. ':.context:' as the SUBJECT is a context."""
    subject, wanted = options["subject"], options["mode"]
    if wanted and options["delete"]:
        raise click.UsageError("Give --set or --delete, not both.")
    with exit_codes(), client(take_access(options)) as registry:
        if wanted:
            registry.set_mode(wanted.upper(), subject, force=options["force"])
        elif options["delete"]:
            registry.delete_mode(subject)
        inherited, found = _mode(registry, subject)
    if options["as_json"]:
        document = {"subject": subject, "inherited": inherited, "mode": found}
        click.echo(escaped_json(json.dumps(document, ensure_ascii=False)))
    else:
        click.echo(escaped(f"{found}{' (inherited)' if inherited else ''}", LINES))


def _mode(registry: RegistryClient, subject: str) -> tuple[bool, str]:
    try:
        return False, registry.mode(subject, default_to_global=False)
    except RegistryError as error:
        if error.code not in _NOT_SET:
            raise
    return True, registry.mode(subject)
