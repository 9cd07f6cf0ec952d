"""Our codec against kio's, whose classes are generated from Kafka's schemas, one per version.

For every message and version: kio reads the same facts from our bytes, and what kio writes from
them we read as the message we began with.
"""

from __future__ import annotations

import datetime
import importlib
import io
import uuid
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from tallymark.protocol.codec import decode, encode
from tallymark.protocol.messages import RESPONSE_OF
from tallymark.protocol.messages.k01_fetch import CORRUPT_TAG
from tallymark.protocol.schema import Message, Struct, wire_fields

Case = tuple[type[Message], int]

# What kio does not have: versions that Kafka 4 has dropped.
OLDEST_IN_KIO = {"Produce": 3, "ListOffsets": 1}


def test_kio_agrees(case: Case, make_message: Callable[[type[Message], int, int], Any]) -> None:
    cls, version = case
    side = "request" if cls in RESPONSE_OF else "response"
    api = cls.__name__.removesuffix(side.title())
    if version < OLDEST_IN_KIO.get(api, 0):
        pytest.skip("kio has no such version")
    module = importlib.import_module(f"kio.schema.{_snake(api)}.v{version}.{side}")
    kio_class = getattr(module, cls.__name__)
    for seed in range(2):
        message = make_message(cls, version, seed)
        data = encode(message, version)
        theirs, size = entity_reader(kio_class)(data, 0)
        assert size == len(data)
        assert_same(message, theirs, version, cls.__name__)
        written = io.BytesIO()
        entity_writer(kio_class)(written, theirs)
        assert decode(cls, version, written.getvalue()) == message


def assert_same(ours: Any, theirs: Any, version: int, path: str) -> None:
    """The same facts, in kio's names and types: times for ``_ms`` fields, None for zero ids."""
    if isinstance(ours, Struct):
        names = {name.replace("_", ""): name for name in theirs.__slots__}
        for field in wire_fields(type(ours)):
            if field.present(version) and field.tag != CORRUPT_TAG:  # ours alone
                name = field.name.replace("_", "")
                value = getattr(theirs, names.get(name) or names[name.removesuffix("ms")])
                assert_same(getattr(ours, field.name), value, version, f"{path}.{field.name}")
    elif isinstance(ours, tuple):
        assert len(ours) == len(theirs), path
        for index, (our_item, their_item) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our_item, their_item, version, f"{path}[{index}]")
    else:
        assert ours == plain(theirs, ours), path


def plain(theirs: Any, ours: Any) -> Any:
    if isinstance(theirs, datetime.timedelta):
        return theirs // datetime.timedelta(milliseconds=1)
    if isinstance(theirs, datetime.datetime):
        return round(theirs.timestamp() * 1000)
    if isinstance(theirs, IntEnum):
        return int(theirs)
    if theirs is None and isinstance(ours, uuid.UUID):
        return uuid.UUID(int=0)
    if theirs is None and ours == -1:
        return -1  # a time that is not known
    return theirs


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
