"""Calls a producer's interceptors so that none of them can hurt the send path."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from typing import Final, TypeAlias

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.interceptors.producer_interceptor import (
    ENTRY_POINTS,
    ProducerContext,
    ProducerInterceptor,
)
from tallymark.client.producing.interceptors.queue_interceptor import QueueInterceptor
from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark.errors import UserError

Interceptor: TypeAlias = ProducerInterceptor | QueueInterceptor

log: Final = logging.getLogger(__name__)

_reported: set[str] = set()
"""Entry points whose failure to load this process has logged already."""


def checked_interceptors(interceptors: Iterable[Interceptor]) -> list[Interceptor]:
    """All of them. UserError naming the first that is no interceptor: nothing would call it."""
    if not isinstance(interceptors, Iterable):
        raise UserError(
            f"Producer: interceptors={interceptors!r} is not possible", "it must be a list of them"
        )
    found = list(interceptors)
    for one in found:
        if isinstance(one, type) or not isinstance(one, ProducerInterceptor | QueueInterceptor):
            raise UserError(f"Producer: {one!r} in interceptors is none", _what_it_lacks(one))
    return found


def _what_it_lacks(one: object) -> str:
    if isinstance(one, type):
        return f"give an object: {one.__name__}()"
    names = [name for name in vars(ProducerInterceptor) if not name.startswith("_")]
    lacking = [name for name in names if not hasattr(one, name)]
    return f"it must be a QueueInterceptor, or have the methods {', '.join(lacking)} too"


def load_interceptors() -> list[Interceptor]:
    """One new interceptor per entry point. One that does not load is logged once and left out."""
    loaded: list[Interceptor] = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            loaded += checked_interceptors([entry.load()()])
        except Exception as error:
            if entry.value not in _reported:
                _reported.add(entry.value)
                log.warning("interceptor %s (%s) is left out: %r", entry.name, entry.value, error)
    return loaded


def with_installed(given: Sequence[Interceptor]) -> list[Interceptor]:
    """Those that are installed, then the given ones. A given one replaces what is
    installed of its kind: an audit with settings of its own is the producer's audit."""
    installed = load_interceptors()
    return [one for one in installed if not _stands_for(one, given)] + list(given)


def _stands_for(installed: Interceptor, given: Sequence[Interceptor]) -> bool:
    return any(isinstance(one, type(installed)) for one in given)


class InterceptorChain:
    """Several interceptors as one. ``errors`` counts what they raised."""

    def __init__(self, interceptors: Sequence[object]) -> None:
        self.errors = 0
        self._interceptors = tuple(
            one for one in interceptors if isinstance(one, ProducerInterceptor)
        )
        self._logged: set[tuple[int, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def attach(self, context: ProducerContext) -> None:
        """See ProducerInterceptor; so with the other methods."""
        self._each("attach", lambda interceptor: interceptor.attach(context))

    def on_send(self, batch: BatchTally) -> None:
        self._each("on_send", lambda interceptor: interceptor.on_send(batch))

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        self._each("on_acknowledged", lambda one: one.on_acknowledged(batch, base_offset))

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None:
        self._each("on_failed", lambda one: one.on_failed(batch, error, in_doubt))

    def on_split(self, batch: BatchTally, parts: Sequence[BatchTally]) -> None:
        """To interceptors that have this method, which came later than the others."""
        self._each("on_split", lambda one: getattr(one, "on_split", _ignore)(batch, parts))

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        self._each("on_tick", lambda one: one.on_tick(now_ms, oldest_pending_ms))

    def on_flush(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """As on_split."""
        self._each(
            "on_flush", lambda one: getattr(one, "on_flush", _ignore)(now_ms, oldest_pending_ms)
        )

    def on_transaction(self, stage: TransactionStage) -> None:
        """As on_split."""
        self._each("on_transaction", lambda one: getattr(one, "on_transaction", _ignore)(stage))

    def on_close(self, now_ms: int) -> None:
        self._each("on_close", lambda interceptor: interceptor.on_close(now_ms))

    def _each(self, name: str, call: Callable[[ProducerInterceptor], None]) -> None:
        for index, interceptor in enumerate(self._interceptors):
            try:
                call(interceptor)
            except Exception:
                self.errors += 1
                if (index, name) not in self._logged:
                    self._logged.add((index, name))
                    log.exception(
                        "%s.%s failed; further failures of it are only counted",
                        type(interceptor).__name__,
                        name,
                    )


def _ignore(*_: object) -> None:
    pass
