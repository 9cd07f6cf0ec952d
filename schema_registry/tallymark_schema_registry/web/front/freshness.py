"""Has another process changed something? One question for all requests that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tallymark_schema_registry.node.replica import Replica
from tallymark_schema_registry.store.changes import Change
from tallymark_schema_registry.web.front.answer_memory import AnswerMemory
from tallymark_schema_registry.web.front.front import Confirm
from tallymark_schema_registry.web.front.tags import Tag, touched


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
