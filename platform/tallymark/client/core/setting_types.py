"""The settings of a client class: one frozen dataclass for names, defaults and checks.

A class takes them as keyword arguments, ``**options: Unpack[...]`` of a TypedDict with the same
names, and splits them here into its own and those of the security (:func:`split_options`). A wrong
value is refused when it is given, and the error names the setting. A table of :class:`Rule` has
the checks; pydantic would do the same, but its import takes longer than that of the whole client.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from tallymark.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

F = TypeVar("F", bound=Callable[..., None])
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
"""A setting's name in other clients -> its name here, for the error that suggests it."""


class Rule(NamedTuple):
    """A check of a value: ``fits`` returns whether the value is valid, ``hint`` is the error's text
    about what is valid."""

    fits: Callable[[Any], bool]
    hint: str


def at_least(smallest: int, hint: str = "it must be {} or more") -> Rule:
    """A rule for numbers."""
    return Rule(lambda value: value >= smallest, hint.format(smallest))


POSITIVE: Final = Rule(lambda value: value > 0, "it must be more than 0")


def one_of(choices: Collection[str]) -> Rule:
    """A rule for texts: the value must be one of ``choices``."""
    return Rule(lambda value: value in choices, f"it must be one of {', '.join(choices)}")


def check_rules(owner: str, settings: Any, rules: Mapping[str, Rule]) -> None:
    """UserError names the first setting that breaks its rule. None is always valid: the setting was
    not given."""
    for name, rule in rules.items():
        value = getattr(settings, name)
        if value is not None and not rule.fits(value):
            raise impossible(owner, name, value, rule.hint)


def impossible(owner: str, name: str, value: object, hint: str) -> UserError:
    """The error for an invalid value of a setting; ``owner`` may be empty."""
    where = f"{owner}: " if owner else ""
    return UserError(f"{where}{name}={value!r} is not possible", hint)


def shows_options(settings: type[DataclassInstance]) -> Callable[[F], F]:
    """A decorator for a constructor that takes ``**options``: help() and :func:`inspect.signature`
    then show the fields of ``settings``, with their defaults, as keyword arguments."""

    def show(constructor: F) -> F:
        this, options = inspect.signature(constructor).parameters.values()
        own = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty
                if field.default is dataclasses.MISSING
                else field.default,
                annotation=field.type,
            )
            for field in dataclasses.fields(settings)
        ]
        rest = options.replace(name="security", annotation="Unpack[SecuritySettings]")
        signature = inspect.Signature([this, *own, rest], return_annotation="None")
        constructor.__signature__ = signature  # type: ignore[attr-defined] # any function may have one
        return constructor

    return show


def split_options(
    of: type, settings: type[DataclassInstance], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that are fields of ``settings``, and all others. TypeError when an option that
    the class ``of`` requires is missing."""
    own, others = {}, dict(options)
    for field in dataclasses.fields(settings):
        if field.name in others:
            own[field.name] = others.pop(field.name)
        elif field.default is dataclasses.MISSING:
            raise TypeError(
                f"{of.__name__}.__init__() missing 1 required keyword-only argument: {field.name!r}"
            )
    return own, others


def check_kinds(owner: str, settings: Any) -> None:
    """Compare the fields of a dataclass that are numbers, texts or flags with their annotations.
    UserError names the first of another type: a "30" for a number would fail much later, elsewhere.
    """
    for name, kinds in _plain_fields(type(settings)).items():
        value = getattr(settings, name)
        if not _fits(name, value, kinds):
            wanted = " or ".join(_CALLED[kind] for kind in kinds if kind in _CALLED)
            or_none = ", or None" if types.NoneType in kinds else ""
            raise impossible(owner, name, value, f"it must be {wanted}{or_none}")


def check_callable(owner: str, **given: Callable[..., Any] | None) -> None:
    """Refuse a value that is given as a function and cannot be called."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise impossible(owner, name, value, "it must be a function, or left out")


def _fits(name: str, value: object, kinds: Kinds) -> bool:
    if isinstance(value, bool):  # which Python takes for an int
        return bool in kinds
    either = (float in kinds or int in kinds) and (float in kinds or name.endswith("_ms"))
    return isinstance(value, kinds) or (either and isinstance(value, (int, float)))


_known_fields: Final[dict[type[Any], dict[str, Kinds]]] = {}


def _plain_fields(kind: type[Any]) -> dict[str, Kinds]:
    """The fields whose types are only numbers, texts, flags and None."""
    if kind in _known_fields:
        return _known_fields[kind]
    fields: dict[str, Kinds] = {}
    for name, hint in get_type_hints(kind).items():
        union = get_origin(hint) in (Union, types.UnionType)
        kinds = get_args(hint) if union else (hint,)
        if all(one in _CALLED or one is types.NoneType for one in kinds):
            fields[name] = kinds
    return _known_fields.setdefault(kind, fields)


def unknown_keyword(
    name: str, known: Iterable[str], owner: str, others: Mapping[str, str] | None = None
) -> TypeError:
    """The error for a keyword that ``owner`` does not have, with the most similar one that it has.
    ``others``: names of settings in other clients -> their names here."""
    plain = name.replace(".", "_").replace("-", "_").lower()
    if others and plain in others:
        return TypeError(f"{owner} has no setting {name!r}: it is {others[plain]} here")
    near = difflib.get_close_matches(plain, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return TypeError(f"{owner} has no setting {name!r}{hint}")
