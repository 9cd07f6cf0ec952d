"""Computes the new configs of a resource from a request that alters them. Pure.

The result is always the whole set of the resource's own configs, which then replaces the old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TypeAlias

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_types import ConfigType, shown, split
from tallymark.broker.settings.topic_configs import log_config, rule_of
from tallymark.errors import CODES, KafkaError


class AlterOp(IntEnum):
    """``config_operation`` of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Change: TypeAlias = tuple[str, int, str | None]
"""(name, operation, value) of IncrementalAlterConfigs."""


def replaced(settings: BrokerSettings, configs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """AlterConfigs: the topic has these configs and no others.

    Raises INVALID_REQUEST for a name twice or a missing value, INVALID_CONFIG for a wrong one.
    """
    values = {name: present(name, value) for name, value in configs}
    log_config(settings, values)
    return values


def changed(
    settings: BrokerSettings, current: Mapping[str, str], changes: Sequence[Change]
) -> dict[str, str]:
    """IncrementalAlterConfigs: ``current`` after the changes.

    APPEND and SUBTRACT start from the list in force, even if it comes from the broker's setting. A
    config that this broker does not know can be deleted, since another kind of broker may have
    stored it. Raises as :func:`replaced`, and INVALID_CONFIG for an operation that the config's
    type does not have.
    """

    def is_list(name: str) -> bool:
        return rule_of(name).type is ConfigType.LIST

    result = edited(current, changes, is_list, lambda name: rule_of(name).inherited(settings))
    touched = {name for name, _, _ in changes}
    # Unknown configs that were stored before do no harm; those of this request must be valid.
    log_config(settings, {name: result[name] for name in result if name in touched})
    return result


def edited(
    current: Mapping[str, str],
    changes: Sequence[Change],
    is_list: Callable[[str], bool],
    inherited: Callable[[str], str],
) -> dict[str, str]:
    """``current`` after the changes, for any kind of resource. ``is_list`` raises for an unknown
    name; ``inherited`` returns the value in force where a list is not set."""
    once(name for name, _, _ in changes)
    result = dict(current)
    for name, operation, value in changes:
        if operation == AlterOp.SET:
            result[name] = present(name, value)
        elif operation == AlterOp.DELETE:
            if name not in current:
                is_list(name)
            result.pop(name, None)
        elif operation in (AlterOp.APPEND, AlterOp.SUBTRACT):
            if not is_list(name):
                raise KafkaError(CODES["INVALID_CONFIG"], f"{name} is not a list")
            words = split(result.get(name, inherited(name)))
            result[name] = shown(_list_changed(operation, words, present(name, value)))
        else:
            raise KafkaError(CODES["INVALID_REQUEST"], f"{name[:80]}: operation {operation}")
    return result


def once(names: Iterable[str]) -> None:
    """Raise INVALID_REQUEST where a config is named twice."""
    twice = [name[:80] for name, count in Counter(names).items() if count > 1]
    if twice:
        raise KafkaError(CODES["INVALID_REQUEST"], f"named twice: {', '.join(twice[:5])}")


def present(name: str, value: str | None) -> str:
    """The value of a config. INVALID_REQUEST where there is none."""
    if value is None:
        raise KafkaError(CODES["INVALID_REQUEST"], f"{name[:80]} has no value")
    return value.strip()


def _list_changed(operation: int, words: Sequence[str], value: str) -> list[str]:
    given = split(value)
    if operation == AlterOp.SUBTRACT:
        return [word for word in words if word not in given]
    return [*words, *(word for word in given if word not in words)]
