"""Our codec against kafka-python's, which reads Kafka's schemas when it is imported.

For every message and version: it reads the same facts from our bytes, and writes the same bytes
from them.
"""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallymark.protocol.codec import decode, encode
from tallymark.protocol.messages import ApiVersionsResponse
from tallymark.protocol.messages.k01_fetch import CORRUPT_TAG
from tallymark.protocol.schema import Message, Struct, wire_fields

Case = tuple[type[Message], int]


@pytest.fixture(scope="module")
def kafka_classes() -> dict[str, Any]:
    parts = ("admin", "consumer", "metadata", "producer", "sasl")
    modules = [importlib.import_module(f"kafka.protocol.{part}") for part in parts]
    return {name: getattr(module, name) for module in modules for name in dir(module)}


@pytest.mark.soak
@pytest.mark.slow
def test_kafka_python_agrees(
    case: Case,
    make_message: Callable[[type[Message], int, int], Any],
    kafka_classes: dict[str, Any],
) -> None:
    cls, version = case
    kafka_class = kafka_classes[cls.__name__]
    if version < kafka_class.min_version:
        pytest.skip("kafka-python has no such version")
    message = make_message(cls, version, 100 + version)
    if isinstance(message, ApiVersionsResponse):
        # Of an answer with an error kafka-python reads the form of version 0.
        message = replace(message, error_code=0)
    data = encode(message, version)
    theirs = kafka_class.decode(data, version=version)
    assert_same(message, theirs, version, cls.__name__)
    theirs._header = None  # which its decoder leaves out and its encoder asks for
    assert decode(cls, version, bytes(theirs.encode(version=version))) == message


def assert_same(ours: Any, theirs: Any, version: int, path: str) -> None:
    if isinstance(ours, Struct) and theirs is None:
        assert ours == type(ours)(), path  # a tagged field that was not sent
    elif isinstance(ours, Struct):
        names = {name.replace("_", ""): name for name in theirs.fields}
        for field in wire_fields(type(ours)):
            if field.tag == CORRUPT_TAG:
                continue  # ours alone
            # It reads the bits of authorized operations as sets; what it writes tells all the same.
            if field.present(version) and not field.name.endswith("authorized_operations"):
                value = getattr(theirs, names[field.name.replace("_", "")])
                assert_same(getattr(ours, field.name), value, version, f"{path}.{field.name}")
    elif isinstance(ours, tuple):
        assert len(ours) == len(theirs), path
        for index, (our_item, their_item) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our_item, their_item, version, f"{path}[{index}]")
    elif isinstance(ours, uuid.UUID):
        assert ours == (theirs or uuid.UUID(int=0)), path
    else:
        assert ours == theirs, path
