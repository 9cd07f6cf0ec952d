"""The pure parts: assignment, topic rules, committed offsets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.broker.assignment import assign, check_assignment
from tallymark.broker.batches import check_producible
from tallymark.broker.settings import BrokerSettings
from tallymark.broker.topic_rules import (
    RULES,
    check_name,
    check_partitions,
    log_config,
    understood,
)
from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.groups.offsets import (
    Commit,
    OffsetsState,
    decide_commit,
    decide_forget_topic,
)
from tallymark.groups.placement import java_hash, partition_of_group
from tallymark.groups.records import (
    CommittedOffset,
    OffsetKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("Aa", 2112),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("Ä😀", 1961255),
    ],
)
def test_java_hash(text: str, value: int) -> None:
    """Values of Java's String.hashCode; the last has an umlaut and a surrogate pair."""
    assert java_hash(text) == value


def test_the_partition_of_a_group_is_kafkas() -> None:
    assert partition_of_group("hello", 50) == 99162322 % 50
    assert all(0 <= partition_of_group(f"group-{n}", 7) < 7 for n in range(100))


def test_offset_records_have_kafkas_bytes() -> None:
    key = encode_key(OffsetKey("g", "topic", 3))
    assert key == b"\0\x01\0\x01g\0\x05topic\0\0\0\x03"
    value = encode_value(CommittedOffset(5, 2, "m", 1000))
    assert value == (b"\0\x03\0\0\0\0\0\0\0\x05\0\0\0\x02\0\x01m\0\0\0\0\0\0\x03\xe8")


@given(
    st.builds(OffsetKey, st.text(max_size=20), st.text(max_size=20), st.integers(0, 2**31 - 1)),
    st.builds(
        CommittedOffset,
        st.integers(-1, 2**63 - 1),
        st.integers(-1, 2**31 - 1),
        st.text(max_size=20),
        st.integers(-1, 2**63 - 1),
    ),
)
@settings(max_examples=50)
def test_offset_records_read_back(key: OffsetKey, value: CommittedOffset) -> None:
    assert decode_key(encode_key(key)) == key
    assert decode_value(encode_value(value)) == value


def test_older_values_and_other_keys_are_read() -> None:
    head = b"\0\0\0\0\0\0\0\x07\0\x01m\0\0\0\0\0\0\0\x09"
    for version, tail in ((0, b""), (1, b"\0" * 8), (2, b"")):
        decoded = decode_value(version.to_bytes(2, "big") + head + tail)
        assert decoded == CommittedOffset(7, -1, "m", 9)
    assert decode_key(b"\0\x02\0\x01g") is None  # group metadata


@given(st.binary(max_size=60))
@settings(max_examples=100)
def test_damaged_records_are_refused_not_misread(data: bytes) -> None:
    for decode in (decode_key, decode_value):
        try:
            decode(data)
        except CorruptRecordError:
            continue


def _commit(state: OffsetsState, group: str, *commits: Commit) -> list[int]:
    records, codes = decide_commit(group, "", -1, commits, 1000, max_metadata=10)
    for record in records:
        state.replay(record)
    return codes


def test_commits_change_the_state_by_replay_only() -> None:
    state = OffsetsState()
    codes = _commit(
        state,
        "g",
        Commit("t", 0, 10, 3, "note"),
        Commit("t", 1, 20, metadata="x" * 11),
        Commit("gone", 0, 1, error=CODES["UNKNOWN_TOPIC_OR_PARTITION"]),
    )
    assert codes == [0, CODES["OFFSET_METADATA_TOO_LARGE"], CODES["UNKNOWN_TOPIC_OR_PARTITION"]]
    assert state.get("g", "t", 0) == CommittedOffset(10, 3, "note", 1000)
    assert [(topic, index) for topic, index, _ in state.of_group("g")] == [("t", 0)]
    assert _commit(state, "g", Commit("t", 0, 5)) == [0]  # back is fine: it is the consumer's say
    found = state.get("g", "t", 0)
    assert found is not None
    assert found.offset == 5


def test_a_deleted_topic_is_forgotten_by_tombstones() -> None:
    state = OffsetsState()
    _commit(state, "g", Commit("t", 0, 1), Commit("kept", 0, 2))
    _commit(state, "h", Commit("t", 1, 3))
    tombstones = decide_forget_topic(state, "t")
    assert len(tombstones) == 2
    for record in tombstones:
        state.replay(record)
    assert state.get("g", "t", 0) is None
    assert list(state.of_group("h")) == []
    assert state.get("g", "kept", 0) is not None


@pytest.mark.parametrize(
    ("member", "generation", "name"),
    [("m", -1, "UNKNOWN_MEMBER_ID"), ("", 3, "ILLEGAL_GENERATION")],
)
def test_groups_have_no_members_here(member: str, generation: int, name: str) -> None:
    records, codes = decide_commit("g", member, generation, [Commit("t", 0, 1)], 0, 10)
    assert records == []
    assert codes == [CODES[name]]


def test_partitions_go_round_robin_over_live_brokers() -> None:
    assert assign(5, [2, 0, 1], 0) == ((0,), (1,), (2,), (0,), (1,))
    assert assign(1, [0, 1], 3) == ((1,),)
    with pytest.raises(KafkaError, match="BROKER_NOT_AVAILABLE"):
        assign(1, [], 0)


@pytest.mark.parametrize(
    ("assignment", "name"),
    [
        ([[0, 1]], "INVALID_REPLICATION_FACTOR"),
        ([[7]], "INVALID_REPLICA_ASSIGNMENT"),
        ([[]], "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_impossible_assignments_are_refused(assignment: list[list[int]], name: str) -> None:
    with pytest.raises(KafkaError, match=name):
        check_assignment(assignment, [0, 1])


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\0", "a\n"])
def test_topic_names_that_cannot_be_folders_are_refused(name: str) -> None:
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
        check_name(name)


def test_good_names_and_numbers_pass() -> None:
    check_name("Orders_2.eu-west")
    check_name("x" * 249)
    check_partitions(1)
    for count in (0, -1, -5, 10_001):
        with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
            check_partitions(count)


def test_topic_configs_stand_over_the_brokers() -> None:
    broker = BrokerSettings(log_segment_bytes=5000, log_retention_ms=70)
    config = log_config(broker, {"retention.ms": "-1", "flush.messages": "3"})
    assert config.segment_bytes == 5000
    assert config.retention_ms == -1
    assert config.flush_messages == 3
    assert log_config(broker, {}).retention_ms == 70
    compacted = log_config(broker, {"cleanup.policy": "compact", "retention.ms": "5"})
    assert compacted.retention_ms == -1, "without compaction the last value of a key must stay"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.sm", "1"),
        ("retention.ms", "soon"),
        ("segment.bytes", "1"),
        ("cleanup.policy", "x"),
    ],
)
def test_wrong_topic_configs_are_named(name: str, value: str) -> None:
    with pytest.raises(KafkaError, match=name) as raised:
        log_config(BrokerSettings(), {name: value})
    assert raised.value.name == "INVALID_CONFIG"
    assert all(rule for rule in RULES)


def test_a_strange_stored_config_does_not_hurt() -> None:
    stored = {"retention.ms": "5", "unclean.leader.election.enable": "true", "segment.ms": "x"}
    assert understood(stored) == {"retention.ms": "5"}


def test_old_formats_and_transactions_are_refused() -> None:
    batch = bytearray(61)
    batch[16] = 1
    with pytest.raises(KafkaError, match="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
        check_producible(batch, "t-0")
    batch[16], batch[22] = 2, 0x10
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        check_producible(batch, "t-0")
    check_producible(b"", "t-0")  # too short to say: the log refuses it
