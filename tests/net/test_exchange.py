"""BrokerConnection.exchange: requests that are written and read without message objects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.net.client.connect import connect
from tallymark.net.server.handler import Connection
from tallymark.net.server.server import Server
from tallymark.protocol import frames
from tallymark.protocol.codec import decode
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseKey,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

VERSION = 9


class Asker:
    """Asks for a topic by name; what came back, in order."""

    def __init__(self, stream: BrokerConnection) -> None:
        self.stream = stream
        self.answers: list[str] = []
        self.errors: list[TallymarkError] = []

    def ask(self, word: str, timeout: float = 5.0) -> None:
        message = MetadataRequest(topics=(MetadataRequestTopic(name=word),))
        self.stream.exchange(
            partial(frames.encode_request_parts, message, VERSION),
            lambda frame: frames.decode_response(frame, MetadataRequest, VERSION)[1],
            self._answered,
            timeout,
            "Metadata",
        )

    def _answered(self, response: Any, error: TallymarkError | None) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.answers.append(response.cluster_id)


async def answer(header: RequestHeader, body: memoryview, connection: Connection) -> Any:
    """Echoes the topic; "never" is not answered."""
    if header.api_key == 18:
        keys = [
            ApiVersionsResponseKey(api_key=key, min_version=0, max_version=VERSION)
            for key in (3, 18)
        ]
        answer = ApiVersionsResponse(api_keys=keys)
        return frames.encode_response(answer, header.api_version, header.correlation_id)
    word = (decode(MetadataRequest, header.api_version, body).topics or ())[0].name
    if word == "never":
        await asyncio.Event().wait()
    echo = MetadataResponse(cluster_id=word)
    return frames.encode_response(echo, header.api_version, header.correlation_id)


def run(scenario: Callable[[Server, Asker], Awaitable[None]]) -> None:
    async def whole() -> None:
        server = Server(answer)
        await server.start("127.0.0.1", 0)
        try:
            stream = await connect(*server.address)
            try:
                async with asyncio.timeout(10):
                    await scenario(server, Asker(stream))
            finally:
                await stream.close()
        finally:
            await server.stop(grace=0)

    asyncio.run(whole())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_what_is_pushed_together_is_answered_in_order_with_one_call_behind() -> None:
    async def scenario(server: Server, asker: Asker) -> None:
        behind: list[int] = []
        asker.stream.after_answers = lambda: behind.append(len(asker.answers))
        for word in "abc":
            asker.ask(word)
        assert not asker.answers
        asker.stream.push()
        # A request of the other kind may stand between them.
        between = MetadataRequest(topics=(MetadataRequestTopic(name="x"),))
        assert (await asker.stream.request(between, VERSION)).cluster_id == "x"
        asker.ask("d")
        asker.stream.push()
        await until(lambda: len(asker.answers) == 4)
        assert asker.answers == ["a", "b", "c", "d"]
        assert behind[-1] == 4

    run(scenario)


def test_a_late_answer_fails_all_behind_it_and_the_connection() -> None:
    async def scenario(server: Server, asker: Asker) -> None:
        asker.ask("a", timeout=0.05)
        asker.stream.push()
        await until(lambda: asker.answers)
        asker.ask("never", timeout=0.1)
        asker.ask("b", timeout=5)
        asker.stream.push()
        await until(lambda: len(asker.errors) == 2)
        assert asker.stream.closed
        (late, behind) = asker.errors
        assert isinstance(late, KafkaError)
        assert late.code == CODES["REQUEST_TIMED_OUT"]
        assert "no response to Metadata within 0.1 s" in str(late)
        assert behind is late

    run(scenario)


@pytest.mark.parametrize("end", ["close", "abort"])
def test_pushing_after_the_peer_has_hung_up_fails_as_any_request_does(end: str) -> None:
    """Asyncio's writelines() raises TypeError for a transport that is closing, as it does by
    itself when the peer hangs up, where its write() does nothing; a producer that met this died of
    it, in close()."""

    async def scenario(server: Server, asker: Asker) -> None:
        stream = asker.stream
        asker.ask("a")
        getattr(stream._transport, end)()
        stream.push()
        await until(lambda: asker.errors)
        assert isinstance(asker.errors[0], KafkaError)
        assert asker.errors[0].retriable
        stream.push()

    run(scenario)
