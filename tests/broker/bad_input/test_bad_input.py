"""What does not belong on the wire closes its own connection, and nobody else's."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallymark.broker.handlers
from tallymark.broker.handlers import served
from tallymark.errors import CODES
from tallymark.protocol import frames
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.codec import decode
from tallymark.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    MetadataRequest,
    ProduceRequest,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    data = tmp_path_factory.mktemp("data")
    with BrokerThread(data, socket_request_max_bytes=10_000, max_connections=20) as running:
        yield running


@pytest.fixture(autouse=True)
def _others_are_served(broker: BrokerThread) -> Iterator[None]:
    """Before, during and after every test of this file another client is served."""
    with WireClient(broker.bootstrap_servers) as other:
        other.ask(MetadataRequest(topics=[]), 1)
        yield
        other.ask(MetadataRequest(topics=[]), 1)


def header(key: int, version: int, correlation: int = 7) -> bytes:
    return struct.pack(">hhih", key, version, correlation, -1)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_the_folder_is_what_api_versions_says(wire: WireClient) -> None:
    folder = [path.name for path in Path(tallymark.broker.handlers.__path__[0]).glob("k*.py")]
    files = {int(name[1:3]): name for name in folder}
    answer = wire.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    told = {item.api_key: (item.min_version, item.max_version) for item in answer.api_keys}
    assert set(files) == set(told) == {int(key) for key in served()}
    assert told == {int(key): versions for key, versions in ADVERTISED.items()}
    for key, name in files.items():
        assert name == f"k{key:02d}_{ApiKey(key).name.lower()}.py"


@pytest.mark.parametrize("version", range(5))
def test_api_versions_in_every_version(wire: WireClient, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="a-b", client_software_version="1.0")
    answer = wire.ask(request, version)
    assert answer.error_code == 0
    produce = next(item for item in answer.api_keys if item.api_key == 0)
    assert produce.min_version == 0, "librdkafka before 2.11.1 would not compress"
    assert not {71, 72} & {item.api_key for item in answer.api_keys}, "clients would push telemetry"


@pytest.mark.parametrize("version", [5, 35, 32767])
def test_an_unknown_api_versions_version_is_answered_as_v0(wire: WireClient, version: int) -> None:
    """KIP-511: a client newer than the broker reads the answer before it knows the broker."""
    wire.send_bytes(framed(header(18, version) + b"\0\x02a\x021\0"))
    frame = wire.frame()
    assert frame[:4] == struct.pack(">i", 7)
    answer = decode(ApiVersionsResponse, 0, frame, 4)
    assert answer.error_code == CODES["UNSUPPORTED_VERSION"]
    assert [(i.api_key, i.min_version, i.max_version) for i in answer.api_keys] == [(18, 0, 4)]
    # The connection goes on: the client asks again in a version it was told.
    assert wire.ask(ApiVersionsRequest(), 0).error_code == 0


def test_a_nameless_client_is_told(wire: WireClient) -> None:
    bad = ApiVersionsRequest(client_software_name="", client_software_version="-")
    assert wire.ask(bad, 3).error_code == CODES["INVALID_REQUEST"]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 10_001),
        struct.pack(">i", 2**31 - 1),
        b"GET / HTTP/1.1\r\n\r\n",
        framed(b""),
        framed(b"\0\0"),
        framed(header(999, 0)),
        framed(header(-1, 0)),
        framed(header(11, 5)),
        framed(header(0, 99)),
        framed(header(1, 3)),
        framed(header(3, -1)),
        framed(header(3, 1) + b"\xff\xff\xff\xfe"),
        framed(header(3, 1) + struct.pack(">i", 2**31 - 1)),
        framed(header(3, 1) + struct.pack(">i", 1) + b"\0\x05ab"),
        framed(header(3, 1) + struct.pack(">i", 1) + b"\0\x02\xff\xfe"),
        framed(struct.pack(">hhih", 3, 1, 7, 30_000)),
        framed(struct.pack(">hhih", 3, 1, 7, -2)),
    ],
    ids=range(18),
)
def test_garbage_closes_the_connection(wire: WireClient, data: bytes) -> None:
    wire.send_bytes(data)
    assert wire.closed_by_peer()


def test_half_a_frame_and_silence_hurt_nobody(wire: WireClient) -> None:
    wire.send_bytes(struct.pack(">i", 5000) + b"abc")


def test_bytes_behind_the_last_field_are_ignored(wire: WireClient) -> None:
    """The flow: librdkafka 2.16 asks for all topics with Metadata v13; it writes the null array in
    four bytes where one is due, so three bytes are left at the end. Apache Kafka ignores them. We
    closed the connection, and list_topics() failed."""
    wire.send_bytes(framed(header(3, 13) + b"\0" + bytes.fromhex("00000000010000")))
    _, answer = frames.decode_response(wire.frame(), MetadataRequest, 13)
    assert answer.error_code == 0
    assert len(answer.brokers) == 1


def test_nonsense_numbers_in_well_formed_requests(wire: WireClient) -> None:
    fetch = FetchRequest(max_wait_ms=-5, min_bytes=-1, max_bytes=-9, topics=[])
    assert wire.ask(fetch, 11).error_code == 0
    assert wire.ask(ProduceRequest(acks=-1, timeout_ms=-1, topic_data=[]), 9).responses == ()


def test_too_many_connections_are_closed(broker: BrokerThread) -> None:
    clients = [WireClient(broker.bootstrap_servers) for _ in range(25)]
    try:
        closed = 0
        for client in clients:
            try:
                client.ask(MetadataRequest(topics=[]), 1)
            except ConnectionError:
                closed += 1
        assert closed >= 25 - 20
    finally:
        for client in clients:
            client.close()


@given(st.sampled_from(sorted(ADVERTISED)), st.data())
@settings(max_examples=40, deadline=None)
def test_random_bodies_are_answered_or_closed(
    broker: BrokerThread, key: ApiKey, data: st.DataObject
) -> None:
    low, high = ADVERTISED[key]
    version = data.draw(st.integers(low, high))
    body = data.draw(st.binary(max_size=60))
    with WireClient(broker.bootstrap_servers, timeout=3.0) as client:
        client.send_bytes(framed(header(key, version) + body))
        client.send_bytes(framed(b""))  # closes what is still open
        try:
            while True:
                client.frame()
        except ConnectionError:
            return
