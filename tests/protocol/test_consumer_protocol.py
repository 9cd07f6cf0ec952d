"""What consumers tell one another, against kafka-python, kio and bytes worked by hand."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from tallymark.errors import LocalProtocolError, RemoteProtocolError
from tallymark.protocol.consumer_protocol import (
    HIGHEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tallymark.protocol.schema import Struct, wire_fields

CODECS: dict[Any, tuple[Any, Any]] = {
    ConsumerProtocolSubscription: (encode_subscription, decode_subscription),
    ConsumerProtocolAssignment: (encode_assignment, decode_assignment),
}

both = pytest.mark.parametrize("cls", CODECS)
every_version = pytest.mark.parametrize("version", range(HIGHEST_VERSION + 1))


@both
@every_version
def test_other_codecs_agree(
    cls: Any, version: int, make_message: Callable[[Any, int, int], Any]
) -> None:
    encode, decode = CODECS[cls]
    folder = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")
    kio_class = getattr(importlib.import_module(f"kio.schema.{folder}.v{version}"), cls.__name__)
    kafka_class = getattr(importlib.import_module("kafka.protocol.consumer"), cls.__name__)
    for seed in range(20):
        value = make_message(cls, version, seed)
        data = encode(value, version)
        assert decode(data) == value
        theirs, size = entity_reader(kio_class)(data, 2)
        assert size == len(data) - 2
        written = io.BytesIO()
        entity_writer(kio_class)(written, theirs)
        assert decode(data[:2] + written.getvalue()) == value
        assert decode(bytes(kafka_class.decode(data).encode(version=version))) == value


def test_bytes_worked_by_hand() -> None:
    subscription = ConsumerProtocolSubscription(
        topics=["ab"],
        user_data=b"\x07",
        owned_partitions=[ConsumerProtocolTopicPartitions("ab", [5])],
        generation_id=9,
        rack_id="r",
    )
    assert encode_subscription(subscription).hex(" ") == (
        "00 03 00 00 00 01 00 02 61 62 00 00 00 01 07"
        " 00 00 00 01 00 02 61 62 00 00 00 01 00 00 00 05 00 00 00 09 00 01 72"
    )
    assignment = ConsumerProtocolAssignment([ConsumerProtocolTopicPartitions("ab", [0, 1])])
    assert encode_assignment(assignment, 1).hex(" ") == (
        "00 01 00 00 00 01 00 02 61 62 00 00 00 02 00 00 00 00 00 00 00 01 ff ff ff ff"
    )


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    value = ConsumerProtocolSubscription(topics=("t",), rack_id="r")
    data = b"\0\x09" + encode_subscription(value)[2:] + b"what came later"
    assert decode_subscription(data) == value


@both
def test_bad_bytes(cls: Any) -> None:
    encode, decode = CODECS[cls]
    whole = encode(cls())
    for data in (b"", b"\0", b"\xff\xff" + whole[2:], whole[:-1], b"\0\0\x7f\xff\xff\xff"):
        with pytest.raises(RemoteProtocolError, match=cls.__name__):
            decode(data)
    for version in (-1, HIGHEST_VERSION + 1):
        with pytest.raises(LocalProtocolError, match="there are 0 to 3"):
            encode(cls(), version)
    with pytest.raises(LocalProtocolError, match="does not encode"):
        encode(cls(user_data="text"))


@pytest.mark.parametrize("cls", [*CODECS, ConsumerProtocolTopicPartitions])
def test_every_field_says_what_it_is(cls: type[Struct]) -> None:
    assert all(field.about.endswith((".", ".)")) for field in wire_fields(cls))
