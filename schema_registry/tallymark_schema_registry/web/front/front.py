"""What all connections of one server share: answers, header blocks, the access log, and one
question to the store for all requests that wait for it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol, TypeAlias

from tallymark.net.web.access_log import clf_time
from tallymark_schema_registry.access.grants import Principal
from tallymark_schema_registry.web.front.answer_memory import Answer, AnswerMemory
from tallymark_schema_registry.web.front.facts import Facts, Headers, Kind, facts_of
from tallymark_schema_registry.web.front.remember import Remember
from tallymark_schema_registry.web.metrics.counts import RequestCounts, Tally

MAX_BODY: Final = 64 << 10
"""Bytes of a request's body; the answer to a larger one is not remembered."""
MAX_BLOCK: Final = 4 << 10
"""Bytes of a header block."""
_MAX_BLOCKS: Final = 4_096

Key: TypeAlias = tuple[int, bytes, bytes]
"""Kind of the request, request line, hash of the body."""
Confirm: TypeAlias = Callable[[Callable[[], None]], None]
"""``confirm(then)`` calls ``then`` in the loop when all changes have been applied that the store
had at a moment after the call, or when the store cannot be asked."""


class Credentials(Protocol):
    """The callers of requests: :class:`~tallymark_schema_registry.access.log_in.RegistryLogIn`."""

    @property
    def generation(self) -> object:
        """A value that differs after users, tokens or grants have changed."""
        ...

    def principal_of(self, authorization: bytes) -> Principal | None:
        """Whose valid credentials these are, if that is known without work."""
        ...


class Known(NamedTuple):
    """A header block that was served before. ``kind`` counts the kinds; ``view`` is what somebody
    with these credentials could see."""

    kind: int
    facts: Facts
    view: int


class Front:
    """Belongs to the event loop of its server. ``credentials`` None: there is no log-in. ``log``
    takes the lines of the access log."""

    def __init__(
        self,
        memory: AnswerMemory,
        confirm: Confirm,
        counts: RequestCounts,
        *,
        credentials: Credentials | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.memory = memory
        self.counts = counts
        self.given = 0
        """Answers given from memory."""
        self._confirm = confirm
        self._credentials = credentials
        self._log = log
        self._generation = credentials.generation if credentials else None
        self._dated: tuple[list[tuple[bytes, bytes]], bytes] = [], b""
        self._blocks: dict[tuple[str, bytes], Known] = {}
        self._kinds: dict[tuple[int, Kind], int] = {}
        self._numbers = itertools.count(1)
        self._waiting: list[Callable[[], None]] = []

    def known(self, local: str, block: bytes) -> Known | None:
        """What is known of a header block that came to the local address ``local``; None also where
        its credentials have to be looked at again."""
        known = self._blocks.get((local, block))
        if known is None or self._credentials is None:
            return known
        generation = self._credentials.generation
        if generation != self._generation:
            self._generation = generation
            self.memory.clear()
        return known if self._view(known.facts) == known.view else None

    def learn(self, local: str, block: bytes, headers: Headers) -> Known | None:
        """Remember a header block with which a request was served: it may come to this address (its
        host is ours). None where it is unusual."""
        facts = facts_of(headers)
        view = None if facts is None else self._view(facts)
        if facts is None or view is None or len(block) > MAX_BLOCK:
            return None
        if len(self._blocks) >= _MAX_BLOCKS or len(self._kinds) >= _MAX_BLOCKS:
            self._blocks.clear()
            self._kinds.clear()  # their numbers are not used again
        kind = self._kinds.get((view, facts.kind))
        if kind is None:
            kind = self._kinds[view, facts.kind] = next(self._numbers)
        known = self._blocks[local, block] = Known(kind, facts, view)
        return known

    def _view(self, facts: Facts) -> int | None:
        """What the client may see at this moment; None: the ordinary way has to find out."""
        if self._credentials is None:
            return 0
        principal = self._credentials.principal_of(facts.authorization)
        return None if principal is None else principal.grants.view

    def dated(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The header lines that uvicorn puts before all others: the date, made once a second."""
        if headers is not self._dated[0]:
            lines = b"".join([b"%s: %s\r\n" % header for header in headers])
            self._dated = headers, lines
        return self._dated[1]

    def keep(self, key: Key, answer: Answer, since: int) -> None:
        """Remember an answer; see :meth:`AnswerMemory.put`."""
        self.memory.put(key, answer, since)

    def note(self, host: str, facts: Facts, answer: Answer) -> None:
        """An answer was given from memory: count it, and write its line."""
        self.given += 1
        answer.tally.count += 1
        if self._log is not None:
            self._log(
                f"{host} - {facts.user} [{clf_time(time.time())}] {answer.logged} {facts.logged}"
            )

    def when_confirmed(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` when the store has been asked whether something has changed. One question
        is enough for all that arrived before it: those of a turn of the loop."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        waiting, self._waiting = self._waiting, []

        def confirmed() -> None:
            for go_on in waiting:
                go_on()

        self._confirm(confirmed)


def key_of(known: Known, line: bytes, body: bytes) -> Key:
    """The place of an answer in the memory."""
    return known.kind, line, blake2b(body, digest_size=16).digest() if body else b""


def answer_of(
    sent: bytes, dated: bytes, logged: str, said: Remember, tally: Tally
) -> Answer | None:
    """The answer as it was sent, apart from the lines ``dated``; None where they are not found."""
    end_of_line = sent.find(b"\r\n") + 2
    if not dated or not sent.startswith(dated, end_of_line):
        return None
    rest = sent[end_of_line + len(dated) :]
    return Answer(sent[:end_of_line], rest, logged, not said.lasting, said.tags, tally)
