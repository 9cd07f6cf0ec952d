"""The front of one registry, put together: its memory follows the changes of the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from tallymark.net.web.access import WebAccess
from tallymark.net.web.server import HttpProtocol
from tallymark_schema_registry.access.log_in import RegistryLogIn
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.node.replica import Replica
from tallymark_schema_registry.store.changes import Change
from tallymark_schema_registry.web.front.answer_memory import AnswerMemory
from tallymark_schema_registry.web.front.front import Confirm, Front
from tallymark_schema_registry.web.front.tags import Tag, touched
from tallymark_schema_registry.web.metrics.counts import RequestCounts

log = logging.getLogger(__name__)


def make_front(
    registry: Registry,
    access: WebAccess,
    counts: RequestCounts,
    write_line: Callable[[str], None] | None = None,
) -> Front | None:
    """The front of ``registry``; ``write_line`` takes the lines of the access log. None where
    not the registry but a proxy looks at credentials: then all requests go the ordinary way."""
    login = access.login
    if login is not None and not isinstance(login, RegistryLogIn):
        return None
    memory = AnswerMemory()
    registry.on_change(forget_changed(memory))
    confirm = confirm_with(registry.replica)
    return Front(memory, confirm, counts, credentials=login, log=write_line)


def protocol_of(front: Front | None) -> HttpProtocol | None:
    """The protocol of connections that answers from memory. None where httptools is not installed,
    or there is no front."""
    if front is None:
        return None
    try:
        from tallymark_schema_registry.web.front.protocol import FrontHttp
    except ImportError:
        log.warning("answers are slower without httptools: pip install 'tallymark[registry]'")
        return None
    return partial(FrontHttp, front)


def confirm_with(replica: Replica) -> Confirm:
    """``confirm(then)`` asks the store of ``replica``: at once where that takes microseconds, else
    in a thread."""
    asking: set[asyncio.Task[None]] = set()

    def confirm(then: Callable[[], None]) -> None:
        if replica.is_current():
            then()
            return
        task = asyncio.get_running_loop().create_task(replica.current())
        asking.add(task)
        task.add_done_callback(asking.discard)
        task.add_done_callback(lambda _: then())

    return confirm


def forget_changed(memory: AnswerMemory) -> Callable[[Sequence[Change]], None]:
    """What follows the changes of the store: answers that they touch are dropped."""

    def forget(changes: Sequence[Change]) -> None:
        tags: set[Tag] = set()
        for change in changes:
            tags.update(touched(change.record))
        memory.drop(tags)

    return forget
