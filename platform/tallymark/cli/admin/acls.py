"""``tallymark acls``: which user may do what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tallymark.cli.admin.security_target import opened_store, store_options
from tallymark.errors import KafkaError, UserError
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.filter import AclFilter, checked_acl
from tallymark.protocol.acls.text import kind_name, operation_number, sentence, stored
from tallymark.protocol.acls.words import ALLOW, ANY, CLUSTER_NAME, DENY, Pattern, ResourceType
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.output import json_option, print_line, show

F = TypeVar("F", bound=Callable[..., Any])


def _resource_options(function: F) -> F:
    for option in (
        click.option("--prefixed", is_flag=True, help="Names are prefixes of names."),
        click.option("--transactional-id", "transactional_ids", multiple=True, metavar="NAME"),
        click.option("--whole-cluster", is_flag=True, help="The cluster itself."),
        click.option("-g", "--group", "groups", multiple=True, metavar="NAME", help="* means all."),
        click.option("-t", "--topic", "topics", multiple=True, metavar="NAME", help="* means all."),
    ):
        function = option(function)
    return function


@click.group("acls", cls=NamedGroup)
def command() -> None:
    """Add, list and remove access-control entries.

    They are in force on brokers with authorizer.enable=true: a user that is not allowed something
    there may not do it.
    """


@command.command("add")
@click.option(
    "--allow", "allowed", multiple=True, metavar="User:NAME", help="User:* is every user."
)
@click.option("--deny", "denied", multiple=True, metavar="User:NAME")
@click.option("--host", "hosts", multiple=True, default=("*",), show_default=True)
@click.option("--operation", "operations", multiple=True, required=True, metavar="NAME")
@_resource_options
@store_options
def add(
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    hosts: tuple[str, ...],
    operations: tuple[str, ...],
    **options: Any,
) -> None:
    """Allow or deny: every principal, host, operation and resource together.

    For example: tallymark acls add --allow User:alice --operation read --topic clicks --group g
    """
    resources = _take_resources(options)
    people = [(name, ALLOW) for name in allowed] + [(name, DENY) for name in denied]
    if not people or not resources:
        raise UserError(
            "who may do it to what?", "give --allow or --deny, and --topic, --group ..."
        )
    try:
        acls = [
            checked_acl(
                kind, name, pattern, principal, host, operation_number(operation), permission
            )
            for principal, permission in people
            for host in hosts
            for operation in operations
            for kind, name, pattern in resources
        ]
    except KafkaError as error:
        raise UserError(error.context, "see 'tallymark acls add --help'") from None
    with opened_store(options) as security:
        security.change_acls(add=acls)
    _print(acls)


@command.command("list")
@click.option("--principal", metavar="User:NAME", help="Only those of this principal.")
@_resource_options
@json_option
@store_options
def list_acls(principal: str | None, as_json: bool, **options: Any) -> None:
    """Print the entries, or those of the resources named."""
    resources = _take_resources(options)
    with opened_store(options) as security:
        found = _meant(security.acls(), _filters(resources, principal))
    if as_json:
        show(map(_row, found), (), as_json)
    else:
        _print(found)


@command.command("remove")
@click.option("--principal", metavar="User:NAME", help="Only those of this principal.")
@click.option("--all", "everything", is_flag=True, help="All entries.")
@_resource_options
@store_options
def remove(principal: str | None, everything: bool, **options: Any) -> None:
    """Remove the entries of a principal, of the resources named, or both; print them."""
    resources = _take_resources(options)
    if not (resources or principal or everything):
        raise UserError("which entries?", "give --principal, --topic, --group ... or --all")
    with opened_store(options) as security:
        doomed = _meant(security.acls(), _filters(resources, principal))
        if not doomed:
            raise UserError("there is no such entry", "see 'tallymark acls list'")
        security.change_acls(remove=doomed)
    _print(doomed)


def _take_resources(options: dict[str, Any]) -> list[tuple[ResourceType, str, Pattern]]:
    """Remove what :func:`_resource_options` were given from ``options``, and return it."""
    pattern = Pattern.PREFIXED if options.pop("prefixed") else Pattern.LITERAL
    named = [
        (ResourceType.TOPIC, options.pop("topics")),
        (ResourceType.GROUP, options.pop("groups")),
        (ResourceType.TRANSACTIONAL_ID, options.pop("transactional_ids")),
    ]
    found = [(kind, name, pattern) for kind, names in named for name in names]
    if options.pop("whole_cluster"):
        found.append((ResourceType.CLUSTER, CLUSTER_NAME, Pattern.LITERAL))
    return found


def _filters(
    resources: list[tuple[ResourceType, str, Pattern]], principal: str | None
) -> list[AclFilter]:
    if not resources:
        return [AclFilter(principal=principal, pattern=ANY)]
    return [AclFilter(kind, name, pattern, principal) for kind, name, pattern in resources]


def _meant(acls: frozenset[Acl], filters: list[AclFilter]) -> list[Acl]:
    return sorted(acl for acl in acls if any(each.matches(acl) for each in filters))


def _row(acl: Acl) -> dict[str, Any]:
    resource = {"resource": kind_name(acl.kind), "name": acl.name}
    return {**stored(acl), **resource, "pattern": acl.pattern.name.capitalize()}


def _print(acls: list[Acl]) -> None:
    for acl in acls:
        print_line(sentence(acl))
