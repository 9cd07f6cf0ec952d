"""The queue of answers by itself: any order of handlers, one order on the wire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallymark.net.server.outbox import AnswerQueue


@given(st.permutations(range(6)))
def test_answers_leave_in_the_order_of_their_requests(done: list[int]) -> None:
    queue = AnswerQueue()
    places = [queue.add(api_key=0, size=10) for _ in range(6)]
    left: list[bytes | None] = []
    for number in done:
        places[number].answer, places[number].ready = bytes([number]), True
        while queue.has_next:
            left.append(queue.take())  # type: ignore[arg-type]
        assert queue.request_bytes == 10 * len(queue) == 10 * (6 - len(left))
    assert left == [bytes([number]) for number in range(6)]


def test_a_request_without_a_response_holds_its_place() -> None:
    queue = AnswerQueue()
    without, behind = queue.add(0, 1), queue.add(3, 1)
    behind.answer, behind.ready = b"answer", True
    assert not queue.has_next
    without.ready = True
    assert queue.has_next
    assert queue.take() is None
    assert queue.take() == b"answer"
    assert not queue.has_next
