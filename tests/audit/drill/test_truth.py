"""The truth is what was written down while it happened."""

import json
from pathlib import Path

from drill_requests import INSTANCE, stamped

from tallymark.protocol.records.batch import encode_batch
from tallymark_audit.proof.drill.truth.books_and_logs import (
    MessageId,
    OldLog,
    Seen,
    SenderRun,
    polls_of,
    read_consumed,
    read_young,
)

TOPIC = "orders"
ORIGIN = SenderRun(TOPIC, 0, "web-1", "ab")


def poll(at: int, *sequences: int) -> list[object]:
    messages = [[0, 10 + one, 100 * one, 7, 0, "web-1", "ab", one] for one in sequences]
    return ["poll", at, messages]


def book(path: Path, *rows: list[object], torn: str = "") -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + torn)
    return path


def test_members_of_a_group_were_given_what_their_book_says(tmp_path: Path) -> None:
    consumed = read_consumed(
        book(
            tmp_path / "billing.consumed",
            ["member", "app-1"],
            poll(1_000, 0, 1),
            poll(8_000, 2),
            poll(9_000, 3),
            ["member", "app-2"],
            poll(20_000, 2, 3, 4),
            poll(20_100),
            torn='["poll", 20200, [[0, 15',
        ),
        TOPIC,
    )
    copies = consumed.log[ORIGIN]
    assert {sequence: len(found) for sequence, found in copies.items()} == {
        0: 1, 1: 1, 2: 2, 3: 2, 4: 1,
    }  # fmt: skip
    assert copies[4] == [Seen(0, 14, 400, 7)]
    three = MessageId(TOPIC, "ab", 0, 3)
    assert consumed.in_hand == {"app-1": {three}, "app-2": set()}
    assert consumed.last["app-1"] == {three, MessageId(TOPIC, "ab", 0, 2)}


def test_a_member_is_waited_for_until_it_was_given_something(tmp_path: Path) -> None:
    """Of two members that were killed one after the other the second had no partition yet: its kill
    proved nothing."""
    path = tmp_path / "billing.consumed"
    assert polls_of(path, "app-1") == 0
    book(path, ["member", "app-1"], poll(1, 0), poll(2, 1), ["member", "app-2"], poll(3, 1))
    assert (polls_of(path, "app-1"), polls_of(path, "app-2")) == (0, 1)


def test_the_youngest_of_a_deleted_log_are_known_by_their_offset(tmp_path: Path) -> None:
    segment = tmp_path / "00.log"
    segment.write_bytes(encode_batch([stamped(number) for number in range(5)], base_offset=10))
    old = OldLog("dc1", TOPIC, (segment,), 13)
    assert read_young(old) == {MessageId(TOPIC, INSTANCE.hex(), 0, number) for number in (3, 4)}
