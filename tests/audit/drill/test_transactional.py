"""The drill's transactional producer: what its book says of each outcome, and what follows for the
truth. An aborted message is no loss, and nothing that was not learnt is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from drill_requests import INSTANCE, SERVER

from tallymark import Producer
from tallymark.errors import CommitInDoubt, TimedOutError, TransactionAbortableError
from tallymark.errors import TransactionFatalError as Fatal
from tallymark_audit.proof.drill.applications import transactional
from tallymark_audit.proof.drill.applications.producer import BookWriter
from tallymark_audit.proof.drill.applications.transactional import Transactions
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.truth.books_and_logs import read_book
from tallymark_audit.proof.drill.truth.expected import LOSS, Cell, Finding, expect

TOPIC = kinds.TRANSACTIONS
COMMIT, ABORT = 1.0, 0.0
"""What the chance says, for a transaction that is to commit or abort."""


class Scripted:
    """A producer whose calls fail as the script says: name -> errors, one a call."""

    def __init__(self, script: dict[str, list[Exception]]) -> None:
        self.calls: list[str] = []
        self._script = script

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if waiting := self._script.get(name):
            raise waiting.pop(0)

    def begin_transaction(self) -> None:
        self._call("begin")

    def send(self, *_: Any, **__: Any) -> None:
        self._call("send")

    def commit_transaction(self, _timeout: float) -> None:
        self._call("commit")

    def abort_transaction(self, _timeout: float) -> None:
        self._call("abort")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[Scripted, list[list[Any]]]]:
    def one(chance: float, **script: list[Exception]) -> tuple[Scripted, list[list[Any]]]:
        """One transaction of four messages in two partitions; the calls, and the book."""
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.book"
        producer = Scripted(script)
        config = {"partitions": 2, "topic": TOPIC, "server": SERVER, "seed": 1}
        work = Transactions(cast(Producer, producer), BookWriter(path), config)
        work._chance = cast(Any, type("Fixed", (), {"random": lambda _: chance})())
        try:
            work.one(4)
        except (Fatal, CommitInDoubt) as error:
            producer.calls.append(type(error).__name__)
        return producer, [json.loads(line) for line in path.read_text().splitlines()]

    return one


def told(book: list[list[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[:3]) for row in book]


ACKED = [("acked", 0, 0), ("acked", 1, 0), ("acked", 0, 1), ("acked", 1, 1)]
ABORTED = [("aborted", *row[1:]) for row in ACKED]


def test_what_is_committed_is_acknowledged_and_what_is_aborted_is_not(run: Any) -> None:
    producer, book = run(COMMIT)
    assert (told(book), producer.calls[-1]) == (ACKED, "commit")
    producer, book = run(ABORT)
    assert (told(book), producer.calls[-1]) == (ABORTED, "abort")


def test_an_unclear_commit_is_asked_for_until_it_is_clear(run: Any) -> None:
    unclear = [CommitInDoubt("x", "?"), TimedOutError("commit"), CommitInDoubt("x", "?")]
    producer, book = run(COMMIT, commit=unclear)
    assert (told(book), producer.calls.count("commit")) == (ACKED, 4)


def test_a_transaction_that_cannot_begin_in_time_is_begun_again(run: Any) -> None:
    """After a failover the one before had ended unclearly. It was committed without having begun,
    and the producer ended."""
    producer, book = run(COMMIT, begin=[TimedOutError("begin"), TimedOutError("begin")])
    assert (told(book), producer.calls[:4]) == (ACKED, ["begin", "begin", "begin", "send"])


def test_a_commit_that_is_refused_is_an_abort(run: Any) -> None:
    producer, book = run(COMMIT, commit=[TransactionAbortableError("x", "no")])
    assert (told(book), producer.calls[-2:]) == (ABORTED, ["commit", "abort"])


def test_when_another_producer_takes_the_id_what_was_open_is_aborted(run: Any) -> None:
    """Nothing can commit it any more: the coordinator aborts it for the other one."""
    producer, book = run(ABORT, send=[Fatal("x", "fenced")])
    assert (book, producer.calls[-1]) == ([], "TransactionFatalError")
    producer, book = run(ABORT, abort=[Fatal("x", "fenced")])
    assert (told(book), producer.calls[-1]) == (ABORTED, "TransactionFatalError")


def test_of_a_commit_whose_outcome_is_never_learnt_nothing_is_written(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(COMMIT, commit=[Fatal("x", "fenced")])[1] == []
    monkeypatch.setattr(transactional, "_PATIENCE_SECONDS", 0)
    producer, book = run(COMMIT, commit=[CommitInDoubt("x", "?")])
    assert (book, producer.calls[-1]) == ([], "CommitInDoubt")


def test_an_aborted_message_may_not_be_called_lost(tmp_path: Path) -> None:
    """Not even of a producer that was killed or fenced, of which nothing else is known."""
    path = tmp_path / "one.book"
    book = BookWriter(path)
    book.write("run", "dc1", TOPIC, SERVER, INSTANCE.hex())
    book.write("acked", 0, 0, 1_000, 7)
    book.write("aborted", 0, 1)
    read = read_book(path)
    assert read is not None
    found = expect([read], {}, [], 2_000)
    cell = Cell("producer-to-dc1", TOPIC, 0, 0, SERVER, INSTANCE.hex())
    assert found.items == {Finding(cell, LOSS, 0)}
    assert found.aborted == 1
    assert not found.allows(Finding(cell, LOSS, 1))
    assert found.allows(Finding(cell, LOSS, 2)), "its outcome is not known"
