"""Which commands may be decided side by side and stored in one transaction."""

from __future__ import annotations

from typing import Any

import pytest
from decider import PLACE, Decider, content, sent, subject
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark_schema_registry.decisions.commands import (
    Check,
    Decision,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Import,
    LookUp,
    Register,
    RestoreVersion,
    SetConfig,
    SetMode,
)
from tallymark_schema_registry.decisions.decide import decide
from tallymark_schema_registry.decisions.independence import Touched, touched
from tallymark_schema_registry.errors import RegistryError

SUBJECTS = st.sampled_from(["s", "t", "u", "v", ":.c:s"]).map(subject)
SPECS = st.sampled_from(["1", "2", "latest"])
REFERENCES = st.lists(st.tuples(st.sampled_from("stu"), st.sampled_from([-1, 1])), max_size=1)
REGISTRATIONS = st.builds(
    lambda name, text, references: Register(name, sent(text, *references)),
    SUBJECTS,
    st.sampled_from(["a", "b", "c", "d", "m(a)", ""]),
    REFERENCES,
)
COMMANDS = st.one_of(
    REGISTRATIONS,
    REGISTRATIONS,
    st.builds(
        lambda name, version, schema_id, text: Import(name, version, schema_id, content(text)),
        SUBJECTS,
        st.integers(1, 3),
        st.integers(1, 9),
        st.sampled_from("abc"),
    ),
    st.builds(DeleteVersion, SUBJECTS, SPECS, st.booleans()),
    st.builds(DeleteSubject, SUBJECTS, st.booleans()),
    st.builds(RestoreVersion, SUBJECTS, SPECS),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(COMMANDS, max_size=15), st.lists(COMMANDS, min_size=4, max_size=10))
@pytest.mark.slow
def test_commands_of_one_transaction_do_what_they_do_one_after_the_other(
    before: list[Any], waiting: list[Any]
) -> None:
    decider = Decider()
    for command in before:
        if _prepared(decider, command):
            decider.do(command)
    batch = list[tuple[Any, Decision, Touched]]()
    taken = dict[str, int]()
    for command in waiting:
        prepared = _prepared(decider, command)
        if prepared is None:
            continue
        there = touched(decider.catalog, prepared)
        for _, _, other in batch:
            assert other.is_independent_of(there) is there.is_independent_of(other)
        if all(other.is_independent_of(there) for _, _, other in batch):
            decision = decide(decider.catalog, prepared, 7, taken)
            assert isinstance(decision, Decision)
            batch.append((prepared, decision, there))
            for context, schema_id, _ in decision.contents:
                taken[context] = max(schema_id, taken.get(context, 0))
    for prepared, decision, _ in batch:
        assert decide(decider.catalog, prepared, 7) == decision
        decider.apply(decision)


def _prepared(decider: Decider, command: Any) -> Any:
    """The command with all that it was asked; None where it is refused."""
    try:
        return decider.prepared(command)[0]
    except RegistryError:
        return None


def _touched(decider: Decider, command: Any) -> Touched:
    return touched(decider.catalog, decider.prepared(command)[0])


def test_registrations_of_different_schemas_in_different_subjects_share_a_transaction() -> None:
    decider = Decider()
    one = _touched(decider, Register(subject("s"), sent("a")))
    other = _touched(decider, Register(subject("t"), sent("b")))
    assert one.is_independent_of(other)
    assert not one.is_independent_of(one)


@pytest.mark.parametrize(
    "other",
    [
        Register(subject("t"), sent("a")),
        Register(subject("s"), sent("b")),
        Register(subject("u"), sent("b", ("s", 1))),
        DeleteVersion(subject("s"), "1"),
        DeleteSubject(subject("s")),
        DeleteSubject(subject("gone"), permanent=True),
        RestoreVersion(subject("s"), "1"),
        Import(subject("t"), 1, 5, content("b")),
        SetConfig(PLACE, {"normalize": True}),
        SetConfig(subject("t"), {"alias": "s"}),
        DeleteConfig(PLACE),
        SetMode(subject("t"), "READONLY"),
        DeleteMode(PLACE),
        DeleteContext(".c"),
    ],
)
def test_what_one_command_may_change_for_another(other: Any) -> None:
    decider = Decider()
    decider.do(Register(subject("s"), sent("old")))
    decider.do(Register(subject("gone"), sent("gone")))
    decider.do(DeleteSubject(subject("gone")))
    command = _touched(decider, Register(subject("s"), sent("a")))
    assert not command.is_independent_of(_touched(decider, other))


def test_an_alias_is_the_subject_that_it_means() -> None:
    decider = Decider()
    decider.do(SetConfig(subject("alias"), {"alias": "s"}))
    one = _touched(decider, Register(subject("alias"), sent("a")))
    assert not one.is_independent_of(_touched(decider, Register(subject("s"), sent("b"))))


def test_imports_share_a_transaction_unless_they_bring_one_id() -> None:
    decider = Decider()
    one = _touched(decider, Import(subject("s"), 1, 5, content("a")))
    assert one.is_independent_of(_touched(decider, Import(subject("t"), 1, 6, content("b"))))
    assert not one.is_independent_of(_touched(decider, Import(subject("t"), 1, 5, content("a"))))
    assert not one.is_independent_of(_touched(decider, Import(subject("s"), 2, 6, content("b"))))
    # Which of two ids for one content is the second one, the store must know.
    assert not one.is_independent_of(_touched(decider, Import(subject("t"), 1, 6, content("a"))))


def test_an_id_that_a_client_chooses_is_not_the_next_one_of_another() -> None:
    decider = Decider()
    decider.do(SetMode(subject("s"), "IMPORT"))
    chosen = _touched(decider, Register(subject("s"), sent("a", schema_id=1)))
    following = _touched(decider, Register(subject("t"), sent("b")))
    assert not chosen.is_independent_of(following)
    assert not following.is_independent_of(chosen)
    other = _touched(decider, Import(subject("t"), 1, 2, content("b")))
    assert chosen.is_independent_of(other)
    assert not touched(decider.catalog, Register(subject("t"), sent("b"))).writes


def test_what_changes_nothing_is_independent_of_what_changes_little() -> None:
    decider = Decider()
    decider.do(Register(subject("s"), sent("a")))
    look_up = _touched(decider, LookUp(subject("s"), sent("a")))
    check = _touched(decider, Check(subject("s"), None, sent("b")))
    assert look_up.is_independent_of(check)
    assert look_up.is_independent_of(_touched(decider, Register(subject("t"), sent("b"))))
