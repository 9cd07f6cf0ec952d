"""The traps of the protocol, each of which has broken a real client: which test holds it, and the
tests of those that no other file has."""

from __future__ import annotations

import importlib
import re
import uuid
import warnings
from collections.abc import Iterator

import pytest
from project import ROOT

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.messages import (
    ApiVersionsRequest,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

TESTS = ROOT / "tests"

HELD = {
    "1 librdkafka stops compressing when Produce begins above 0": (
        "protocol/test_messages.py::test_produce_is_advertised_from_zero",
        "broker/test_produce_and_fetch.py::test_old_produce_versions_are_advertised_but_refused",
    ),
    "2 the ApiVersions answer has the oldest header in every version": (
        "protocol/test_frames.py::test_api_versions_answers_with_the_oldest_header",
        "broker/bad_input/test_bad_input.py::test_api_versions_in_every_version",
    ),
    "3 an unknown version of ApiVersions is answered as v0, with its own range": (
        "broker/bad_input/test_bad_input.py::test_an_unknown_api_versions_version_is_answered_as_v0",
    ),
    "4 the client id stays a classic string, two APIs never become flexible": (
        "protocol/test_frames.py::test_request_header_bytes",
        "protocol/test_frames.py::test_flexible_versions_of_each_api",
    ),
    "5 acks=0 has no answer, an error closes": (
        "broker/test_produce_and_fetch.py::test_acks_zero_has_no_answer_and_an_error_closes",
    ),
    "6 whole batches, the first one regardless of its size, in the order that was asked": (
        "broker/test_produce_and_fetch.py::test_fetch_returns_the_batches_in_every_version",
        "broker/test_produce_and_fetch.py::test_the_first_batch_comes_even_if_it_is_too_large",
        "broker/test_traps.py::test_partitions_are_read_in_the_order_of_the_request",
    ),
    "7 fetch sessions": ("broker/test_fetch_sessions.py::test_a_session_tells_news_only",),
    "8 a topic that is made again has another id": (
        (
            "broker/test_metadata_and_topics.py::"
            "test_a_created_again_topic_has_another_id_and_no_records"
        ),
        "broker/test_traps.py::test_an_id_of_a_deleted_topic_is_unknown",
    ),
    "9 zstd only for requests that know it": (
        "broker/test_produce_and_fetch.py::test_zstd_needs_requests_that_know_it",
    ),
    "10 the first join is given a member id and asked to come again": (
        "broker/groups/test_groups_wire.py::test_join_in_every_version",
    ),
    "11 null and empty mean other things in Metadata v0; asking creates": (
        "broker/test_metadata_and_topics.py::test_all_topics_null_or_in_v0_the_empty_list",
        "broker/test_metadata_and_topics.py::test_metadata_creates_and_describes_in_every_version",
    ),
    "12 the address is told as a number": (
        "broker/test_traps.py::test_the_address_that_is_told_needs_no_resolver",
    ),
    "13 telemetry is not advertised": ("broker/test_traps.py::test_telemetry_is_not_advertised",),
    "14 transaction.version with what it promises": (
        "broker/test_traps.py::test_transactions_of_version_two_are_promised",
    ),
    "15 the ranges stand for a version of Kafka": (
        "broker/test_traps.py::test_the_ranges_read_as_a_version_of_kafka",
    ),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), num_partitions=3) as running:
        yield running


@pytest.mark.parametrize("trap", HELD)
def test_each_trap_has_its_test(trap: str) -> None:
    for place in HELD[trap]:
        file, _, name = place.partition("::")
        text = (TESTS / file).read_text()
        assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), place


def test_partitions_are_read_in_the_order_of_the_request(wire: WireClient) -> None:
    """The flow: a consumer hung, since a broker sorted partitions; the ones that came first filled
    every answer."""
    identity = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="order")]), 12)
    for index in range(3):
        part = ProduceRequestPartition(
            index=index, records=encode_batch([(None, bytes(1000), (), 5)])
        )
        topic = ProduceRequestTopic(name="order", partition_data=[part])
        wire.ask(ProduceRequest(acks=1, topic_data=[topic]), 9)
    for order in ([2, 0, 1], [1, 2, 0]):
        asks = [FetchRequestPartition(partition=i, partition_max_bytes=9000) for i in order]
        for version in (4, 12, 16):
            topic_id = identity.topics[0].topic_id
            asked = FetchRequest(
                max_bytes=1500,
                topics=[FetchRequestTopic(topic="order", topic_id=topic_id, partitions=asks)],
            )
            found = wire.ask(asked, version).responses[0].partitions
            sizes = [(part.partition_index, len(part.records or b"") > 0) for part in found]
            assert sizes == [(order[0], True), (order[1], False), (order[2], False)]


def test_an_id_of_a_deleted_topic_is_unknown(wire: WireClient) -> None:
    ask = FetchRequestPartition(partition=0, partition_max_bytes=9000)
    asked = FetchRequest(topics=[FetchRequestTopic(topic_id=uuid.uuid4(), partitions=[ask])])
    assert wire.ask(asked, 13).responses[0].partitions[0].error_code == 100


def test_the_address_that_is_told_needs_no_resolver(wire: WireClient) -> None:
    """ "localhost" is ::1 for some resolvers, where nobody listens."""
    assert BrokerSettings().host_name == "127.0.0.1"
    assert [node.host for node in wire.ask(MetadataRequest(topics=None), 9).brokers] == [
        "127.0.0.1"
    ]


def test_telemetry_is_not_advertised(wire: WireClient) -> None:
    """Java clients and librdkafka begin to push it at once."""
    served = {key.api_key for key in wire.ask(ApiVersionsRequest(), 0).api_keys}
    assert served.isdisjoint({71, 72})
    assert served == {int(key) for key in ADVERTISED}


def test_transactions_of_version_two_are_promised(wire: WireClient) -> None:
    """Java clients 4.x add partitions to transactions by Produce 12 then. Older clients fail on a
    supported feature whose lowest level is 0 (KAFKA-17011), so they do not see it."""
    asked = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = wire.ask(asked, 3)
    assert not answer.supported_features
    (level,) = answer.finalized_features
    assert (level.name, level.max_version_level) == ("transaction.version", 2)
    assert ADVERTISED[ApiKey.PRODUCE][1] == 12


def test_the_ranges_read_as_a_version_of_kafka() -> None:
    """kafka-python takes the highest version of some APIs for the version of the broker, and uses
    what that version of Kafka had."""
    with warnings.catch_warnings():
        # On Python 3.11 kafka-python reads its schemas through a function deprecated there.
        warnings.simplefilter("ignore", DeprecationWarning)
        data = importlib.import_module("kafka.protocol.broker_version_data")
    ranges = {int(key): versions for key, versions in ADVERTISED.items()}
    assert data.infer_broker_version_from_api_versions(ranges) == (3, 8)
