"""The records of __transaction_state: bytes worked by hand from Kafka's schemas, other versions,
and whatever else may stand in a log."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import CorruptRecordError
from tallymark.transactions.records import decode_key, decode_value, encode_key, encode_value
from tallymark.transactions.state import TransactionsState, record_of, tombstone
from tallymark.transactions.transaction import State, Transaction

OPEN = Transaction(
    "copier", 7, 3, 60_000, State.ONGOING, frozenset((("t", 1), ("t", 0), ("a", 5))), 2000, 1000
)
HEAD = b"\0\0\0\0\0\0\0\x07" + b"\0\x03" + b"\0\0\xea\x60" + b"\x01"
TIMES = b"\0\0\0\0\0\0\x07\xd0" + b"\0\0\0\0\0\0\x03\xe8"
OLD = b"".join(
    (
        b"\0\0" + HEAD,
        b"\0\0\0\x02",
        b"\0\x01a" + b"\0\0\0\x01" + b"\0\0\0\x05",
        b"\0\x01t" + b"\0\0\0\x02" + b"\0\0\0\0" + b"\0\0\0\x01",
        TIMES,
    )
)
FLEXIBLE = b"".join(
    (
        b"\0\x01" + HEAD,
        b"\x03",
        b"\x02a" + b"\x02" + b"\0\0\0\x05" + b"\0",
        b"\x02t" + b"\x03" + b"\0\0\0\0" + b"\0\0\0\x01" + b"\0",
        TIMES,
    )
)


def test_a_key_has_kafkas_bytes() -> None:
    assert encode_key("copier") == b"\0\0\0\x06copier"
    assert decode_key(b"\0\0\0\x06copier") == "copier"
    assert decode_key(b"\0\x01whatever") is None  # of a version that is not known: not ours


def test_version_0_has_kafkas_bytes_and_no_tags() -> None:
    assert encode_value(OPEN, 0) == OLD
    assert decode_value("copier", OLD) == OPEN


def test_version_1_leaves_out_what_has_its_default() -> None:
    assert encode_value(OPEN, 1) == FLEXIBLE + b"\0"
    assert decode_value("copier", FLEXIBLE + b"\0") == OPEN


def test_tags_have_kafkas_numbers() -> None:
    tags = b"".join(
        (
            b"\x04",
            b"\0\x08" + b"\0\0\0\0\0\0\0\x09",
            b"\x01\x08" + b"\0\0\0\0\0\0\0\x0a",
            b"\x02\x02" + b"\0\x02",
            b"\x04\x02" + b"\0\x04",
        )
    )
    found = decode_value("copier", FLEXIBLE + tags)
    assert (found.previous_producer_id, found.next_producer_id) == (9, 10)
    assert (found.version, found.last_epoch) == (2, 4)
    assert encode_value(found, 1) == FLEXIBLE + tags


def test_the_next_epoch_of_kip_939_is_not_taken_for_the_last_one() -> None:
    """Tag 3: Apache Kafka 4.1 has it already. We had written our last epoch there: a Kafka that
    opens our log would have taken it for the epoch of the next producer id, and we its next epoch
    for one with which a client may ask again. It is kept as what we do not know."""
    found = decode_value("copier", FLEXIBLE + b"\x01" + b"\x03\x02\0\x04")
    assert (found.last_epoch, found.unknown_tags) == (-1, ((3, b"\0\x04"),))
    written = encode_value(replace(found, last_epoch=7), 1)
    assert written == FLEXIBLE + b"\x02" + b"\x03\x02\0\x04" + b"\x04\x02\0\x07"


def test_no_partitions_may_be_null_in_both_versions() -> None:
    """Kafka writes null for a transaction that has none."""
    assert not decode_value("c", b"\0\0" + HEAD + b"\xff\xff\xff\xff" + TIMES).partitions
    assert not decode_value("c", b"\0\x01" + HEAD + b"\0" + TIMES + b"\0").partitions


def test_tags_of_a_newer_version_are_kept() -> None:
    newer = FLEXIBLE + b"\x01" + b"\x09\x03abc"
    found = decode_value("copier", newer)
    assert found.unknown_tags == ((9, b"abc"),)
    assert encode_value(found, 1) == newer


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        b"\0\x02" + FLEXIBLE[2:] + b"\0",  # a version that is not known
        b"\xff\xff" + OLD[2:],
        OLD[:16] + b"\x09" + OLD[17:],  # a state that is not known
        FLEXIBLE + b"\x01\0\x07abcdefg",  # a tag of the wrong size
        FLEXIBLE + b"\x01\0\x08abc",  # and one that is cut short
        FLEXIBLE,
    ],
)
def test_what_cannot_be_read_is_said(value: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode_value("copier", value)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_a_corrupt_one(data: bytes) -> None:
    for read in (decode_key, lambda value: decode_value("x", value)):
        for opening in (b"", b"\0\0", b"\0\1" + HEAD):
            with contextlib.suppress(CorruptRecordError):
                read(opening + data)


@given(st.integers(0, len(OLD) - 1), st.booleans())
def test_a_record_that_is_cut_is_corrupt(size: int, flexible: bool) -> None:
    whole = FLEXIBLE + b"\0" if flexible else OLD
    with pytest.raises(CorruptRecordError):
        decode_value("copier", whole[: min(size, len(whole) - 1)])


TRANSACTIONS = st.builds(
    Transaction,
    st.just("id"),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**15 - 1),
    st.integers(1, 2**31 - 1),
    st.sampled_from(State),
    st.frozensets(st.tuples(st.text(max_size=5), st.integers(0, 2**31 - 1)), max_size=5),
    st.integers(-1, 2**62),
    st.integers(-1, 2**62),
    previous_producer_id=st.integers(-1, 2**63 - 1),
    next_producer_id=st.integers(-1, 2**63 - 1),
    last_epoch=st.integers(-1, 2**15 - 1),
    version=st.integers(0, 2),
    unknown_tags=st.dictionaries(
        st.just(3) | st.integers(5, 200), st.binary(max_size=3), max_size=3
    ).map(lambda tags: tuple(sorted(tags.items()))),
)


@given(TRANSACTIONS)
def test_what_was_written_is_read(transaction: Transaction) -> None:
    state = TransactionsState()
    state.replay(record_of(transaction, 1))
    assert state.get("id") == transaction
    assert list(state) == [transaction]
    state.replay(tombstone("id"))
    assert state.get("id") is None
    assert len(state) == 0


def test_a_key_of_another_kind_changes_nothing() -> None:
    state = TransactionsState()
    state.replay((struct.pack(">h", 3) + b"later", b"anything"))
    assert len(state) == 0
