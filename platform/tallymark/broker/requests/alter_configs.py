"""Carries out AlterConfigs and IncrementalAlterConfigs. They differ only in how the new configs of
a resource are computed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tallymark.broker.requests.config_resources import (
    Resource,
    ResourceKind,
    check_group,
    check_own_broker,
    named_twice,
    topic_of,
)
from tallymark.broker.requests.registry import Call
from tallymark.broker.settings.broker_loggers import alter_loggers
from tallymark.broker.settings.config_alter import Change, changed, once, replaced
from tallymark.broker.settings.dynamic import DEFAULT_NAME, changed_broker, replaced_broker
from tallymark.broker.settings.group_configs import changed_group, replaced_group
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation


@dataclass(frozen=True, slots=True)
class Alteration:
    """A request's changes to one resource. ``replaces``: the resource gets these configs and no
    others (the operations are ignored then)."""

    kind: int
    name: str
    changes: Sequence[Change]
    replaces: bool


async def alter(
    state: BrokerState, call: Call, wanted: Sequence[Alteration], validate_only: bool
) -> list[tuple[int, str | None]]:
    """Alter one resource after the other; returns an error code and text for each, 0 and None where
    it succeeded.

    Changes have taken effect on this broker when this returns. Within this broker changes of one
    resource are made one after the other, so none is lost.
    """
    twice = named_twice((item.kind, item.name) for item in wanted)
    outcomes: list[tuple[int, str | None]] = []
    async for item in in_turns(wanted):
        try:
            if (item.kind, item.name) in twice:
                raise KafkaError(CODES["INVALID_REQUEST"], f"{item.name[:80]!r} is named twice")
            resource = Resource.of(item.kind, item.name)
            resource.require(state, call, Operation.ALTER_CONFIGS)
            if item.replaces:
                once(name for name, _, _ in item.changes)
            async with state.altering:
                await _ALTER[resource.kind](state, item, validate_only)
            outcomes.append((0, None))
        except KafkaError as error:
            outcomes.append((error.code, str(error)))
    return outcomes


async def _topic(state: BrokerState, item: Alteration, validate_only: bool) -> None:
    current = topic_of(state, item.name).configs
    if item.replaces:
        after = replaced(state.settings, _values(item))
    else:
        after = changed(state.settings, current, item.changes)
    if not validate_only and after != dict(current):
        await state.cluster.alter_topic_configs(item.name, after)


async def _broker(state: BrokerState, item: Alteration, validate_only: bool) -> None:
    if item.name:
        check_own_broker(state, item.name)
    name = item.name or DEFAULT_NAME
    current = state.security.records.brokers.get(name, {})
    if item.replaces:
        after = replaced_broker(_values(item))
    else:
        after = changed_broker(state.settings, current, item.changes)
    if not validate_only and after != dict(current):
        change = _difference(current, after)
        await state.security.change(partial(state.security.store.alter_broker, name, change))


async def _group(state: BrokerState, item: Alteration, validate_only: bool) -> None:
    check_group(item.name)
    current = state.security.records.groups.get(item.name, {})
    after = replaced_group(_values(item)) if item.replaces else changed_group(current, item.changes)
    if not validate_only and after != dict(current):
        change = _difference(current, after)
        await state.security.change(partial(state.security.store.alter_group, item.name, change))


async def _loggers(state: BrokerState, item: Alteration, validate_only: bool) -> None:
    check_own_broker(state, item.name)
    if item.replaces:
        raise KafkaError(
            CODES["INVALID_REQUEST"], "levels of loggers change with IncrementalAlterConfigs only"
        )
    alter_loggers(item.changes, validate_only)


_ALTER: Final[Mapping[ResourceKind, Callable[[BrokerState, Alteration, bool], Awaitable[None]]]] = {
    ResourceKind.TOPIC: _topic,
    ResourceKind.BROKER: _broker,
    ResourceKind.BROKER_LOGGER: _loggers,
    ResourceKind.GROUP: _group,
}


def _values(item: Alteration) -> list[tuple[str, str | None]]:
    return [(name, value) for name, _, value in item.changes]


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    gone: dict[str, str | None] = {name: None for name in before if name not in after}
    return gone | {name: text for name, text in after.items() if before.get(name) != text}
