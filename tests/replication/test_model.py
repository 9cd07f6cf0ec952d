"""The shapes of replication, and the node that a partition's state is kept in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.coordination.session.errors import MalformedNodeError
from tallymark.coordination.topics.registry import decode_state, encode_state
from tallymark.replication.model import Assignment, PartitionState, Tail, least_isr

IDS = st.integers(0, 2**31 - 1)
TAILS = st.builds(Tail, st.integers(-1, 2**31 - 1), st.integers(0, 2**63 - 1))
STATES = st.builds(
    PartitionState,
    leader=st.integers(-1, 2**31 - 1),
    leader_epoch=IDS,
    isr=st.lists(IDS, unique=True, max_size=5).map(tuple),
    controller_epoch=IDS,
    version=st.integers(0, 2**31 - 1),
    incomplete=st.dictionaries(IDS, TAILS, max_size=3),
    unclean=st.booleans(),
    others=st.dictionaries(
        st.from_regex("x_[a-z]{1,5}", fullmatch=True), st.integers(), max_size=2
    ),
)


@given(STATES)
def test_a_state_is_read_as_it_was_written(state: PartitionState) -> None:
    """Fields of a newer version are kept: a broker that does not know them writes the node, too."""
    assert decode_state("/x", encode_state(state), state.version) == state


def test_a_state_of_apache_kafka_is_written_as_it_was() -> None:
    content = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    assert encode_state(decode_state("/x", content, 3)) == content


def test_states_with_the_same_content_have_each_the_version_of_its_node() -> None:
    """Contents are read once: of ten thousand partitions few differ."""
    content = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    versions = [decode_state("/x", content, version).version for version in (3, 9)]
    assert versions == [3, 9]


def test_of_malformed_nodes_with_the_same_content_each_is_named() -> None:
    for path in ("/x", "/y"):
        with pytest.raises(MalformedNodeError) as caught:
            decode_state(path, b'{"leader":1}', 0)
        assert caught.value.path == path
        assert path in str(caught.value)


@pytest.mark.parametrize(
    "incomplete", ["[]", '{"a":[1,2]}', '{"1":[1]}', '{"1":[1,"2"]}', '{"1":3}']
)
def test_a_malformed_tail_of_an_incomplete_log_names_the_node(incomplete: str) -> None:
    content = (
        '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1],"incomplete":'
        + incomplete
        + "}"
    )
    with pytest.raises(MalformedNodeError, match="/x"):
        decode_state("/x", content.encode(), 0)


def test_of_two_tails_the_later_epoch_is_greater_then_the_longer_one() -> None:
    assert Tail(-1, 0) < Tail(0, 5) < Tail(1, 2) < Tail(1, 3)


def test_a_reassignment_has_a_target_and_an_original() -> None:
    moving = Assignment((3, 1, 2), adding=(3,), removing=(2,))
    assert moving.target == (3, 1)
    assert moving.original == (1, 2)


def test_an_isr_has_at_least_one_member_and_never_more_than_there_are_replicas() -> None:
    assert [least_isr(*one) for one in [(0, 3), (1, 3), (2, 3), (5, 3)]] == [1, 1, 2, 3]
