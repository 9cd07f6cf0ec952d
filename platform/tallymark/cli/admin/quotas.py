"""``tallymark quotas``: how much a user, a client id, or both together, may send and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.users import Entity
from tallymark.errors import UserError
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.output import json_option, print_line, show
from tallymark.shell.target import cluster_options, take_target

F = TypeVar("F", bound=Callable[..., Any])

_SETTINGS: Final = {
    "producer": "producer_byte_rate",
    "consumer": "consumer_byte_rate",
    "request_percentage": "request_percentage",
    "mutations": "controller_mutation_rate",
}
"""Parameters of ``quotas set`` -> Kafka's names."""
_KINDS: Final = {"user": "user", "client-id": "client id", "ip": "ip"}
_WHOSE: Final = {"user": "user", "client_id": "client-id"}


@click.group("quotas", cls=NamedGroup)
def command() -> None:
    """List, set and remove quotas: of a user, a client id, both together, or all others.

    The most specific one counts: that of user and client id, of the user, of the client id, and
    last the defaults.
    """


def _entity_options(function: F) -> F:
    for option in (
        click.option("--client-id-default", is_flag=True, help="Every client id without its own."),
        click.option("--client-id", metavar="NAME", help="This client id."),
        click.option("--user-default", is_flag=True, help="Every user without its own."),
        click.option("--user", metavar="NAME", help="This user."),
    ):
        function = option(function)
    return function


@command.command("list")
@_entity_options
@json_option
@cluster_options
def list_quotas(as_json: bool, **options: Any) -> None:
    """Print every quota, or those that name the user and client id given."""
    wanted = set(_entity(options))
    with Admin(**take_target(options).client) as admin:
        quotas = admin.describe_quotas()
    rows = [_row(entity, values) for entity, values in quotas.items() if wanted <= {*entity}]
    rows.sort(key=lambda row: (row["user"] or "", row["client id"] or ""))
    columns = ["user", "client id", *(["ip"] if any(row["ip"] for row in rows) else [])]
    columns += sorted({name for values in quotas.values() for name in values})
    show(rows, {name: name.upper().replace(" ", "-") for name in columns}, as_json)


@command.command("set")
@_entity_options
@click.option("--producer", type=click.FloatRange(min=0), help="Bytes a second it may send.")
@click.option("--consumer", type=click.FloatRange(min=0), help="Bytes a second it may read.")
@click.option("--request-percentage", type=click.FloatRange(min=0), help="Of a thread's time.")
@click.option("--mutations", type=click.FloatRange(min=0), help="Partitions made a second.")
@click.option("--dry-run", is_flag=True, help="Check without a change.")
@cluster_options
def set_quotas(dry_run: bool, **options: Any) -> None:
    """Set quotas; others of the same user and client id stay.

    For example: tallymark quotas set --user alice --client-id loader --producer 1000000
    """
    entity = _needed(_entity(options))
    given = {name: options.pop(option) for option, name in _SETTINGS.items()}
    change = {name: value for name, value in given.items() if value is not None}
    if not change:
        raise UserError("which quota?", "give --producer or --consumer, in bytes a second")
    with Admin(**take_target(options).client) as admin:
        admin.alter_quotas({entity: change}, validate_only=dry_run).check()
    done = ", ".join(f"{name}={value:.15g}" for name, value in change.items())
    print_line(f"{_called(entity)}: {'would be set' if dry_run else done}")


@command.command("remove")
@_entity_options
@click.option("--dry-run", is_flag=True, help="Check without a change.")
@cluster_options
def remove(dry_run: bool, **options: Any) -> None:
    """Remove all quotas of exactly this user and client id."""
    entity = _needed(_entity(options))
    with Admin(**take_target(options).client) as admin:
        held = admin.describe_quotas().get(entity)
        if not held:
            raise UserError(
                f"there are no quotas of {_called(entity)}", "see 'tallymark quotas list'"
            )
        admin.alter_quotas({entity: dict.fromkeys(held)}, validate_only=dry_run).check()
    print_line(f"{_called(entity)}: {'would be removed' if dry_run else 'removed'}")


def _entity(options: dict[str, Any]) -> Entity:
    """What :func:`_entity_options` were given, taken out of ``options``."""
    found: dict[str, str | None] = {}
    for parameter, kind in _WHOSE.items():
        name, default = options.pop(parameter), options.pop(f"{parameter}_default")
        if name is not None and default:
            raise UserError(f"--{kind} and --{kind}-default both say whose", "give one of them")
        if name is not None or default:
            found[kind] = name
    return tuple(sorted(found.items(), key=str))


def _needed(entity: Entity) -> Entity:
    if not entity:
        raise UserError("whose quota?", "give --user, --client-id, or --user-default ...")
    return entity


def _row(entity: Entity, values: Mapping[str, float]) -> dict[str, Any]:
    named = dict(entity)
    return {
        **{title: _word(named, kind) for kind, title in _KINDS.items()},
        **{name: int(value) if value == int(value) else value for name, value in values.items()},
    }


def _word(named: Mapping[str, str | None], kind: str) -> str | None:
    """The name, Kafka's word for the default of all, or None where it does not count."""
    return (named[kind] or "<default>") if kind in named else None


def _called(entity: Entity) -> str:
    return ", ".join(f"{kind} {name or '<default>'}" for kind, name in entity)
