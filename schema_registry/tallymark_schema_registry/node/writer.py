"""One task that writes: commands that wait are decided and stored together, by one transaction.

A batch is decided on the committed catalog, so its commands must not depend on each other
(:mod:`.batches`); those that do wait for the next one. If another process was first, its changes
are applied and the batch is decided again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tallymark.clock import now_ms
from tallymark_schema_registry import errors
from tallymark_schema_registry.decisions.commands import Answer, Command, Decision
from tallymark_schema_registry.node.batches import Batch, Decide
from tallymark_schema_registry.node.replica import Replica, Store
from tallymark_schema_registry.store.changes import (
    Behind,
    OutcomeUnknown,
    StoreFailed,
    Turn,
    row_of,
)

MAX_WAITING: Final = 1_000
"""Commands that wait; more are refused."""
DEADLINE_S: Final = 10.0
"""How long a command waits for its answer."""
MAX_BATCH: Final = 200
"""Commands that are written together."""
ATTEMPTS: Final = 3
"""How often a command is written that was lost with the connection."""
AGAIN_S: Final = 0.2
"""Between two attempts to find out whether a batch was stored."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Waiting:
    """A command and the answer that its request waits for."""

    command: Command
    answer: asyncio.Future[Answer]
    lost: int = 0
    is_suspect: bool = False


class Writer:
    """Belongs to one event loop; ``thread`` has one thread, where the store is written."""

    def __init__(
        self,
        replica: Replica,
        store: Store,
        thread: Executor,
        decide: Decide,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._replica = replica
        self._store = store
        self._thread = thread
        self._decide = decide
        self._clock = clock
        self._waiting: deque[Waiting] = deque()
        self._in_flight = 0
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._is_failing = False

    @property
    def waiting(self) -> int:
        """Commands that wait or are being written."""
        return len(self._waiting) + self._in_flight

    def start(self) -> None:
        """Write from now on."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Answer what waits, and stop."""
        self._is_closed = True
        end = asyncio.get_running_loop().time() + DEADLINE_S
        while self.waiting and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.01)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def write(self, command: Command) -> Answer:
        """The decision, which is stored and applied; or what has to be found out first, since the
        catalog is not what it was. Raises the error of the decision, a 503 where the store cannot
        be written or too many wait, and the 50002 error where it is not known in time whether it
        was written."""
        self._replica.check_up()
        if self._is_closed or len(self._waiting) >= MAX_WAITING:
            raise errors.busy("too many changes wait to be stored")
        waiting = Waiting(command, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._some.set()
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await waiting.answer
        except TimeoutError:
            raise errors.timed_out() from None

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                try:
                    await self._write_some()
                except Exception:
                    # A fault of ours: it must not end the task that all others wait for.
                    _log.exception("a batch of changes could not be written")

    async def _write_some(self) -> None:
        chosen, batch = self._choose()
        if not chosen:
            return
        self._in_flight = len(chosen)
        try:
            await self._store_batch(chosen, batch)
        finally:
            self._in_flight = 0

    def _choose(self) -> tuple[list[Waiting], Batch]:
        """Decide what waits, in its order; what needs no writing is answered at once."""
        batch = Batch(self._replica.catalog, self._decide, self._clock())
        chosen, later = list[Waiting](), deque[Waiting]()
        while self._waiting and len(chosen) < MAX_BATCH:
            waiting = self._waiting.popleft()
            if waiting.answer.done():  # its request was cancelled
                continue
            if waiting.is_suspect and chosen:
                later.append(waiting)
                break
            try:
                answer = batch.add(waiting.command)
            except Exception as error:
                _fail(waiting, error)
                continue
            if answer is None:
                later.append(waiting)
            elif isinstance(answer, Decision) and answer.records:
                chosen.append(waiting)
                if waiting.is_suspect or batch.is_full:
                    break
            else:
                _answer(waiting, answer)
        self._waiting.extendleft(reversed(later))
        return chosen, batch

    async def _store_batch(self, chosen: Sequence[Waiting], batch: Batch) -> None:
        turn: Turn | None = None
        try:
            while chosen:
                try:
                    await self._append(turn, batch)
                except Behind as behind:
                    turn = behind.turn
                    chosen, batch = self._choose_again(turn, chosen)
                    continue
                except Exception as error:
                    turn = None
                    await self._not_stored(chosen, batch, error)
                else:
                    turn = None
                    self._done(chosen, batch)
                return
        finally:
            if turn is not None:
                self._thread.submit(turn.give_up)

    def _choose_again(
        self, turn: Turn, chosen: Sequence[Waiting]
    ) -> tuple[Sequence[Waiting], Batch]:
        """Another process was first: decide with what it did, while no other one can write."""
        self._replica.apply(turn.newer)
        self._again(chosen)
        chosen, batch = self._choose()
        self._in_flight = len(chosen)
        return chosen, batch

    async def _append(self, turn: Turn | None, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        if turn is None:
            await loop.run_in_executor(
                self._thread, self._store.append, batch.after, batch.changes, batch.texts
            )
        else:
            await loop.run_in_executor(self._thread, turn.append, batch.changes, batch.texts)

    async def _not_stored(self, chosen: Sequence[Waiting], batch: Batch, error: Exception) -> None:
        if isinstance(error, OutcomeUnknown):
            await self._settle(chosen, batch, error)
        elif isinstance(error, StoreFailed):
            self._failed(chosen, error)
        else:
            # Not the store: one of the commands cannot be written. Each is tried alone.
            _log.error(
                "changes that cannot be stored: %s",
                [waiting.command for waiting in chosen],
                exc_info=error,
            )
            if len(chosen) == 1:
                _fail(chosen[0], error)
                return
            for waiting in chosen:
                waiting.is_suspect = True
            self._again(chosen)

    def _done(self, chosen: Sequence[Waiting], batch: Batch) -> None:
        self._replica.apply(batch.changes)
        for waiting, decision in zip(chosen, batch.decisions, strict=True):
            _answer(waiting, decision)
        if self._is_failing:
            self._is_failing = False
            _log.warning("changes are stored again")

    def _failed(self, chosen: Sequence[Waiting], error: StoreFailed) -> None:
        """Nothing of it was stored."""
        if not self._is_failing:
            self._is_failing = True
            _log.error("changes are refused until they can be stored again: %s", error)
        for waiting in chosen:
            _fail(waiting, errors.store_failed())

    def _again(self, chosen: Sequence[Waiting]) -> None:
        self._waiting.extendleft(reversed(chosen))

    async def _settle(self, chosen: Sequence[Waiting], batch: Batch, error: OutcomeUnknown) -> None:
        """The connection was lost at COMMIT. No client gets a failure before the store has
        been read again, behind a fence: after that it is stored, or never will be."""
        _log.error("whether changes were stored is not known yet: %s", error)
        loop = asyncio.get_running_loop()
        while True:
            try:
                newer = await loop.run_in_executor(self._thread, self._store.fence, batch.after)
            except StoreFailed as failed:
                self._replica.went_down(failed)
                if self._is_closed or all(waiting.answer.done() for waiting in chosen):
                    return  # the changes come with those of others
                await asyncio.sleep(AGAIN_S)
            else:
                break
        ours = [row_of(change) for change in batch.changes]
        is_stored = [row_of(change) for change in newer[: len(ours)]] == ours
        self._replica.apply(newer)
        if is_stored:
            self._done(chosen, batch)
            return
        for waiting in chosen:
            waiting.lost += 1
            if waiting.lost >= ATTEMPTS:
                _fail(waiting, errors.store_failed())
        self._again(chosen)


def _answer(waiting: Waiting, answer: Answer) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(answer)


def _fail(waiting: Waiting, error: Exception) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)
