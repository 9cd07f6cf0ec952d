"""Partitions chosen before librdkafka does, as it would."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark.protocol.murmur2 import partition_of
from tallymark_audit.reporters.adapters.partitioners import (
    PARTITIONERS,
    PartitionChooser,
    fnv1a,
    partitioner_named,
)

MANY = list(range(12))


def chosen(name: str, key: str | bytes | None, now: int = 0) -> int:
    return PartitionChooser(MANY, PARTITIONERS[name]).choose(key, now)


def test_published_values_of_the_hashes() -> None:
    # CRC-32's check value; FNV-1a of "foobar" is 0xbf9cf968, whose sign Sarama drops.
    assert chosen("consistent_random", b"123456789") == 0xCBF43926 % 12
    assert fnv1a(b"foobar") == (1 << 32) - 0xBF9CF968
    # Kafka's UtilsTest: murmur2("21") is -973932308.
    assert chosen("murmur2", b"21") == (-973932308 & 0x7FFFFFFF) % 12


@given(st.binary(min_size=1))
def test_murmur2_is_where_java_puts_it(key: bytes) -> None:
    assert chosen("murmur2_random", key) == partition_of(key, 12)


def test_a_text_is_its_utf8() -> None:
    assert chosen("consistent_random", "schlüssel") == chosen("consistent", "schlüssel".encode())


@pytest.mark.parametrize("name", ["consistent", "murmur2", "fnv1a"])
def test_without_randomness_no_key_goes_where_the_empty_key_goes(name: str) -> None:
    assert {chosen(name, None) for _ in range(50)} == {chosen(name, b"")}


@pytest.mark.parametrize("name", ["consistent_random", "random"])
def test_the_empty_key_is_none_to_librdkafkas_default(name: str) -> None:
    assert len({chosen(name, b"") for _ in range(300)}) == 12


@pytest.mark.parametrize("name", ["murmur2_random", "fnv1a_random"])
def test_the_empty_key_is_one_to_javas(name: str) -> None:
    assert len({chosen(name, b"") for _ in range(50)}) == 1
    assert len({chosen(name, None) for _ in range(300)}) == 12


def test_keyless_records_stick_for_a_while_and_spread_in_the_long_run() -> None:
    chooser = PartitionChooser(MANY, PARTITIONERS["consistent_random"])
    assert len({chooser.choose(None, now) for now in range(10)}) == 1
    spread = Counter(chooser.choose(None, 10 * n) for n in range(1200))
    assert set(spread) == set(MANY)
    assert max(spread.values()) < 200


@pytest.mark.parametrize("name", ["consistant", None, 7, print])
def test_a_partitioner_that_is_none_is_refused(name: object) -> None:
    with pytest.raises(UserError, match="not one of librdkafka's"):
        partitioner_named(name)
