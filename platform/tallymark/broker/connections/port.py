"""The interface to connections with other brokers.

A caller opens as many connections to a broker as it wants, sends requests, and gets typed responses
in the order of its calls. One error is left to decide about: a ConnectError ends the connection. A
response may carry any error code; that is for the caller to read::

    connection = await connections.open(leader)
    try:
        answer = await connection.send(FetchRequest(...), 30_000)
    except ConnectError: ...  # open another one, after a pause
    finally:
        await connection.close()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from tallymark.broker.metadata.image import BrokerImage
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)


class BrokerConnection(Protocol):
    """An open connection to one broker. Belongs to one event loop."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more: another connection is needed."""
        ...

    def version_of(self, request_class: type[Message]) -> int:
        """The version in which :meth:`send` sends these requests: the highest that both brokers
        have. KafkaError UNSUPPORTED_VERSION, with both ranges, where there is none."""
        ...

    async def send(self, request: Request[R], timeout_ms: int) -> R:
        """Send a request, and return its response. Several may be under way: they leave in the
        order of the calls, and are answered in that order.

        Raises ConnectError where the connection is closed, breaks, carries something that is no
        response, or has none after ``timeout_ms``; the connection is closed then, and all that are
        under way fail. It is not known whether the request was carried out. Raises KafkaError
        UNSUPPORTED_VERSION, and the connection stays open. A cancelled call leaves it open, too.
        """
        ...

    async def close(self) -> None:
        """Close; what is under way fails. Closing twice does nothing."""
        ...


class BrokerConnections(Protocol):
    """Opens connections to the brokers of the cluster, by their ids."""

    async def open(self, broker: int) -> BrokerConnection:
        """A new connection to a broker: logged in, versions known.

        Raises ConnectError naming broker, address, stage and reason: the broker is not known or has
        no such listener (stage ``resolve``), does not answer, or does not let us in
        (AuthenticationError). :attr:`~tallymark.errors.ConnectError.is_refused`: its machine says
        that no process listens there.
        """
        ...

    async def is_refused(self, broker: int) -> bool:
        """Whether a connection is refused right now: no process listens at the broker's address.
        False where the broker is not known, where it cannot be reached, or does not answer."""
        ...

    def brokers_changed(self, brokers: Mapping[int, BrokerImage]) -> None:
        """The live brokers. Connections that are open stay open: each ends by itself when its
        broker does."""
        ...
