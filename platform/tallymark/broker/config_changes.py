"""Carrying out AlterConfigs and IncrementalAlterConfigs, which differ in how they get from a
topic's configs to the new ones (:mod:`tallymark.broker.config_alter`)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tallymark.broker.authorizer import Operation
from tallymark.broker.config_resources import Resource, check_own_broker, named_twice, topic_of
from tallymark.broker.handlers import Call
from tallymark.broker.settings import BrokerSettings, kafka_name
from tallymark.broker.state import BrokerState
from tallymark.broker.turns import in_turns
from tallymark.errors import CODES, KafkaError


@dataclass(frozen=True, slots=True)
class Alteration:
    """What a request wants of one resource: ``after`` makes the topic's new configs of the old
    ones, or raises KafkaError; ``names`` are the configs it speaks of."""

    kind: int
    name: str
    names: Sequence[str]
    after: Callable[[Mapping[str, str]], dict[str, str]]


async def alter(
    state: BrokerState, call: Call, wanted: Sequence[Alteration], validate_only: bool
) -> list[tuple[int, str | None]]:
    """One after the other; an error code and text for each, 0 and None where it is done.

    A topic's change is in force here when this returns. Within this broker changes of one topic
    follow each other, so none is lost.
    """
    twice = named_twice((item.kind, item.name) for item in wanted)
    outcomes: list[tuple[int, str | None]] = []
    async for item in in_turns(wanted):
        try:
            if (item.kind, item.name) in twice:
                raise KafkaError(CODES["INVALID_REQUEST"], f"{item.name[:80]!r} is named twice")
            await _alter(state, call, item, validate_only)
            outcomes.append((0, None))
        except KafkaError as error:
            outcomes.append((error.code, str(error)))
    return outcomes


async def _alter(state: BrokerState, call: Call, item: Alteration, validate_only: bool) -> None:
    resource = Resource.of(item.kind, item.name)
    resource.require(state, call, Operation.ALTER_CONFIGS)
    if not resource.is_topic:
        if resource.name:
            check_own_broker(state, resource.name)
        _refuse_broker_configs(item.names)
        return
    async with state.altering:
        current = topic_of(state, resource.name).configs
        after = item.after(current)
        if not validate_only and after != dict(current):
            await state.cluster.alter_topic_configs(resource.name, after)


def _refuse_broker_configs(names: Sequence[str]) -> None:
    known = [kafka_name(field) for field in BrokerSettings.model_fields]
    for name in names:
        if name in known:
            raise KafkaError(
                CODES["INVALID_REQUEST"],
                f"{name} cannot be changed at run time: change the broker's settings, restart it",
            )
        near = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.5)
        hint = f", did you mean {near[0]}?" if near else ""
        raise KafkaError(CODES["INVALID_CONFIG"], f"unknown broker config {name[:80]!r}{hint}")
