"""The records of __consumer_offsets: bytes worked by hand from Kafka's schemas, other
versions, and whatever else may stand in a log."""

from __future__ import annotations

import pytest
from group_records import GROUPS, NUMBER, OFFSETS, TEXT
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import CorruptRecordError
from tallymark.groups import records
from tallymark.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    MemberMetadata,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_key,
    encode_value,
)


def test_offset_records_have_kafkas_bytes() -> None:
    key = encode_key(OffsetKey("g", "topic", 3))
    assert key == b"\0\x01\0\x01g\0\x05topic\0\0\0\x03"
    value = encode_value(CommittedOffset(5, 2, "m", 1000))
    assert value == (b"\0\x03\0\0\0\0\0\0\0\x05\0\0\0\x02\0\x01m\0\0\0\0\0\0\x03\xe8")
    expiring = encode_value(CommittedOffset(5, 2, "m", 1000, 2000))
    assert expiring == b"\0\x01" + value[2:10] + value[14:] + b"\0\0\0\0\0\0\x07\xd0"


MEMBER = MemberMetadata("a-1", "one", "a", "/h", 60_000, 10_000, b"sub", b"part")
GROUP = GroupMetadata("consumer", 7, "range", "a-1", 1000, (MEMBER,))
GROUP_V3 = b"".join(
    (
        b"\0\x03",
        b"\0\x08consumer",
        b"\0\0\0\x07",
        b"\0\x05range",
        b"\0\x03a-1",
        TIME_1000 := b"\0\0\0\0\0\0\x03\xe8",
        b"\0\0\0\x01",
        b"\0\x03a-1",
        b"\0\x03one",
        b"\0\x01a",
        b"\0\x02/h",
        b"\0\0\xea\x60",
        b"\0\0\x27\x10",
        b"\0\0\0\x03sub",
        b"\0\0\0\x04part",
    )
)


def test_group_records_have_kafkas_bytes() -> None:
    assert encode_key(GroupKey("g")) == b"\0\x02\0\x01g"
    assert encode_value(GROUP) == GROUP_V3
    empty = encode_value(GroupMetadata("consumer", 8, None, None, -1))
    assert empty == b"\0\x03\0\x08consumer\0\0\0\x08\xff\xff\xff\xff" + b"\xff" * 8 + b"\0\0\0\0"


def test_older_and_newer_versions_of_groups_are_read() -> None:
    head, rest = b"\0\x08consumer\0\0\0\x07\0\x05range\0\x03a-1", b"\0\0\0\x01"
    time = TIME_1000
    who, static = b"\0\x03a-1", b"\0\x03one"
    client, rebalance = b"\0\x01a\0\x02/h", b"\0\0\xea\x60"
    end = b"\0\0\x27\x10\0\0\0\x03sub\0\0\0\x04part"
    plain = MemberMetadata("a-1", None, "a", "/h", -1, 10_000, b"sub", b"part")
    timed = MemberMetadata("a-1", None, "a", "/h", 60_000, 10_000, b"sub", b"part")
    v0 = decode_group(b"\0\0" + head + rest + who + client + end)
    assert v0 == GroupMetadata("consumer", 7, "range", "a-1", -1, (plain,))
    v1 = decode_group(b"\0\x01" + head + rest + who + client + rebalance + end)
    assert v1 == GroupMetadata("consumer", 7, "range", "a-1", -1, (timed,))
    v2 = decode_group(b"\0\x02" + head + time + rest + who + client + rebalance + end)
    assert v2 == GroupMetadata("consumer", 7, "range", "a-1", 1000, (timed,))
    v3 = b"\0\x03" + head + time + rest + who + static + client + rebalance + end
    assert v3 == GROUP_V3
    assert decode_group(v3) == GROUP
    v4 = decode_group(
        b"\0\x04\x09consumer\0\0\0\x07\x06range\x04a-1" + time
        + b"\x02\x04a-1\x04one\x02a\x03/h" + rebalance + b"\0\0\x27\x10\x04sub\x05part\0"
        + b"\x01\x05\x01x"  # a tagged field of the future
    )  # fmt: skip
    assert v4 == GROUP


def test_older_and_newer_versions_of_offsets_are_read() -> None:
    head = b"\0\0\0\0\0\0\0\x07\0\x01m\0\0\0\0\0\0\0\x09"
    for version, tail, expires in ((0, b"", -1), (1, b"\0" * 7 + b"\5", 5), (2, b"", -1)):
        decoded = decode_offset(version.to_bytes(2, "big") + head + tail)
        assert decoded == CommittedOffset(7, -1, "m", 9, expires)
    flexible = b"\0\x04\0\0\0\0\0\0\0\x07\0\0\0\x02\x02m\0\0\0\0\0\0\0\x09\0"
    assert decode_offset(flexible) == CommittedOffset(7, 2, "m", 9)
    assert decode_key(b"\0\0\0\x01g\0\x01t\0\0\0\1") == OffsetKey("g", "t", 1)
    assert decode_key(b"\0\x03\0\x01g") is None  # a group of KIP-848


@given(st.builds(OffsetKey, TEXT, TEXT, NUMBER) | st.builds(GroupKey, TEXT))
@settings(max_examples=50)
def test_keys_read_back(key: OffsetKey | GroupKey) -> None:
    assert decode_key(encode_key(key)) == key


@given(OFFSETS, GROUPS)
@settings(max_examples=50)
def test_values_read_back(offset: CommittedOffset, group: GroupMetadata) -> None:
    assert decode_offset(encode_value(offset)) == offset
    assert decode_group(encode_value(group)) == group


@given(st.binary(max_size=80))
@settings(max_examples=150)
def test_damaged_records_are_refused_not_misread(data: bytes) -> None:
    for decode in (decode_key, decode_offset, decode_group):
        try:
            decode(data)
        except CorruptRecordError:
            continue


@given(st.builds(OffsetKey, TEXT, TEXT, NUMBER), OFFSETS, st.data())
@settings(max_examples=100)
def test_offsets_by_hand_are_those_of_the_general_codec(
    key: OffsetKey, offset: CommittedOffset, data: st.DataObject
) -> None:
    """Keys and values of commits are written and read by hand; whole, cut or damaged they are what
    the codec makes of them that all other records go through."""
    assert encode_key(key) == records._encode(key, 1)
    assert encode_value(offset) == records._encode(offset, 3)
    for whole, quick, cls, version in (
        (encode_key(key), records._quick_key, OffsetKey, 1),
        (encode_value(offset), records._quick_offset, CommittedOffset, 3),
    ):
        assert quick(whole) is not None
        raw = bytearray(whole[: data.draw(st.integers(2, len(whole)))])
        if len(raw) > 2:
            raw[data.draw(st.integers(2, len(raw) - 1))] = data.draw(st.integers(0, 255))
        try:
            expected: object = records._decode(cls, bytes(raw), version)
        except CorruptRecordError:
            expected = None
        assert quick(bytes(raw)) == expected


@given(GROUPS, st.data())
@settings(max_examples=50)
def test_cut_groups_are_refused(group: GroupMetadata, data: st.DataObject) -> None:
    whole = encode_value(group)
    with pytest.raises(CorruptRecordError):
        decode_group(whole[: data.draw(st.integers(0, len(whole) - 1))])
