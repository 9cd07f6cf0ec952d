"""What becomes of a topic's configs when somebody alters them. Pure.

The result is always the whole set of the topic's own configs, which then replaces the old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from tallymark.broker.config_types import ConfigType, shown, split
from tallymark.broker.settings import BrokerSettings
from tallymark.broker.topic_rules import log_config, rule_of
from tallymark.errors import CODES, KafkaError


class AlterOp(IntEnum):
    """``config_operation`` of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def replaced(settings: BrokerSettings, configs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """AlterConfigs: the topic has these configs and no others.

    Raises INVALID_REQUEST for a name twice or a missing value, INVALID_CONFIG for a wrong one.
    """
    once([name for name, _ in configs])
    values = {name: _present(name, value) for name, value in configs}
    log_config(settings, values)
    return values


def changed(
    settings: BrokerSettings,
    current: Mapping[str, str],
    changes: Sequence[tuple[str, int, str | None]],
) -> dict[str, str]:
    """IncrementalAlterConfigs: ``current`` after the changes ``(name, operation, value)``.

    Lists are appended to and subtracted from as they are in force, be it by the broker's setting. A
    config that this broker does not know can be deleted, since another kind of broker may have
    stored it. Raises as :func:`replaced`, and INVALID_CONFIG for an operation that the config's
    type does not have.
    """
    once([name for name, _, _ in changes])
    result = dict(current)
    for name, operation, value in changes:
        if operation == AlterOp.SET:
            result[name] = _present(name, value)
        elif operation == AlterOp.DELETE:
            if name not in current:
                rule_of(name)
            result.pop(name, None)
        elif operation in (AlterOp.APPEND, AlterOp.SUBTRACT):
            words = split(result.get(name, rule_of(name).inherited(settings)))
            result[name] = shown(_list_changed(name, operation, words, _present(name, value)))
        else:
            raise KafkaError(CODES["INVALID_REQUEST"], f"{name[:80]}: operation {operation}")
    touched = {name for name, _, _ in changes}
    # What is strange and was there before does no harm; what comes now must be right.
    log_config(settings, {name: result[name] for name in result if name in touched})
    return result


def once(names: Iterable[str]) -> None:
    """Raise INVALID_REQUEST where a config is named twice."""
    twice = [name[:80] for name, count in Counter(names).items() if count > 1]
    if twice:
        raise KafkaError(CODES["INVALID_REQUEST"], f"named twice: {', '.join(twice[:5])}")


def _present(name: str, value: str | None) -> str:
    if value is None:
        raise KafkaError(CODES["INVALID_REQUEST"], f"{name[:80]} has no value")
    return value.strip()


def _list_changed(name: str, operation: int, words: Sequence[str], value: str) -> list[str]:
    if rule_of(name).type is not ConfigType.LIST:
        raise KafkaError(CODES["INVALID_CONFIG"], f"{name} is not a list")
    given = split(value)
    if operation == AlterOp.SUBTRACT:
        return [word for word in words if word not in given]
    return [*words, *(word for word in given if word not in words)]
