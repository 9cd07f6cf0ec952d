"""The loggers of this broker as a resource with configs (KIP-412): the name of a logger is that of
a config, its level the value.

Levels are Kafka's; TRACE logs the same as DEBUG. A logger without a level has that of its parent.
Only the broker's own loggers and ``root`` are described and changed, since others (of libraries)
may log the content of requests. A restart resets every change, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tallymark.broker.settings.config_alter import AlterOp, Change, once, present
from tallymark.errors import CODES, KafkaError

ROOT: Final = "root"
LEVELS: Final[Mapping[str, int]] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG // 2,
}
_OURS: Final = "tallymark"


def levels() -> dict[str, str]:
    """Every logger and its current level, in order of names."""
    return {name: _name(_logger(name).getEffectiveLevel()) for name in sorted(_names())}


def alter_loggers(changes: Sequence[Change], validate_only: bool) -> None:
    """Make all of the changes, or none. Raises INVALID_CONFIG for an unknown logger or level,
    INVALID_REQUEST for an operation that loggers do not have."""
    once(name for name, _, _ in changes)
    known = set(_names())
    wanted = [(name, _wanted(known, change)) for change in changes for name in (change[0],)]
    if not validate_only:
        for name, level in wanted:
            _logger(name).setLevel(level)


def _wanted(known: Iterable[str], change: Change) -> int:
    name, operation, value = change
    if operation not in (AlterOp.SET, AlterOp.DELETE):
        raise KafkaError(CODES["INVALID_REQUEST"], f"{name[:80]}: a level can be set or deleted")
    if name not in known:
        raise KafkaError(CODES["INVALID_CONFIG"], f"there is no logger {name[:80]!r}")
    if operation == AlterOp.DELETE:
        if name == ROOT:
            raise KafkaError(CODES["INVALID_REQUEST"], "the root logger must have a level")
        return logging.NOTSET
    level = LEVELS.get(present(name, value))
    if level is None:
        text = f"{name}: there is no level {str(value)[:80]!r}, there are {', '.join(LEVELS)}"
        raise KafkaError(CODES["INVALID_CONFIG"], text)
    return level


def _names() -> list[str]:
    found = [
        name
        for name, logger in tuple(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and name.partition(".")[0] == _OURS
    ]
    return [ROOT, *found]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _name(level: int) -> str:
    """Kafka's word for a level: the nearest one that is not below it."""
    return next((name for name, value in reversed(list(LEVELS.items())) if level <= value), "FATAL")
