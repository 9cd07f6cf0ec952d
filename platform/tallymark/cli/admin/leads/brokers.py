"""``tallymark brokers drain``: empty a broker, of leads or of all, before it is stopped or removed.

What is begun is stored in the cluster and goes on without this command: interrupted, it can be run
again, and does what is left.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from tallymark.cli.admin.leads.draining import Held, LeadsAway, leads_away, replicas_away
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.moves import Move
from tallymark.errors import TallymarkError, UserError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.shell.confirm import confirmed, destructive_options
from tallymark.shell.counted import counted
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.output import FAILED, PARTLY, end, print_line
from tallymark.shell.progress import progress
from tallymark.shell.target import cluster_options, take_target

_LOOK_SECONDS: Final = 0.5
_LEADS_SECONDS: Final = 60.0
"""Leads that have not moved after so long stay."""
_GOES_ON = "what has begun goes on in the cluster; run this again for the rest"


class Seen(NamedTuple):
    """The cluster now: live brokers with their racks, partitions, and moves under way."""

    live: Mapping[int, str]
    partitions: Mapping[TopicPartition, Held]
    moving: Mapping[TopicPartition, Move]

    def led_by(self, broker: int) -> list[TopicPartition]:
        return [key for key, held in self.partitions.items() if held.leader == broker]

    def held_by(self, broker: int) -> list[TopicPartition]:
        return [key for key, held in self.partitions.items() if broker in held.replicas]


@click.group("brokers", cls=NamedGroup)
def command() -> None:
    """Empty brokers before they are stopped or removed."""


@command.command("drain")
@click.argument("broker", type=click.IntRange(0), metavar="ID")
@click.option("--replicas", is_flag=True, help="Also move its replicas to other brokers.")
@click.option(
    "--back",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a plan to FILE that undoes it (reassign apply FILE, then elect preferred).",
)
@destructive_options
@cluster_options
def drain(
    broker: int, replicas: bool, back: Path | None, dry_run: bool, yes: bool, **options: Any
) -> None:
    """Move the leads of broker ID to other brokers, and keep them there.

    The broker goes on to follow; with --replicas it holds nothing when this ends. May be
    interrupted, and run again.
    """
    with Admin(**take_target(options).client) as admin:
        seen = look(admin)
        _check(seen, broker)
        held = seen.held_by(broker)
        if not (held if replicas else seen.led_by(broker)) and not _left(seen, broker).orders:
            return print_line(f"broker {broker} {'holds' if replicas else 'leads'} nothing")
        if replicas:
            _moves(seen, broker)  # refused before anything is asked
            what = f"move the replicas of {counted(len(held), 'partition')} from broker {broker}"
        else:
            leads = counted(len(seen.led_by(broker)), "lead")
            what = f"move {leads} from broker {broker}, and make it the last choice of all"
        if not confirmed(what, dry_run=dry_run, yes=yes):
            return None
        if back is not None:
            _save(back, seen, broker)
        try:
            _drain_replicas(admin, broker) if replicas else _drain_leads(admin, broker)
        except KeyboardInterrupt:
            click.echo(f"interrupted: {_GOES_ON}", err=True)
            raise


def look(admin: Admin) -> Seen:
    """What is there now."""
    live = {one.id: one.rack for one in admin.describe_cluster().brokers}
    partitions = {
        (topic.name, each.partition): Held(each.leader, each.replicas, each.isr)
        for topic in admin.describe_topics().check().values()
        for each in topic.partitions
    }
    return Seen(live, partitions, admin.moving_partitions())


def _check(seen: Seen, broker: int) -> None:
    known = set(seen.live).union(*(held.replicas for held in seen.partitions.values()))
    if broker not in known:
        raise UserError(
            f"there is no broker {broker}",
            f"live brokers: {', '.join(map(str, sorted(seen.live)))}",
        )
    if not set(seen.live) - {broker}:
        raise UserError(
            f"no other broker than {broker} is there to take over",
            "start another one first; see: tallymark cluster",
        )


def _left(seen: Seen, broker: int) -> LeadsAway:
    return leads_away(seen.partitions, broker, seen.live, seen.moving)


def _moves(seen: Seen, broker: int) -> Mapping[TopicPartition, tuple[int, ...]]:
    targets = {key: move.target for key, move in seen.moving.items()}
    return replicas_away(seen.partitions, broker, seen.live, targets)


def _drain_leads(admin: Admin, broker: int) -> None:
    """Reorder, elect, look: again while something is left that can be done."""
    seen = look(admin)
    total, deadline = len(seen.led_by(broker)), time.monotonic() + _LEADS_SECONDS
    errors = dict[TopicPartition, TallymarkError]()
    with progress(f"broker {broker}", total, quiet=not total) as meter:
        left = _left(seen, broker)
        while (left.orders or left.elections) and time.monotonic() < deadline:
            errors = dict(admin.move_partitions(left.orders).errors)
            errors.update(admin.elect_leaders(left.elections).errors)
            seen = look(admin)
            left = _left(seen, broker)
            meter.tick(_state(total, len(seen.led_by(broker)), "leads"))
            if left.orders or left.elections:
                time.sleep(_LOOK_SECONDS)
    leads = len(seen.led_by(broker))
    print_line(f"broker {broker}: {counted(total - leads, 'lead')} moved, {leads} left")
    for (topic, index), why in sorted(left.stay.items()):
        click.echo(f"{topic}-{index} stays: {why}", err=True)
    end(total - leads, errors if left.orders or left.elections else {})
    if left.stay:
        raise SystemExit(PARTLY if total > leads else FAILED)


def _drain_replicas(admin: Admin, broker: int) -> None:
    """Begin the moves, and wait until the broker holds nothing."""
    seen = look(admin)
    total, refused = len(seen.held_by(broker)), dict[TopicPartition, TallymarkError]()
    with progress(f"broker {broker}", total) as meter:
        while True:
            wanted = {k: v for k, v in _moves(seen, broker).items() if k not in refused}
            if wanted:
                refused |= admin.move_partitions(wanted).errors
            held = [key for key in seen.held_by(broker) if key not in refused]
            if not held:
                break
            meter.tick(_state(total, len(held), "replicas"))
            time.sleep(_LOOK_SECONDS)
            seen = look(admin)
    done = total - len(seen.held_by(broker))
    print_line(f"broker {broker}: {counted(done, 'replica')} moved, {total - done} left")
    end(done, refused)


def _state(total: int, left: int, what: str) -> Callable[[], tuple[int, str]]:
    return lambda: (total - left, f"{left} {what} left")


def _save(path: Path, seen: Seen, broker: int) -> None:
    """The plan that brings everything back. What is there already is of an earlier run, and better:
    it was written before anything moved."""
    rows = [
        {"topic": key[0], "partition": key[1], "replicas": list(seen.partitions[key].replicas)}
        for key in sorted(seen.held_by(broker))
        if key not in seen.moving
    ]
    try:
        with path.open("x", encoding="utf-8") as file:
            json.dump({"version": 1, "partitions": rows}, file)
    except FileExistsError:
        raise UserError(
            f"{path} is there already", "keep it if it is of an earlier run, and leave out --back"
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}", "mend --back") from error
