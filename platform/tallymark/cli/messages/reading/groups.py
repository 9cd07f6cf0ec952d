"""Reading as one consumer of a group, coordinated by the brokers or by ZooKeeper."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import click

from tallymark.cli.messages.reading.reader import Stopped
from tallymark.cli.messages.reading.records import Shown
from tallymark.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])

_POLL_S = 0.25
_AT_ONCE = 500
_GROUP = "Read as one of this group, coordinated by the brokers; it remembers what was read."
_ZOOKEEPER = "Coordinate --group through this ZooKeeper instead."
_MEANS_NOTHING = ("offset", "from_time", "to_time", "until_end", "partitions")


def group_options(function: F) -> F:
    """``--group`` and ``--zookeeper``."""
    for option in (
        click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help=_ZOOKEEPER),
        click.option("-g", "--group", metavar="NAME", help=_GROUP),
    ):
        function = option(function)
    return function


def take_group(options: dict[str, Any]) -> dict[str, Any] | None:
    """The connector's arguments, taken out of ``options``; None when no group is asked for. A new
    group begins with what comes from now on, or ``--from-beginning``."""
    group, zookeeper = options.pop("group"), options.pop("zookeeper")
    if group is None:
        if zookeeper is not None:
            raise UserError("--zookeeper means nothing without --group", "name a group")
        return None
    for name in _MEANS_NOTHING:
        if options[name]:
            option = name.replace("_", "-")
            raise UserError(
                f"--{option} means nothing with --group", "a group goes on where it stands"
            )
    reset = "smallest" if options["from_beginning"] else "largest"
    settings = {
        "group": group,
        "auto_offset_reset": reset,
        "isolation": options["isolation"],
    }
    if zookeeper is None:
        return settings | {"coordinator": "brokers"}
    return settings | {"coordinator": "zookeeper", "zookeeper_connect": zookeeper}


def read_as_group(
    settings: dict[str, Any],
    topics: Sequence[str],
    pattern: str | None,
    limit: int | None,
    stop: Stopped,
) -> Generator[Shown | None, None, None]:
    """Messages as they come, up to ``limit``; None when there was a pause. What was given out is
    committed at the end, and now and then."""
    from tallymark.client.connector.connector import (
        ConsumerConnector,  # it brings ZooKeeper's client
    )

    with ConsumerConnector(**settings) as connector:
        if pattern is None and len(topics) == 1:
            (stream,) = connector.create_message_streams({topics[0]: 1})[topics[0]]
        else:  # one stream of them all
            expression = pattern or "|".join(map(re.escape, topics))
            (stream,) = connector.create_message_streams_by_filter(expression, 1)
        count = 0
        while not stop.is_set() and count != limit:
            room = _AT_ONCE if limit is None else min(_AT_ONCE, limit - count)
            messages = stream.poll(_POLL_S, room)
            count += len(messages)
            for message in messages:
                yield Shown(*message[:7])
            yield None
