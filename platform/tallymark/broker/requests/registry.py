"""The APIs that the dispatcher knows: handlers register themselves here, one in each file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from tallymark.broker.state import BrokerState
from tallymark.net.server.handler import Answer, Connection
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Request[Any])
Response = Message | None


class Call(NamedTuple):
    """The context of a request: its version, and its connection."""

    version: int
    client_id: str | None
    connection: Connection


RawHandler: TypeAlias = Callable[
    [BrokerState, memoryview, RequestHeader, Connection], Answer | Awaitable[Answer]
]
"""Takes the body of a request and returns the whole frame of its answer."""


@dataclass(frozen=True, slots=True)
class Api:
    """A served API: ``low`` to ``high`` are the versions advertised, inclusive."""

    key: ApiKey
    request_class: type[Request[Any]]
    low: int
    high: int
    handle: Callable[[BrokerState, Any, Call], Response | Awaitable[Response]] | None
    raw: RawHandler | None = None
    """Called in place of ``handle``."""


REGISTERED: Final[dict[ApiKey, Api]] = {}


def register(
    request_class: type[R],
    handle: Callable[[BrokerState, R, Call], Response | Awaitable[Response]],
) -> None:
    """Serve a request with ``handle``. It is an error to register a key twice, or an API that is
    not advertised."""
    key = request_class.api_key
    assert key not in REGISTERED, f"{key.name} is registered twice"
    low, high = ADVERTISED[key]
    REGISTERED[key] = Api(key, request_class, low, high, handle)


def register_raw(request_class: type[Request[Any]], handle: RawHandler) -> None:
    """Like :func:`register`, for a handler that decodes and encodes by itself."""
    key = request_class.api_key
    assert key not in REGISTERED, f"{key.name} is registered twice"
    low, high = ADVERTISED[key]
    REGISTERED[key] = Api(key, request_class, low, high, None, handle)
