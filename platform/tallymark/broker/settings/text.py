"""Parses and prints the settings of a broker, by Kafka's names: for files, options and logs."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_types import shown
from tallymark.broker.settings.names import OTHER_NAMES, is_secret, kafka_name
from tallymark.deployment.secret_text import resolve
from tallymark.errors import UserError

_KRAFT: Final = ("process.roles", "controller.quorum.", "controller.listener.", "metadata.log.")


def parse(values: Mapping[str, Any]) -> BrokerSettings:
    """Settings from a mapping of Kafka's names (or field names) to text, numbers or booleans.

    Raises a UserError that names each wrong setting, and for an unknown one the nearest name.
    """
    known = {kafka_name(field): field for field in BrokerSettings.model_fields}
    found: dict[str, Any] = {}
    for given, value in values.items():
        name = kafka_name(given)
        name = OTHER_NAMES.get(name, name)
        if name not in known:
            raise _unknown(given, sorted(known))
        if name == "log.dirs":
            value = _paths(value)
        elif isinstance(value, str) and is_secret(known[name]):
            value = resolve(value, name)
        found[known[name]] = value
    try:
        return BrokerSettings.model_validate(found)
    except ValidationError as error:
        wrong = "; ".join(
            f"{kafka_name(str(item['loc'][0]))}={_shown_value(item)}: {item['msg']}"
            if item["loc"]
            else item["msg"].removeprefix("Value error, ")
            for item in error.errors()
        )
        raise UserError(
            f"broker settings: {wrong}", "see tallymark broker --help-settings"
        ) from error


def _shown_value(item: Any) -> str:
    """The wrong value, unless it is a secret."""
    return "(hidden)" if is_secret(str(item["loc"][0])) else repr(item["input"])


def _unknown(name: str, known: list[str]) -> UserError:
    if name.lower().endswith("sasl.jaas.config"):
        return UserError(
            f"{name!r} is not read",
            "write inter.broker.user and inter.broker.password; users of clients are those of "
            "tallymark users",
        )
    if kafka_name(name).startswith(_KRAFT):
        return UserError(
            f"{name!r} is one of KRaft, which brokers here do not use",
            "take these names out of the file, and write zookeeper.connect, or "
            "enable.zookeeper=false for a broker that is a cluster of its own",
        )
    near = difflib.get_close_matches(kafka_name(name), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return UserError(
        f"there is no broker setting {name!r}", f"{hint}tallymark broker --help-settings lists all"
    )


def _paths(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(Path(part.strip()) for part in value.split(",") if part.strip())
    return (value,) if isinstance(value, Path) else value


def reference() -> str:
    """Every setting with its default and description: ``tallymark broker --help-settings``."""
    blocks: list[str] = []
    for field, info in BrokerSettings.model_fields.items():
        text = " ".join((info.description or "").replace("``", "").split())
        blocks.append(f"{kafka_name(field)} = {_shown(info.default)}\n    {text}")
    return "\n\n".join(blocks) + "\n"


def _shown(value: Any) -> str:
    return shown(value) or '""'


def log_effective(settings: BrokerSettings, log: logging.Logger) -> None:
    """One line with every setting that differs from its default."""
    changed = settings.model_dump(exclude_defaults=True)
    text = " ".join(
        f"{kafka_name(name)}={'(hidden)' if is_secret(name) else _shown(value)}"
        for name, value in changed.items()
    )
    log.info("settings: %s", text or "all defaults")
