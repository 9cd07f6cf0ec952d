"""``tallymark groups``: consumer groups, their positions, and setting these."""

from __future__ import annotations

from typing import Any

import click

from tallymark.cli.admin.group_stores import BROKERS, find_group, opened_stores, store_options
from tallymark.cli.admin.groups_reset import reset
from tallymark.cli.admin.lag_rows import LAG_COLUMNS, lag_row
from tallymark.errors import TallymarkError, UserError
from tallymark.shell.confirm import confirmed, destructive_options
from tallymark.shell.counted import counted
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.named import several_named
from tallymark.shell.output import end, json_option, print_line, show
from tallymark.shell.target import cluster_options

_COLUMNS = {
    "group": "GROUP",
    "group type": "TYPE",
    "type": "PROTOCOL",
    "state": "STATE",
    "kept": "KEPT",
    "coordinator": "COORDINATOR",
}
_MEMBER_COLUMNS = {
    "group": "GROUP",
    "member": "CONSUMER-ID",
    "host": "HOST",
    "client": "CLIENT-ID",
    "instance": "GROUP-INSTANCE-ID",
    "partitions": "ASSIGNMENT",
}
_STATES = {
    name.lower(): name
    for name in (
        *("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
        *("Assigning", "Reconciling"),  # of groups of Apache Kafka's newer protocol (KIP-848)
    )
}


@click.group("groups", cls=NamedGroup)
def command() -> None:
    """List, describe, reset and delete consumer groups: of the brokers and of ZooKeeper."""


command.add_command(reset)


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="NAME", help="Stable, Empty ...")
@json_option
@store_options
@cluster_options
def list_groups(states: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Print every group, where it is kept and its state."""
    wanted = {state.lower() for state in states}
    if unknown := [state for state in states if state.lower() not in _STATES]:
        raise UserError(
            f"no group is ever in the state {unknown[0]!r}",
            f"states are {', '.join(_STATES.values())}",
        )
    rows: list[dict[str, Any]] = []
    errors: list[TallymarkError] = []
    with opened_stores(options) as (_, stores):
        for store in stores:
            groups, failed = store.listing()
            errors += failed
            rows += (
                {
                    "group": one.group,
                    "kept": store.where,
                    "state": one.state,
                    "type": one.protocol_type,
                    "group type": one.kind or ("classic" if store.where == BROKERS else None),
                    "coordinator": one.coordinator if one.coordinator >= 0 else None,
                }
                for one in groups.values()
                if not wanted or one.state.lower() in wanted
            )
    show(rows, _COLUMNS, as_json)
    end(len(rows), errors)


@command.command("describe")
@several_named("group", "names")
@click.option("--members", is_flag=True, help="A row for each member in place of partition.")
@json_option
@store_options
@cluster_options
def describe(names: tuple[str, ...], members: bool, as_json: bool, **options: Any) -> None:
    """Print the positions of groups: offsets, ends of logs, lag and owners; or their members."""
    rows: list[dict[str, Any]] = []
    errors: list[TallymarkError] = []
    done = 0
    with opened_stores(options) as (admin, stores):
        for name in names:
            try:
                store, group = find_group(stores, name)
                lags = () if members else admin.lag_of(group, store.offsets(name))
            except TallymarkError as error:
                errors.append(error)
                continue
            done += 1
            if not as_json:
                size = counted(len(group.members), "member")
                print_line(f"{name}\tkept by {store.where}\t{group.state}\t{size}")
            rows += (lag_row(name, lag) for lag in lags)
            errors += [lag.error for lag in lags if lag.error is not None]
            if members:
                rows += (
                    {
                        "group": name,
                        "member": one.member_id,
                        "instance": one.instance_id,
                        "client": one.client_id,
                        "host": one.host,
                        "partitions": [f"{topic}-{part}" for topic, part in one.partitions],
                    }
                    for one in group.members
                )
    if len(names) == 1 and not done:
        raise errors[0]
    show(rows, _MEMBER_COLUMNS if members else LAG_COLUMNS, as_json)
    end(done, errors)


@command.command("delete")
@several_named("group", "names")
@destructive_options
@store_options
@cluster_options
def delete(names: tuple[str, ...], dry_run: bool, yes: bool, **options: Any) -> None:
    """Delete groups that have no members, with their offsets."""
    errors: list[TallymarkError] = []
    done = 0
    with opened_stores(options) as (_, stores):
        for name in names:
            try:
                store, _ = find_group(stores, name)
                what = f"delete the group {name} and where it stands"
                if confirmed(what, dry_run=dry_run, yes=yes):
                    store.delete(name)
                    print_line(f"{name}: deleted")
                done += 1
            except TallymarkError as error:
                errors.append(error)
    end(done, errors)
