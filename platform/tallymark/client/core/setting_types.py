"""Settings of the wrong kind are refused by name, where they are given."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from tallymark.errors import UserError

_CALLED = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}
Kinds = tuple[type, ...]
NAMES_OF_OTHERS: Final = {
    # of the Kafka 0.7 producer
    "queue_time": "linger_ms",
    "queue_buffering_max_ms": "linger_ms",
    "queue_size": "buffer_memory (in bytes)",
    "queue_enqueue_timeout_ms": "max_block_ms and on_buffer_full",
    "producer_type": "nothing: send() never waits for the broker, send().result() does",
    "compression_codec": "compression_type",
    "serializer_class": "value_encoder",
    "event_handler_class": "event_handler",
    "callback_handler_class": "interceptors",
    "partitioner_class": "partitioner",
    "zk_connect": "zookeeper_connect",
    "broker_list": "bootstrap_servers",
    # of today's clients
    "metadata_broker_list": "bootstrap_servers",
    "value_serializer": "value_encoder",
    "key_serializer": "key_encoder",
    "max_in_flight_requests_per_connection": "max_in_flight",
    "retries": "delivery_timeout_ms, which bounds them",
    "request_required_acks": "acks",
    "retry_backoff_max_ms": "retry_backoff_ms",
}
"""What is called otherwise here, for the error that says so."""


def check_kinds(owner: str, settings: Any) -> None:
    """Compare the fields of a dataclass that are numbers, texts or flags with their annotations.
    UserError names the first of another kind: a "30" for a number would fail far from here."""
    for name, kinds in _plain_fields(type(settings)).items():
        value = getattr(settings, name)
        if not _fits(name, value, kinds):
            wanted = " or ".join(_CALLED[kind] for kind in kinds if kind in _CALLED)
            or_none = ", or None" if types.NoneType in kinds else ""
            raise UserError(
                f"{owner}: {name}={value!r} is not possible", f"it must be {wanted}{or_none}"
            )


def check_callable(owner: str, **given: Callable[..., Any] | None) -> None:
    """Refuse what is given as a function and cannot be called."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise UserError(
                f"{owner}: {name}={value!r} is not possible", "it must be a function, or left out"
            )


def _fits(name: str, value: object, kinds: Kinds) -> bool:
    if isinstance(value, bool):  # which Python takes for an int
        return bool in kinds
    either = (float in kinds or int in kinds) and (float in kinds or name.endswith("_ms"))
    return isinstance(value, kinds) or (either and isinstance(value, (int, float)))


def _plain_fields(kind: type[Any]) -> dict[str, Kinds]:
    """The fields that are nothing but numbers, texts, flags and None."""
    fields: dict[str, Kinds] = {}
    for name, hint in get_type_hints(kind).items():
        union = get_origin(hint) in (Union, types.UnionType)
        kinds = get_args(hint) if union else (hint,)
        if all(one in _CALLED or one is types.NoneType for one in kinds):
            fields[name] = kinds
    return fields


def unknown_keyword(
    name: str, known: Iterable[str], owner: str, others: Mapping[str, str] | None = None
) -> TypeError:
    """The error for a keyword of ``owner`` that is none, with the one that was probably meant.
    ``others``: names that other clients have for it, and what it is here."""
    plain = name.replace(".", "_").replace("-", "_").lower()
    if others and plain in others:
        return TypeError(f"{owner} has no setting {name!r}: it is {others[plain]} here")
    near = difflib.get_close_matches(plain, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return TypeError(f"{owner} has no setting {name!r}{hint}")
