"""Alerts over time: what fires is told, what ends is told after it, and never more often than
agreed, whatever the webhook does and whenever the collector is killed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.alerts.conditions import MAX_TEXT, condition
from tallymark_audit.alerts.machine import (
    LONGEST_BACKOFF_MS,
    Telling,
    advance,
    news,
    next_post_at,
    still_firing,
)
from tallymark_audit.model.alert import Alert, fingerprint

HOLD, REPEAT, INTERVAL = 10_000, 600_000, 60_000
A = condition("Missing", "critical", {"edge": "e", "topic": "a"}, {"summary": "1"}, HOLD)
B = condition("Stalled", "warning", {"edge": "e", "topic": "b"}, {"summary": "2"})


def only(alerts: list[Alert]) -> Alert:
    (alert,) = alerts
    return alert


def test_what_goes_away_before_its_time_is_forgotten_and_never_told() -> None:
    pending = only(advance([], [A], 1000).changed)
    assert pending.status == "pending"
    assert news([pending], 1000, REPEAT) == []
    step = advance([pending], [], 2000)
    assert (step.changed, step.forgotten) == ([], [pending])


def test_what_lasts_fires_from_when_it_began() -> None:
    pending = only(advance([], [A], 1000).changed)
    assert advance([pending], [A], 1000 + HOLD - 1).changed == []
    firing = only(advance([pending], [A], 1000 + HOLD).changed)
    assert (firing.status, firing.starts_at) == ("firing", 1000)


def test_new_words_are_taken_over_without_telling_again() -> None:
    firing = Alert(B.labels, B.annotations, "firing", 5, told="firing", told_at=9)
    other = replace(B, annotations={"summary": "3"})
    later = only(advance([firing], [other], 100).changed)
    assert later.annotations == {"summary": "3"}
    assert news([later], 100, REPEAT) == []


def test_what_is_over_before_it_was_told_is_told_first_as_firing() -> None:
    firing = only(advance([], [B], 0).changed)
    over = only(advance([firing], [], 50).changed)
    assert (over.status, over.ends_at) == ("resolved", 50)
    assert news([over], 60, REPEAT) == [Telling(over, "firing")]
    told = replace(over, told="firing", told_at=60)
    assert news([told], 70, REPEAT) == [Telling(told, "resolved")]
    assert replace(told, told="resolved").finished


def test_what_comes_back_is_another_alert_of_the_same_fingerprint() -> None:
    over = Alert(B.labels, B.annotations, "resolved", 100, 100, "firing", 100)
    again = only(advance([over], [B], 90).changed)  # the clock went back
    assert again.fingerprint == over.fingerprint
    assert again.starts_at == 101


def test_what_goes_on_is_told_again_after_a_while() -> None:
    firing = Alert(B.labels, B.annotations, "firing", 0, told="firing", told_at=1000)
    assert news([firing], 1000 + REPEAT - 1, REPEAT) == []
    assert news([firing], 1000 + REPEAT, REPEAT) == [Telling(firing, "firing")]


def test_in_a_pause_what_comes_and_goes_is_told_to_nobody() -> None:
    firing = only(advance([], [B], 0, muted=True).changed)
    over = only(advance([firing], [], 10, muted=True).changed)
    assert over.told == "nobody"
    assert over.finished
    before = replace(firing, told="firing", told_at=1)  # told before the pause: its end is told too
    assert not only(advance([before], [], 10, muted=True).changed).finished


def test_the_urgent_ones_first_then_ends_then_repeats() -> None:
    def made(topic: str, severity: str, **more: object) -> Alert:
        labels = {"alertname": "X", "severity": severity, "topic": topic}
        return replace(Alert(labels, {}, "firing", 10), **more)  # type: ignore[arg-type]

    mild, urgent = made("mild", "warning"), made("urgent", "critical", starts_at=20)
    over = made("over", "critical", status="resolved", told="firing")
    again = made("again", "critical", told="firing", told_at=0)
    told = news([again, over, mild, urgent], REPEAT, REPEAT)
    assert [one.alert.labels["topic"] for one in told] == ["urgent", "mild", "over", "again"]
    assert still_firing([again, over, mild, urgent], told[:1]) == [again, mild]


def test_a_webhook_that_fails_is_tried_less_often() -> None:
    waits = [next_post_at(0, failures, INTERVAL) for failures in range(6)]
    assert waits == [60_000, 120_000, 240_000, 480_000, 600_000, LONGEST_BACKOFF_MS]
    assert next_post_at(0, 10_000, 3_600_000) == 3_600_000


def test_a_fingerprint_is_of_the_labels_alone() -> None:
    assert fingerprint({"a": "1", "b": "2"}) == fingerprint({"b": "2", "a": "1"})
    assert fingerprint({"a": "1b", "c": ""}) != fingerprint({"a": "1", "bc": ""})
    assert len(fingerprint({"server": "\udcff"})) == 16


def test_words_from_outside_are_bounded_and_printable() -> None:
    made = condition("X", "warning", {"topic": "a\nb"}, {"summary": "x" * 5000, "link": ""})
    assert made.labels["topic"] == "a\\nb"
    assert len(made.annotations["summary"]) == MAX_TEXT
    assert "link" not in made.annotations


@dataclass
class World:
    """A store that a crash leaves as it is, a webhook that has its moods, and what it took."""

    rows: dict[tuple[str, int], Alert] = field(default_factory=dict[tuple[str, int], Alert])
    taken: list[tuple[int, list[Telling]]] = field(default_factory=list[tuple[int, list[Telling]]])
    tried_at: int = -INTERVAL
    failures: int = 0
    fired: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    def step(self, now: int, holding: set[int], mood: str) -> None:
        known = [alert for alert in self.rows.values() if not alert.finished]
        step = advance(known, [(A, B)[which] for which in holding], now)
        for alert in step.changed:
            self.rows[alert.fingerprint, alert.starts_at] = alert
            if alert.status == "firing":
                self.fired.add((alert.fingerprint, alert.starts_at))
        for alert in step.forgotten:
            del self.rows[alert.fingerprint, alert.starts_at]
        if now < next_post_at(self.tried_at, self.failures, INTERVAL):
            return
        told = news(self.rows.values(), now, REPEAT)
        if told:
            self.post(told, now, mood)

    def post(self, told: list[Telling], now: int, mood: str) -> None:
        self.tried_at = now
        if mood == "fails":
            self.failures += 1
            return
        self.taken.append((now, told))
        self.failures = 0
        if mood == "killed":  # before it wrote down that it was taken; the store knows older posts
            self.tried_at = max((one.told_at for one in self.rows.values()), default=0)
            return
        for alert, status in told:
            key = alert.fingerprint, alert.starts_at
            self.rows[key] = replace(self.rows[key], told=status, told_at=now)


moods = st.sampled_from(["takes", "takes", "fails", "killed"])
steps = st.lists(st.tuples(st.integers(1, 90_000), st.sets(st.integers(0, 1)), moods), max_size=40)


@given(steps)
def test_all_that_fires_is_told_and_its_end_after_it(
    plan: list[tuple[int, set[int], str]],
) -> None:
    world, now = World(), 0
    for pause, holding, mood in plan:
        now += pause
        world.step(now, holding, mood)
    for _ in range(30):  # the webhook is well at last, and all is over
        now += LONGEST_BACKOFF_MS
        world.step(now, set(), "takes")
    assert all(alert.finished for alert in world.rows.values())
    told: dict[tuple[str, int], list[str]] = {}
    for _, post in world.taken:
        for alert, status in post:
            told.setdefault((alert.fingerprint, alert.starts_at), []).append(status)
    assert set(told) == world.fired
    for statuses in told.values():
        ends = statuses.index("resolved")
        assert set(statuses[:ends]) == {"firing"}
        assert set(statuses[ends:]) == {"resolved"}


@given(steps)
def test_posts_keep_their_distance(plan: list[tuple[int, set[int], str]]) -> None:
    """But for one after a kill, which cannot know of the post that it did not write down."""
    world, now, tried = World(), 0, list[int]()
    for pause, holding, mood in plan:
        now += pause
        before = world.tried_at
        world.step(now, holding, "takes" if mood == "killed" else mood)
        if world.tried_at != before:
            tried.append(world.tried_at)
    assert all(later - one >= INTERVAL for one, later in itertools.pairwise(tried))


@pytest.mark.parametrize("muted", [True, False])
def test_nothing_that_goes_on_is_written_twice(muted: bool) -> None:
    first = advance([], [B], 0, muted).changed
    assert advance(first, [B], 1, muted).changed == []
