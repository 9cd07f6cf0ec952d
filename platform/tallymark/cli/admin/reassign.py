"""``tallymark reassign``: move replicas to other brokers, see how far they are, and cancel.

A plan is a file in the format of Apache Kafka's ``kafka-reassign-partitions``::

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.move_limits import in_motion, lifted, limit, limited_topics
from tallymark.client.admin.moves import Move
from tallymark.client.admin.results import Results
from tallymark.errors import TallymarkError, UserError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.rebalancing import rebalanced
from tallymark.replication.throttle import MovingReplicas
from tallymark.shell.absent import described_topics
from tallymark.shell.confirm import confirmed, destructive_options
from tallymark.shell.counted import counted
from tallymark.shell.output import FAILED, PARTLY, end, json_option, print_line, show
from tallymark.shell.target import cluster_options, take_target

Plan = Mapping[TopicPartition, Sequence[int]]
_COLUMNS: Final = ("topic", "partition", "replicas", "adding", "removing")
COMPLETE: Final = "complete"
_MOST_BYTES: Final = 64 * 1024 * 1024


@click.group("reassign")
def command() -> None:
    """Move replicas to other brokers."""


@command.command("plan")
@click.option("-t", "--topic", "topics", multiple=True, metavar="NAME", help="Default: all topics.")
@click.option("--to", "brokers", metavar="1,2,...", help="Brokers to use. Default: all that live.")
@click.option("--without", metavar="ID,...", help="Brokers to empty.")
@click.option("--even", is_flag=True, help="Also move replicas from brokers that have more.")
@click.option(
    "--replicas",
    type=click.IntRange(1),
    metavar="N",
    help="How many replicas each partition is to have. Default: as many as it has.",
)
@cluster_options
def plan(
    topics: tuple[str, ...],
    brokers: str | None,
    without: str | None,
    even: bool,
    replicas: int | None,
    **options: Any,
) -> None:
    """Print a plan that moves as few replicas as possible. Nothing is changed."""
    with Admin(**take_target(options).client) as admin:
        found = planned(
            admin,
            topics,
            _ids(brokers, "--to") if brokers else None,
            _ids(without, "--without") if without else (),
            even=even,
            factor=replicas,
        )
    print_line(json.dumps(_document(found)))
    click.echo(f"{counted(len(found), 'partition')} would move; save this, and apply it", err=True)


@command.command("apply")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="BYTES/S",
    help="Copy so many bytes per second at most, at each broker; reassign verify ends that.",
)
@destructive_options
@cluster_options
def apply(file: Any, throttle: int | None, dry_run: bool, yes: bool, **options: Any) -> None:
    """Begin the moves of the plan in FILE (- is standard input). They go on in the background."""
    moves = read_plan(file.read(_MOST_BYTES + 1))
    what = f"move {counted(len(moves), 'partition')}"
    if throttle is not None:
        what += f" at {throttle} bytes per second"
    begin(moves, what, options, dry_run=dry_run, yes=yes, throttle=throttle)


@command.command("throttle")
@click.argument("rate", type=click.IntRange(min=1), required=False, metavar="BYTES/S")
@click.option("--remove", is_flag=True, help="Remove all limits of moves.")
@cluster_options
def throttle(rate: int | None, remove: bool, **options: Any) -> None:
    """Limit the moves that are under way to BYTES/S at each broker, or with --remove lift that."""
    if remove is (rate is not None):
        raise UserError("a rate is expected, or --remove", "tallymark reassign throttle 10000000")
    with Admin(**take_target(options).client) as admin:
        if remove:
            print_line("limits removed" if lifted(admin) else "there is no limit")
            return
        moving = admin.moving_partitions()
        if not moving:
            print_line("nothing moves")
            return
        assert rate is not None
        _limit(admin, in_motion(moving), rate)
    print_line(f"{counted(len(moving), 'move')}: {rate} bytes per second at each broker")


@command.command("verify")
@click.argument("file", type=click.File("rb"))
@click.option("--preserve-throttles", is_flag=True, help="Leave limits as they are.")
@json_option
@cluster_options
def verify(file: Any, preserve_throttles: bool, as_json: bool, **options: Any) -> None:
    """Print how far each partition of the plan in FILE is. When none of them moves any more, limits
    are removed. Exits with 2, or 1, where some, or all, are not there yet."""
    moves = read_plan(file.read(_MOST_BYTES + 1))
    with Admin(**take_target(options).client) as admin:
        moving = admin.moving_partitions()
        rows = _states(admin, moves, moving)
        show(rows, ("topic", "partition", "replicas", "state"), as_json)
        if not (moving or preserve_throttles) and lifted(admin):
            click.echo("nothing moves any more: limits removed", err=True)
    done = sum(row["state"] == COMPLETE for row in rows)
    if done < len(rows):
        raise SystemExit(PARTLY if done else FAILED)


@command.command("status")
@json_option
@cluster_options
def status(as_json: bool, **options: Any) -> None:
    """Print the partitions that move now."""
    with Admin(**take_target(options).client) as admin:
        moving = admin.moving_partitions()
        limited = [] if moving else limited_topics(admin)
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": list(move.target),
            "adding": list(move.adding),
            "removing": list(move.removing),
        }
        for (topic, partition), move in sorted(moving.items())
    ]
    show(rows, _COLUMNS, as_json)
    if limited and not rows:
        told = f"{counted(len(limited), 'topic')} still limited"
        click.echo(f"{told}: tallymark reassign throttle --remove", err=True)
    end(len(rows), [])


@command.command("cancel")
@click.option("-t", "--topic", "topics", multiple=True, metavar="NAME", help="Default: all topics.")
@destructive_options
@cluster_options
def cancel(topics: tuple[str, ...], dry_run: bool, yes: bool, **options: Any) -> None:
    """Cancel moves: partitions go back to the replicas that they had before. When nothing moves any
    more, limits are removed."""
    with Admin(**take_target(options).client) as admin:
        moving = [key for key in admin.moving_partitions() if not topics or key[0] in topics]
        if not moving:
            print_line("nothing moves")
        elif confirmed(f"cancel {counted(len(moving), 'move')}", dry_run=dry_run, yes=yes):
            found = admin.move_partitions(dict.fromkeys(moving, None))
            if not admin.moving_partitions():
                lifted(admin)
            _report(found, "cancelled")


def begin(
    moves: Plan,
    what: str,
    options: Any,
    *,
    dry_run: bool,
    yes: bool,
    throttle: int | None = None,
) -> None:
    """Begin moves after the person has agreed to ``what``, and print what became of each;
    ``throttle``: they copy so many bytes per second at most, at each broker."""
    if not moves:
        print_line("nothing is to be moved")
    elif confirmed(what, dry_run=dry_run, yes=yes):
        with Admin(**take_target(options).client) as admin:
            if throttle is not None:
                _limit(admin, _to_move(admin, moves), throttle)
            _report(admin.move_partitions(moves), "moves")


def _limit(admin: Admin, moves: Mapping[TopicPartition, MovingReplicas], rate: int) -> None:
    for away in limit(admin, moves, rate):
        click.echo(f"broker {away} is away: its rate is not set", err=True)


def _to_move(admin: Admin, moves: Plan) -> dict[TopicPartition, MovingReplicas]:
    """These moves and those under way, which share the lists of their topics."""
    found = in_motion(admin.moving_partitions())
    for key, replicas in _replicas_of(admin, moves).items():
        before = found[key].current if key in found else replicas
        found[key] = MovingReplicas(before, moves[key])
    return found


def _states(
    admin: Admin, plan: Plan, moving: Mapping[TopicPartition, Move]
) -> list[dict[str, Any]]:
    """A row for each partition of a plan: the replicas that it has, and how far it is."""
    there = _replicas_of(admin, plan)
    rows: list[dict[str, Any]] = []
    for key, target in sorted(plan.items()):
        replicas = there.get(key)
        if replicas is None:
            state = "no such partition"
        elif key in moving:
            state = "moves"
        else:
            state = COMPLETE if list(replicas) == list(target) else "elsewhere"
        names = {"topic": key[0], "partition": key[1]}
        rows.append({**names, "replicas": list(replicas or ()), "state": state})
    return rows


def _replicas_of(admin: Admin, plan: Plan) -> dict[TopicPartition, Sequence[int]]:
    """The replicas that the partitions of a plan have now; without those that do not exist."""
    described = admin.describe_topics(sorted({topic for topic, _ in plan}))
    return {
        (topic.name, part.partition): part.replicas
        for topic in described.done.values()
        for part in topic.partitions
        if (topic.name, part.partition) in plan
    }


def planned(
    admin: Admin,
    topics: Sequence[str],
    brokers: Sequence[int] | None,
    without: Sequence[int],
    *,
    even: bool = False,
    factor: int | None = None,
) -> Plan:
    """The moves that bring the topics (none: all) to these brokers (None: all that live), with
    ``factor`` replicas each (None: as many as they have)."""
    described = described_topics(admin, topics)
    live = {one.id: one.rack for one in admin.describe_cluster().brokers}
    strange = sorted({*(brokers or ()), *without} - set(live))
    if brokers is not None and strange:
        raise UserError(f"no broker {strange[0]} is registered", f"live brokers: {sorted(live)}")
    wanted = set(live if brokers is None else brokers) - set(without)
    if not wanted:
        raise UserError("no broker is left to move to", "name others with --to")
    current = {
        (topic.name, part.partition): part.replicas
        for topic in described.values()
        for part in topic.partitions
    }
    racks = {one: live[one] for one in wanted if live[one]}
    known = racks if len(racks) == len(wanted) else {}
    return rebalanced(current, wanted, known, even=even, factor=factor)


def read_plan(content: bytes) -> Plan:
    """The moves in a plan. UserError where it is none."""
    problem = "the plan is larger than 64 MiB" if len(content) > _MOST_BYTES else ""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    try:
        for one in json.loads(content)["partitions"] if not problem else ():
            key = (one["topic"], one["partition"])
            replicas = tuple(one["replicas"])
            if not isinstance(key[0], str) or not all(
                type(each) is int and each >= 0 for each in (key[1], *replicas)
            ):
                problem = f"{key[0]}-{key[1]}: numbers of partitions and brokers are expected"
            elif key in found:
                problem = f"{key[0]}-{key[1]} is in it twice"
            found[key] = replicas
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise UserError(
            f"this is no plan: {problem[:200]}",
            'write {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]},'
            " or print one with tallymark reassign plan",
        )
    return found


def _document(plan: Plan) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in sorted(plan.items())
        ],
    }


def _report(results: Results[TopicPartition, None], verb: str) -> None:
    for topic, partition in sorted(results):
        print_line(f"{topic}-{partition}: {verb}")
    errors: list[TallymarkError] = list(results.errors.values())
    end(len(results), errors)


def _ids(text: str, option: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise UserError(f"{option} {text!r} is no list of broker ids", f"{option} 1,2,3")
    return [int(part) for part in parts]
