"""A coordinator that still ends the transaction before is asked again, for a moment."""

from __future__ import annotations

import asyncio

import pytest

from tallymark.broker.requests.concurrent_transactions import PAUSES_MS, TRIES, asked_again
from tallymark.errors import CODES

BUSY = CODES["CONCURRENT_TRANSACTIONS"]
FENCED = CODES["PRODUCER_FENCED"]


@pytest.mark.parametrize(
    ("answers", "code", "asked"),
    [
        ([0], 0, 1),
        ([FENCED], FENCED, 1),
        ([BUSY, BUSY, 0], 0, 3),
        ([BUSY, FENCED, 0], FENCED, 2),
        ([BUSY] * TRIES + [0], BUSY, TRIES),
    ],
)
def test_it_is_asked_until_it_is_done_with_the_transaction_before(
    monkeypatch: pytest.MonkeyPatch, answers: list[int], code: int, asked: int
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(round(seconds * 1000))

    monkeypatch.setattr(asyncio, "sleep", pause)
    left = list(answers)

    async def ask() -> int:
        return left.pop(0)

    assert asyncio.run(asked_again(ask, int)) == code
    assert len(answers) - len(left) == asked
    assert pauses == list(PAUSES_MS[: asked - 1])
