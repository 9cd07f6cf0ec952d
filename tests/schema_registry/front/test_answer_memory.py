"""The memory of answers: void ones are never given, and it is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallymark_schema_registry.catalog.records import (
    ConfigSet,
    ContextRemoved,
    ModeSet,
    Record,
    SchemaAdded,
    SchemaRemoved,
    VersionAdded,
    VersionDeleted,
    VersionRemoved,
    VersionRestored,
)
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.web.front import answer_memory
from tallymark_schema_registry.web.front.answer_memory import Answer, AnswerMemory
from tallymark_schema_registry.web.front.tags import ANYTHING, Tag, about, schema, subject, touched
from tallymark_schema_registry.web.metrics.counts import Tally

A, B, C = (subject(Subject(".", name)) for name in "abc")


def answer(*tags: Tag, size: int = 0) -> Answer:
    return Answer(b"", b"x" * size, "", False, tags, Tally())


def test_a_change_drops_what_depends_on_it() -> None:
    memory = AnswerMemory()
    assert memory.put("both", answer(A, B), 0)
    assert memory.put("other", answer(C), 0)
    memory.drop([B])
    assert memory.get("both") is None
    assert memory.get("other") is not None
    assert memory.size == answer(C).size


def test_an_answer_from_before_a_change_is_not_kept_after_it() -> None:
    """A request read ``latest``, a registration came between, and the old answer was stored."""
    memory = AnswerMemory()
    since = memory.changes
    memory.drop([A])
    assert not memory.put("a", answer(A), since)
    assert memory.put("c", answer(C), since)
    assert memory.put("a", answer(A), memory.changes)


def test_an_answer_from_before_everything_changed_is_not_kept() -> None:
    memory = AnswerMemory()
    memory.put("a", answer(A), 0)
    memory.clear()
    assert memory.get("a") is None
    assert not memory.put("a", answer(A), 0)
    assert memory.put("a", answer(A), memory.changes)


def test_changes_of_long_ago_are_known_all_together() -> None:
    """The last change of each tag is kept for 20,000 of them: what is older counts for all tags."""
    memory = AnswerMemory()
    for number in range(answer_memory._TAGS_KEPT + 10):
        memory.drop([("subject", ".", str(number))])
    assert not memory.put("new", answer(("subject", ".", "never touched")), 5)
    assert memory.put("new", answer(("subject", ".", "never touched")), 10)


def test_it_is_bounded_in_bytes() -> None:
    """10,000 lists of subjects of 300 kB each are 3 GB."""
    memory = AnswerMemory(capacity=10_000, largest=5_000)
    for number in range(100):
        memory.put(number, answer(A, size=1_000), 0)
        memory.get(95)
    assert memory.size <= 10_000
    assert memory.get(99) is not None
    assert memory.get(95) is not None, "what was used last stays"
    assert memory.get(94) is None
    assert not memory.put("large", answer(A, size=5_001), 0)
    memory.drop([A])
    assert (len(memory), memory.size) == (0, 0)


TAGS = st.lists(st.sampled_from((A, B, C)), min_size=1, max_size=2, unique=True)
KEYS = st.sampled_from("klm")
STEPS = st.one_of(
    st.tuples(st.just("begin"), KEYS, TAGS),
    st.tuples(st.just("end"), KEYS, TAGS),
    st.tuples(st.just("change"), KEYS, TAGS),
    st.tuples(st.just("clear"), KEYS, TAGS),
)


@given(st.lists(STEPS, max_size=30))
def test_what_is_given_is_what_would_be_computed_now(
    steps: list[tuple[str, str, list[Tag]]],
) -> None:
    """Requests begin, the things that they depend on change, requests end: no answer that memory
    gives depends on anything that has changed since its request arrived."""
    memory = AnswerMemory()
    state = {A: 0, B: 0, C: 0}
    began: dict[str, tuple[int, list[Tag], list[int]]] = {}
    kept: dict[str, tuple[list[Tag], list[int]]] = {}
    for what, key, tags in steps:
        if what == "begin":
            began[key] = memory.changes, tags, [state[tag] for tag in tags]
        elif what == "end" and key in began:
            since, of, seen = began.pop(key)
            if memory.put(key, answer(*of), since):
                kept[key] = of, seen
        elif what == "change":
            for tag in tags:
                state[tag] += 1
            memory.drop(tags)
        elif what == "clear":
            state = {tag: number + 1 for tag, number in state.items()}
            memory.clear()
        for name, (of, seen) in kept.items():
            if memory.get(name) is not None:
                assert [state[tag] for tag in of] == seen
    held = [found for key in kept if (found := memory.get(key)) is not None]
    assert memory.size == sum(found.size for found in held)


def test_what_a_change_touches() -> None:
    def tags(record: Record) -> set[Tag]:
        found = set(touched(record))
        assert ANYTHING in found
        return found - {ANYTHING}

    assert tags(SchemaAdded(".", 1, "0" * 32)) == set()
    assert tags(SchemaRemoved(".", 1)) == {schema(".", 1)}
    for made in (VersionDeleted, VersionRestored, VersionRemoved):
        assert tags(made(".", "a", 1)) == {A}
    assert tags(VersionAdded(".", "a", 1, 1, 0)) == {A}
    for settings in (ConfigSet, ModeSet):
        assert tags(settings(".", "a")) == {A}
        assert tags(settings(".", "")) <= set(about(Subject(".", "b")))
        assert tags(settings(".__GLOBAL", "")) <= set(about(Subject(".x", "b")))
        assert tags(settings(".x", "")).isdisjoint(about(Subject(".", "b")))
    assert tags(ContextRemoved(".x")) <= set(about(Subject(".x", "b")))
