"""The APIs that the broker serves: one file each, named by its number.

A file opens with the versions and the behaviour kept or simplified, registers its handler in one
line, and holds one handler. The listing of this folder is the broker's coverage of the protocol;
a test compares it with the ApiVersions answer.

A handler gets the state, the decoded request and the
:class:`~tallymark.broker.requests.registry.Call`. It returns the response, an awaitable of it, or
None where the protocol has no answer. A client's mistake is an error code in the response; a
raised ProtocolError closes the connection. Produce and Fetch, which come thousands of times a
second, read their requests and write their answers themselves
(:func:`~tallymark.broker.requests.registry.register_raw`).
"""

from __future__ import annotations

import importlib
import pkgutil

from tallymark.broker.requests.registry import REGISTERED, Api
from tallymark.protocol.api import ApiKey


def served() -> dict[ApiKey, Api]:
    """Every API of this folder."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(REGISTERED.items()))
