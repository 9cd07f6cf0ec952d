"""``tallymark features``: what all brokers of a cluster understand, and so may be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.features import FeatureDescription, FeaturesDescription
from tallymark.errors import UserError
from tallymark.replication.features import REPLICATION
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.output import json_option, print_line, show
from tallymark.shell.target import cluster_options, take_target
from tallymark.untrusted import escaped

TOPICS_OF_BEFORE: Final = (
    "topics that are there keep the replicas that they have, __consumer_offsets too: see "
    "'tallymark reassign plan --replicas 3'"
)
_COLUMNS = {"feature": "FEATURE", "level": "LEVEL", "possible": "POSSIBLE", "brokers": "BROKERS"}


@click.group("features", cls=NamedGroup)
def command() -> None:
    """Show and raise the levels of a cluster's features.

    A feature is used from the level on that the cluster is at. A level can rise when all brokers
    support it, and never falls. So upgrade all brokers first, then raise.
    """


@command.command("describe")
@json_option
@cluster_options
def describe(as_json: bool, **options: Any) -> None:
    """Print each feature: its level, the highest that all brokers support, and what each does."""
    with Admin(**take_target(options).client) as admin:
        found = admin.describe_features()
    if not found.features and not as_json:
        print_line("the brokers of this cluster have no features")
        return
    show([_row(name, each) for name, each in found.features.items()], _COLUMNS, as_json)


@command.command("upgrade")
@click.argument("levels", nargs=-1, metavar="[FEATURE=LEVEL]...")
@click.option("--dry-run", is_flag=True, help="Check without a change.")
@cluster_options
def upgrade(levels: tuple[str, ...], dry_run: bool, **options: Any) -> None:
    """Raise features to these levels, all or none; without one, each to what all brokers support.

    For example: tallymark features upgrade replication.version=1
    """
    wanted = parse_levels(levels)
    with Admin(**take_target(options).client) as admin:
        found = admin.describe_features()
        wanted = check_levels(wanted, found) if wanted else highest_levels(found)
        if wanted:
            admin.update_features(wanted, validate_only=dry_run)
    if not wanted:
        print_line("nothing to raise: every feature is at the highest level of all brokers")
    for name, level in wanted.items():
        before = found.features[name].level
        done = "could be raised" if dry_run else "raised"
        print_line(f"{escaped(name)}: {done} from level {before} to {level}")
    if REPLICATION in wanted and not dry_run:
        click.echo(TOPICS_OF_BEFORE, err=True)


def parse_levels(levels: tuple[str, ...]) -> dict[str, int]:
    """``replication.version=1`` -> name and level. UserError."""
    found: dict[str, int] = {}
    for text in levels:
        name, _, level = text.partition("=")
        if not name or not level.isascii() or not level.isdecimal() or int(level) > 32767:
            raise UserError(f"{text!r} is not FEATURE=LEVEL", "for example: replication.version=1")
        if name in found:
            raise UserError(f"{name} is given twice", "give one level of each feature")
        found[name] = int(level)
    return found


def check_levels(wanted: Mapping[str, int], found: FeaturesDescription) -> dict[str, int]:
    """The levels that differ from those in force. UserError, before anything is asked, for what the
    brokers would refuse. Pure."""
    for name, level in wanted.items():
        each = found.features.get(name)
        if each is None:
            known = ", ".join(map(escaped, found.features)) or "none"
            raise UserError(
                f"no broker of this cluster knows the feature {name!r}", f"they know: {known}"
            )
        cannot = [broker for broker, (_, most) in each.supported.items() if most < level]
        if cannot:
            raise UserError(
                f"{name} cannot rise to level {level}: brokers {_listed(cannot)} support "
                f"{each.highest} at most",
                "upgrade and restart them first ('tallymark features describe' shows each)",
            )
        if level < each.level:
            raise UserError(
                f"{name} is at level {each.level} and cannot go back to {level}",
                "what the level allows may be in use",
            )
    return {name: level for name, level in wanted.items() if level != found.features[name].level}


def highest_levels(found: FeaturesDescription) -> dict[str, int]:
    """What can rise, and how far. Pure."""
    return {
        name: each.highest for name, each in found.features.items() if each.highest > each.level
    }


def _row(name: str, each: FeatureDescription) -> dict[str, Any]:
    by_span: dict[tuple[int, int], list[int]] = {}
    for broker, span in each.supported.items():
        by_span.setdefault(span, []).append(broker)
    brokers = "; ".join(
        f"{_listed(ids)}: {low}-{high}" for (low, high), ids in sorted(by_span.items())
    )
    return {"feature": name, "level": each.level, "possible": each.highest, "brokers": brokers}


def _listed(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))
