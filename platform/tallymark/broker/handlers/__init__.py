"""The APIs that the broker serves: one file each, named by its number.

A file opens with the versions and the behaviour kept or simplified, registers its handler in one
line, and holds one handler. The listing of this folder is the broker's coverage of the protocol;
a test compares it with the ApiVersions answer.

A handler gets the state, the decoded request and the :class:`Call`. It returns the response, an
awaitable of it, or None where the protocol has no answer. What is the client's fault is a code in
the response; a raised ProtocolError closes the connection. Produce and Fetch, which come thousands
of times a second, read their requests and write their answers themselves
(:func:`register_raw`).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from tallymark.broker.state import BrokerState
from tallymark.net import ServerConnection
from tallymark.net.server_connection import Answer
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Request[Any])
Response = Message | None


class Call(NamedTuple):
    """What comes with a request: its version, and the connection it came on."""

    version: int
    client_id: str | None
    connection: ServerConnection


RawHandler: TypeAlias = Callable[
    [BrokerState, memoryview, RequestHeader, ServerConnection], Answer | Awaitable[Answer]
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
    """Called in the place of ``handle``."""


_REGISTERED: Final[dict[ApiKey, Api]] = {}


def register(
    request_class: type[R],
    handle: Callable[[BrokerState, R, Call], Response | Awaitable[Response]],
) -> None:
    """Serve a request with ``handle``. Twice for one key is a mistake, so is an API that is not
    advertised."""
    key = request_class.api_key
    assert key not in _REGISTERED, f"{key.name} is registered twice"
    low, high = ADVERTISED[key]
    _REGISTERED[key] = Api(key, request_class, low, high, handle)


def register_raw(request_class: type[Request[Any]], handle: RawHandler) -> None:
    """Like :func:`register`, for a handler that decodes and encodes by itself."""
    key = request_class.api_key
    assert key not in _REGISTERED, f"{key.name} is registered twice"
    low, high = ADVERTISED[key]
    _REGISTERED[key] = Api(key, request_class, low, high, None, handle)


def served() -> dict[ApiKey, Api]:
    """Every API of this folder."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(_REGISTERED.items()))
