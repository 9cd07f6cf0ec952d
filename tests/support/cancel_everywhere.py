"""Cancels a coroutine at its first await, then a fresh one at its second, and so on to the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from cancelling import CancelAt


async def reaches(work: Coroutine[Any, Any, Any], at: int, late: bool, seconds: float = 15) -> bool:
    """Run ``work`` in a task of its own, cancelled at its ``at``-th await (``late``: when that is
    just over); whether it came to that. Fails when it neither ends nor can be cancelled."""
    counted = CancelAt(work, at, late)

    async def run() -> None:
        await counted

    task = asyncio.create_task(run())
    done, _ = await asyncio.wait([task], timeout=seconds)
    assert done, f"not over {seconds:g} s after it was cancelled at await {at}"
    if not task.cancelled():
        task.result()
    return counted.suspensions >= at


async def cancel_everywhere(
    scenario: Callable[[int], Coroutine[Any, Any, bool]], most: int = 200
) -> int:
    """``scenario(k)`` runs something with :func:`reaches` k and checks what must hold then; called
    with 1, 2, 3 ... until it says that there is no k-th await. Returns how many there are."""
    for at in range(1, most):
        if not await scenario(at):
            return at - 1
    raise AssertionError(f"it awaits more than {most} times")
