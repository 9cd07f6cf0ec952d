"""Variable-length integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import LocalProtocolError, RemoteProtocolError
from tallymark.protocol.varint import (
    TABLE_LIMIT,
    VARINT,
    decode_uvarint,
    decode_varint,
    encode_uvarint,
    encode_varint,
)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_uvarint_round_trip(value: int, after: bytes) -> None:
    data = encode_uvarint(value)
    assert decode_uvarint(b"x" + data + after, 1) == (value, 1 + len(data))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_varint_round_trip(value: int, after: bytes) -> None:
    data = encode_varint(value)
    assert decode_varint(b"x" + data + after, 1) == (value, 1 + len(data))


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-(2**63), "ff" * 9 + "01")],
)
def test_known_varints(value: int, data: str) -> None:
    assert encode_varint(value).hex() == data


def test_table_agrees_with_the_function() -> None:
    for n in (*range(200), TABLE_LIMIT - 1):
        assert VARINT[n] == encode_varint(n)
    with pytest.raises(IndexError):
        _ = VARINT[TABLE_LIMIT]


@pytest.mark.parametrize("value", [-1, 2**64])
def test_what_does_not_fit_is_a_local_error(value: int) -> None:
    with pytest.raises(LocalProtocolError):
        encode_uvarint(value)


@pytest.mark.parametrize("data", ["", "80", "ffffffff", "8080808080808000", "ffffffff7f"])
def test_bad_uvarints(data: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_uvarint(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["", "80", "ff" * 10, "ff" * 11 + "01", "ff" * 9 + "7f"])
def test_bad_varints(data: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_varint(bytes.fromhex(data), 0)
