"""The front of one registry, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from tallymark.net.web.access import WebAccess
from tallymark.net.web.server import HttpProtocol
from tallymark_schema_registry.access.log_in import RegistryLogIn
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.web.front.answer_memory import AnswerMemory
from tallymark_schema_registry.web.front.freshness import confirm_with, forget_changed
from tallymark_schema_registry.web.front.front import Front

log = logging.getLogger(__name__)


def with_front(
    registry: Registry, access: WebAccess, write_line: Callable[[str], None] | None
) -> HttpProtocol | None:
    """The protocol of connections that answers from memory; ``write_line`` takes the lines of the
    access log. None where httptools is not installed, or somebody else than the registry looks at
    credentials: then every request goes the ordinary way."""
    login = access.login
    if login is not None and not isinstance(login, RegistryLogIn):
        return None
    try:
        from tallymark_schema_registry.web.front.protocol import FrontHttp
    except ImportError:
        log.warning(
            "httptools is not installed: answers are slower; pip install 'tallymark[registry]'"
        )
        return None
    memory = AnswerMemory()
    registry.on_change(forget_changed(memory))
    front = Front(memory, confirm_with(registry.replica), credentials=login, log=write_line)
    return partial(FrontHttp, front)
