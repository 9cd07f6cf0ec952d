"""Cancels a coroutine at its k-th await."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class CancelAt:
    """Awaits ``work`` and has the task that does so cancelled at the ``k``-th time it is suspended
    (from 1 on): while it waits, or (``late``) at the moment when what it waits for has come."""

    def __init__(self, work: Coroutine[Any, Any, Any], k: int, late: bool) -> None:
        self._work = work
        self._k = k
        self._late = late
        self.suspensions = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        task = asyncio.current_task()
        assert task is not None
        thrown: BaseException | None = None
        while True:
            try:
                waited_for = steps.send(None) if thrown is None else steps.throw(thrown)
            except StopIteration as stop:
                return stop.value
            thrown = None
            self.suspensions += 1
            if self.suspensions == self._k:
                self._arrange(task, waited_for)
            try:
                yield waited_for
            except BaseException as error:
                thrown = error

    def _arrange(self, task: asyncio.Task[Any], waited_for: Any) -> None:
        if self._late and isinstance(waited_for, asyncio.Future):
            # Before the task's own callback, which was not added yet.
            waited_for.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


async def cancelled_at(work: Coroutine[Any, Any, Any], k: int, late: bool) -> bool:
    """Run ``work``, cancel it at its ``k``-th await, wait at most 30 s for its end. Whether it was
    cancelled; False: it has fewer awaits, or was done by then."""

    async def run() -> None:
        await CancelAt(work, k, late)

    task = asyncio.create_task(run())
    done, _ = await asyncio.wait([task], timeout=30)
    assert done, f"cancelled at await {k}, it hangs"
    if task.cancelled():
        return True
    task.result()
    return False
