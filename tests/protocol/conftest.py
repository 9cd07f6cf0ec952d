"""Messages made at random, from their declarations, for every class and version."""

from __future__ import annotations

import importlib
import uuid
import warnings
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import pytest

from tallymark.protocol.messages import RESPONSE_OF
from tallymark.protocol.messages.k01_fetch import CORRUPT_TAG
from tallymark.protocol.schema import (
    Array,
    Bool,
    Fixed,
    Float64,
    Message,
    String,
    Struct,
    Uuid,
    WireField,
    wire_fields,
)

with warnings.catch_warnings():
    # On Python 3.11 kafka-python reads its schemas through a function that is deprecated there.
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("kafka.protocol.admin")

MakeMessage: TypeAlias = Callable[[type[Message], int, int], Any]
Case: TypeAlias = tuple[type[Message], int]

ALL_CASES: list[Case] = [
    (cls, version)
    for pair in RESPONSE_OF.items()
    for cls in pair
    for version in range(cls.valid_versions[0], cls.valid_versions[1] + 1)
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``case`` is each message class in each of its versions."""
    if "case" in metafunc.fixturenames:
        ids = [f"{cls.__name__}-v{version}" for cls, version in ALL_CASES]
        metafunc.parametrize("case", ALL_CASES, ids=ids)


@pytest.fixture(scope="session")
def all_cases() -> list[Case]:
    """Each message class in each of its versions."""
    return ALL_CASES


@pytest.fixture(scope="session")
def make_message() -> MakeMessage:
    """``make_message(cls, version, seed)``: the same seed makes the same message."""
    return lambda cls, version, seed: _struct(cls, version, Random(seed))


@pytest.fixture(scope="session")
def facts() -> Callable[[Any, int], Any]:
    """``facts(message, version)``: what the version carries, as plain dicts, lists and bytes."""
    return _facts


def _struct(cls: type[Struct], version: int, random: Random) -> Any:
    values = {
        field.name: _value(field, version, random)
        for field in wire_fields(cls)
        if field.present(version) and not (field.tag is not None and random.random() < 0.5)
        # Our own: foreign codecs skip it.
        if field.tag != CORRUPT_TAG
    }
    return cls(**values)


def _value(field: WireField, version: int, random: Random) -> Any:
    if field.nullable(version) and random.random() < 0.3:
        return None
    if "error_code" in field.name:
        # Foreign codecs know the error codes by name and refuse others.
        return random.choice((0, 1, 3, 6, 35, 45, 74, -1))
    if field.name.endswith("_ms"):
        # Foreign codecs turn these into times, whose range is smaller.
        return random.choice((0, 1, 30_000, 1_700_000_000))
    return _of_kind(field.kind, version, random)


def _of_kind(kind: Any, version: int, random: Random) -> Any:
    if kind is Bool:
        return random.random() < 0.5
    if kind is Float64:
        return random.random()
    if isinstance(kind, Fixed):
        top = 1 << {"b": 7, "h": 15, "i": 31, "q": 63}[kind.code]
        return random.choice((0, 1, -1, top - 1, -top, random.randrange(-top, top)))
    if kind is Uuid:
        return random.choice((uuid.UUID(int=0), uuid.UUID(int=random.getrandbits(128))))
    if kind is String:
        return "".join(random.choices("abc-_.é€𝄞", k=random.choice((0, 1, 9, 140))))
    if isinstance(kind, Array):
        count = random.choice((0, 1, 2, 3) if isinstance(kind.element, type) else (0, 1, 150))
        return tuple(_of_kind(kind.element, version, random) for _ in range(count))
    if isinstance(kind, type):
        return _struct(kind, version, random)
    return memoryview(random.randbytes(random.choice((0, 1, 127, 128, 300))))


def _facts(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return {
            field.name: _facts(getattr(value, field.name), version)
            for field in wire_fields(type(value))
            if field.present(version)
        }
    if isinstance(value, (list, tuple)):
        return [_facts(item, version) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value
