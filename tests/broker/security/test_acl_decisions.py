"""Who may do what: the rules one by one, and all together against a naive reading of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.broker.security.acl_rules import IMPLIED_BY, AclRules
from tallymark.errors import KafkaError
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.filter import AclFilter, checked_acl
from tallymark.protocol.acls.text import STORED_OPERATIONS, kind_name, restored, stored
from tallymark.protocol.acls.words import (
    ALL_OPERATIONS,
    ALLOW,
    ANY,
    DENY,
    MATCH,
    Operation,
    Pattern,
    ResourceType,
)

R, T, G = Operation, ResourceType.TOPIC, ResourceType.GROUP
NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
PEOPLE = st.sampled_from(["User:ann", "User:bob", "User:*"])
HOSTS = st.sampled_from(["*", "10.0.0.1", "10.0.0.2"])
ACLS = st.builds(
    Acl,
    st.sampled_from([T, G]),
    NAMES,
    st.sampled_from(Pattern),
    PEOPLE,
    HOSTS,
    st.sampled_from([ALL_OPERATIONS, *map(int, Operation)]),
    st.booleans(),
)


def topic(
    name: str,
    operation: int = Operation.READ,
    *,
    allow: bool = True,
    principal: str = "User:ann",
    pattern: Pattern = Pattern.LITERAL,
    host: str = "*",
) -> Acl:
    return Acl(T, name, pattern, principal, host, operation, allow)


def may(acls: list[Acl], operation: Operation = R.READ, name: str = "clicks") -> bool:
    return AclRules(acls).may("User:ann", "10.0.0.1", operation, T, name)


def naive(
    acls: list[Acl], opened: bool, who: str, host: str, operation: Operation, name: str
) -> bool:
    """The rules as one would say them, with no index."""
    applying = [
        a
        for a in acls
        if a.kind is T
        and (
            (a.pattern is Pattern.LITERAL and a.name in (name, "*"))
            or (a.pattern is Pattern.PREFIXED and name[: len(a.name)] == a.name)
        )
    ]
    if not applying:
        return opened
    theirs = [a for a in applying if a.principal in (who, "User:*") and a.host in (host, "*")]
    for a in theirs:
        if not a.allow and a.operation in (2, operation):
            return False
    good = {2, *map(int, IMPLIED_BY.get(operation, (operation,)))}
    return any(a.allow and a.operation in good for a in theirs)


@settings(max_examples=300)
@given(
    st.lists(ACLS, max_size=8),
    st.booleans(),
    st.sampled_from(["User:ann", "User:bob"]),
    st.sampled_from(["10.0.0.1", "10.0.0.9"]),
    st.sampled_from(Operation),
    st.sampled_from(["a", "ab", "abcd", "b", "c", "*"]),
)
@pytest.mark.slow
def test_decisions_are_those_of_a_naive_reading(
    acls: list[Acl], opened: bool, who: str, host: str, operation: Operation, name: str
) -> None:
    found = AclRules(acls, open_without_entries=opened).may(who, host, operation, T, name)
    assert found is naive(acls, opened, who, host, operation, name)


@settings(max_examples=200)
@given(st.lists(ACLS, max_size=6), st.sampled_from([R.READ, R.WRITE]))
def test_somewhere_means_that_there_is_a_name(acls: list[Acl], operation: Operation) -> None:
    """Names of a few letters over what the entries name are enough to find one."""
    rules = AclRules(acls)
    alphabet = ["a", "ab", "abc", "abz", "az", "b", "bz", "abcz", "z", "*z"]
    found = [n for n in alphabet if rules.may("User:ann", "10.0.0.1", operation, T, n)]
    if found:
        assert rules.may_somewhere("User:ann", "10.0.0.1", operation, T)


def test_nothing_is_allowed_without_an_entry() -> None:
    assert not may([])
    assert AclRules([], open_without_entries=True).may("User:ann", "h", R.READ, T, "clicks")
    assert AclRules([], {"User:ann"}).may("User:ann", "h", R.READ, T, "clicks")


def test_what_permissions_imply() -> None:
    for operation in (R.READ, R.WRITE, R.DELETE, R.ALTER):
        assert may([topic("clicks", operation)], R.DESCRIBE)
    assert not may([topic("clicks", R.CREATE)], R.DESCRIBE)
    assert may([topic("clicks", R.ALTER_CONFIGS)], R.DESCRIBE_CONFIGS)
    assert not may([topic("clicks", R.DESCRIBE)], R.READ)


def test_a_denial_wins_and_implies_nothing() -> None:
    acls = [topic("*", ALL_OPERATIONS), topic("clicks", R.READ, allow=False)]
    assert not may(acls)
    assert may(acls, R.WRITE)
    assert may(acls, R.DESCRIBE)  # WRITE implies it, and only READ is denied
    assert not may([*acls, topic("cl", 2, allow=False, pattern=Pattern.PREFIXED)], R.WRITE)


def test_hosts_and_everybody() -> None:
    assert may([topic("clicks", principal="User:*", host="10.0.0.1")])
    assert not may([topic("clicks", host="10.0.0.2")])


def test_somewhere() -> None:
    def somewhere(*acls: Acl) -> bool:
        return AclRules(acls).may_somewhere("User:ann", "h", R.WRITE, T)

    allowed = topic("clicks", R.WRITE)
    assert somewhere(allowed)
    assert not somewhere(topic("clicks", R.READ))
    assert not somewhere(allowed, topic("cl", 2, allow=False, pattern=Pattern.PREFIXED))
    assert not somewhere(topic("*", R.WRITE), topic("*", R.WRITE, allow=False))
    assert somewhere(topic("*", R.WRITE), allowed, topic("clicks", R.WRITE, allow=False))


@given(ACLS)
def test_entries_are_stored_and_restored(acl: Acl) -> None:
    found = restored(kind_name(acl.kind), acl.pattern, acl.name, stored(acl))
    assert found == acl


@given(ACLS, st.sampled_from(["a", "ab", "abcd", "*"]))
def test_a_match_filter_finds_what_applies_to_the_name(acl: Acl, name: str) -> None:
    wanted = AclFilter(acl.kind, name, MATCH)
    assert wanted.matches(acl) is acl.covers(name)
    assert AclFilter().matches(acl)
    assert AclFilter(acl.kind, acl.name, acl.pattern, acl.principal, acl.host).matches(acl)
    assert not AclFilter(permission=DENY if acl.allow else ALLOW).matches(acl)
    assert not AclFilter(name=acl.name + "?").matches(acl)


@pytest.mark.parametrize(
    "values",
    [
        (1, "a", 3, "User:ann", "*", 3, 3),
        (7, "a", 3, "User:ann", "*", 3, 3),
        (2, "", 3, "User:ann", "*", 3, 3),
        (2, "a", 2, "User:ann", "*", 3, 3),
        (2, "a", 3, "ann", "*", 3, 3),
        (2, "a", 3, "User:", "*", 3, 3),
        (2, "a", 3, "User:ann", "", 3, 3),
        (2, "a", 3, "User:ann", "*", ANY, 3),
        (2, "a", 3, "User:ann", "*", 3, 1),
        (2, "a\n", 3, "User:ann", "*", 3, 3),
        (4, "other", 3, "User:ann", "*", 3, 3),
        (2, "a" * 2000, 3, "User:ann", "*", 3, 3),
    ],
)
def test_entries_that_make_no_sense(values: tuple[int, str, int, str, str, int, int]) -> None:
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        checked_acl(*values)


def test_filters_with_unknown_elements() -> None:
    for wanted in (AclFilter(kind=9), AclFilter(pattern=7), AclFilter(operation=0)):
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            wanted.check()


def test_kafkas_names_of_operations() -> None:
    assert STORED_OPERATIONS["All"] == 2
    assert STORED_OPERATIONS["IdempotentWrite"] == 12
    assert kind_name(ResourceType.TRANSACTIONAL_ID) == "TransactionalId"
