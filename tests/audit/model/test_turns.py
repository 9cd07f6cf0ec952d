"""Topics have turns: what one of them costs is not waited for by the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.model.turns import HURRY, LONGEST_REST_MS, SLICE_MS, Turns


class Desk:
    """Work that takes what it says, on a clock of its own."""

    def __init__(self, costs: dict[str, float]) -> None:
        self.now = 0.0
        self.worked = 0.0
        self.stalls = 0.0
        self.costs = costs
        self.done: list[tuple[str, float]] = []
        self.turns = Turns[int](lambda: self.now, lambda: self.worked)

    def work(self, topic: str, pieces: Sequence[int]) -> None:
        self.worked += self.costs[topic] * len(pieces)
        self.now += self.costs[topic] * len(pieces) + self.stalls
        self.done += [(topic, self.now)] * len(pieces)

    def step(self, todo: dict[str, Sequence[int]], most: int = 500, hurry: bool = False) -> float:
        """How long one step took."""
        began = self.now
        self.turns.run(todo, self.work, most, hurry)
        return self.now - began


def test_a_topic_of_long_pieces_is_not_waited_for() -> None:
    """A window of a flooded topic took half a second to judge, and there were hundreds of them:
    windows of other topics waited for all."""
    desk = Desk({"flooded": 500.0, "other": 1.0})
    for _ in range(30):
        desk.step({"flooded": range(300), "other": range(3)})
        desk.now += 1000
    told = Counter(topic for topic, _ in desk.done)
    assert told["other"] == 89, "two at first, since nobody knows what they take"
    assert told["flooded"] >= 10
    late = [at for topic, at in desk.done if topic == "other"]
    assert max(b - a for a, b in pairwise(late)) <= 1000 + 500 + 3


def test_many_short_pieces_come_first_and_a_step_is_bounded() -> None:
    desk = Desk({"many": 10.0, "few": 1.0})
    for _ in range(5):
        desk.step({"many": range(10_000)})
    assert desk.step({"many": range(10_000), "few": range(5)}) <= SLICE_MS + 5
    assert [topic for topic, _ in desk.done[-5:]] != ["few"] * 5, "few come first"


def test_in_a_hurry_a_step_is_short_and_short_pieces_are_done_all_the_same() -> None:
    """While a stranger's reports filled every round of a collector, each of its looks at windows
    took a second, nearly all of it for the stranger's: as judging had to leave three times as long
    to reading, a window of an honest topic was looked at every ten seconds."""
    desk = Desk({"many": 10.0, "few": 1.0})
    todo: dict[str, Sequence[int]] = {"many": range(10_000), "few": range(5)}
    desk.step(todo)
    for _ in range(20):
        desk.done.clear()
        desk.now += 1000
        assert desk.step(todo, hurry=True) <= SLICE_MS / HURRY + 5
        told = Counter(topic for topic, _ in desk.done)
        assert told == {"few": 5, "many": SLICE_MS / HURRY / 10}


def test_a_busy_machine_is_no_topics_fault() -> None:
    """On a machine that did other work for seconds a healthy topic rested for it, for half a
    minute."""
    desk = Desk({"one": 1.0, "other": 1.0})
    desk.stalls = 5_000
    for _ in range(10):
        desk.step({"one": range(3), "other": range(3)})
    told = Counter(topic for topic, _ in desk.done)
    assert told == {"one": 29, "other": 29}


def test_who_is_alone_does_not_rest() -> None:
    desk = Desk({"one": 700.0})
    for _ in range(10):
        desk.step({"one": range(100)})
    assert len(desk.done) >= 10


@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.tuples(st.integers(0, 40), st.floats(0, 2000)), min_size=1
    ),
    st.integers(1, 30),
)
def test_everything_is_done_once_and_nobody_starves(
    load: dict[str, tuple[int, float]], most: int
) -> None:
    desk = Desk({topic: cost for topic, (_, cost) in load.items()})
    left = {topic: list(range(count)) for topic, (count, _) in load.items()}
    seen: list[tuple[str, int]] = []

    def work(topic: str, pieces: Sequence[int]) -> None:
        desk.work(topic, pieces)
        seen.extend((topic, piece) for piece in pieces)

    for _ in range(400):
        before = len(seen)
        desk.turns.run({topic: some for topic, some in left.items() if some}, work, most)
        assert len(seen) - before <= most
        for topic, piece in seen[before:]:
            left[topic].remove(piece)
        desk.now += LONGEST_REST_MS
    assert not any(left.values())
    assert len(seen) == len(set(seen)) == sum(count for count, _ in load.values())
