import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import KafkaError, RemoteProtocolError
from tallymark.net.client.connection import ClientConnection
from tallymark.net.client.versions import common_version
from tallymark.protocol import frames
from tallymark.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseKey,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)


def _metadata(node: int) -> MetadataResponse:
    return MetadataResponse(brokers=(MetadataResponseBroker(node_id=node, host="h", port=1),))


@given(st.integers(1, 8), st.integers(1, 40))
def test_responses_come_back_in_order_however_the_bytes_are_cut(count: int, piece: int) -> None:
    connection = ClientConnection("me")
    ids = [connection.send(MetadataRequest(), 9)[0] for _ in range(count)]
    stream = b"".join(frames.encode_response(_metadata(i), 9, i) for i in ids)
    found = [
        answer
        for start in range(0, len(stream), piece)
        for answer in connection.receive(stream[start : start + piece])
    ]
    assert [(i, r.brokers[0].node_id) for i, r in found] == [(i, i) for i in ids]
    assert connection.due == 0


def test_a_response_out_of_turn_ends_the_connection() -> None:
    connection = ClientConnection("me")
    first, _ = connection.send(MetadataRequest(), 9)
    second, _ = connection.send(MetadataRequest(), 9)
    assert first != second
    with pytest.raises(RemoteProtocolError, match="correlation id"):
        connection.receive(frames.encode_response(_metadata(0), 9, second))


def test_a_response_nobody_waits_for_ends_the_connection() -> None:
    connection = ClientConnection("me")
    connection.send(MetadataRequest(), 9, expects_response=False)
    with pytest.raises(RemoteProtocolError, match="no request was waiting"):
        connection.receive(frames.encode_response(_metadata(0), 9, 0))


def test_frames_over_the_limit_are_refused_before_they_are_there() -> None:
    connection = ClientConnection("me", max_response_bytes=100)
    connection.send(MetadataRequest(), 9)
    with pytest.raises(RemoteProtocolError):
        connection.receive((101).to_bytes(4, "big"))


def test_a_refused_api_versions_request_is_read_in_the_form_of_v0() -> None:
    """KIP-511: a broker that does not know the version answers error 35 in the v0 form."""
    connection = ClientConnection("me")
    correlation_id, _ = connection.send(ApiVersionsRequest(), 3)
    answer = ApiVersionsResponse(
        error_code=35, api_keys=(ApiVersionsResponseKey(api_key=18, min_version=0, max_version=2),)
    )
    ((_, response),) = connection.receive(frames.encode_response(answer, 0, correlation_id))
    assert response == answer


def test_the_highest_common_version_is_chosen() -> None:
    lowest, highest = FetchRequest.valid_versions
    assert common_version(FetchRequest, {1: (0, 99)}) == highest
    assert common_version(FetchRequest, {1: (0, 99)}, at_most=11) == 11
    assert common_version(FetchRequest, {1: (lowest, lowest)}) == lowest
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
        common_version(FetchRequest, {1: (highest + 1, highest + 2)})
    with pytest.raises(KafkaError, match="does not serve Fetch"):
        common_version(FetchRequest, {})


def test_correlation_ids_wrap_around() -> None:
    connection = ClientConnection(None)
    connection._next_id = 2**31 - 1
    assert connection.send(MetadataRequest(), 9)[0] == 2**31 - 1
    assert connection.send(MetadataRequest(), 9)[0] == 0
