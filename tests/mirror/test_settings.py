"""What the settings say of a mirror's topics, and what they may not say."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from tallymark.deployment import Deployment, Mirror, dump_toml
from tallymark.errors import UserError
from tallymark.mirror.opening import topics_pattern
from tallymark.mirror.settings import find_mirrors
from tallymark.mirror.target.loop_guard import announcement, read_announcement


def mirror(source: str = "dc1", target: str = "aggregate", **settings: Any) -> Mirror:
    return Mirror(source=source, target=target, **settings)


def test_names_at_the_target() -> None:
    one = mirror(rename="{source}.{topic}", renames={"x_(.*)": r"y.\1", "z": "z"})
    assert [one.target_topic(name) for name in ("x_1", "z", "x")] == ["y.1", "z", "dc1.x"]
    assert mirror().target_topic("x") == "x"


def test_what_is_copied() -> None:
    one = mirror(topics="c.*|d", exclude="cold", renames={"cx": "y"})
    names = ("clicks", "cold", "coldest", "cx", "d", "other", "_c")
    assert [name for name in names if one.copies(name)] == ["clicks", "coldest", "cx", "d"]


def test_two_topics_that_would_become_one_are_refused() -> None:
    """Two names into one: the audit could not tell whose record is whose, and would have called
    each of them lost, or, worse, complete."""
    with pytest.raises(ValidationError, match="'a' and 'b' would both be called 'all'"):
        mirror(renames={"a": "all", "b": "all"})
    assert mirror(renames={"a": "all", "b": "all"}, exclude="b").target_topic("a") == "all"
    assert mirror(renames={"a.*": "all", "b": "others"}).target_topic("ab") == "all"


@pytest.mark.parametrize(
    "wrong",
    [
        {"rename": "x{"},
        {"rename": "q"},
        {"rename": "{foo}{topic}"},
        {"renames": {"(": "a"}},
        {"renames": {"a": r"\2"}},
        {"topics": "["},
        {"exclude": "*"},
        {"checkpoint_groups": "("},
        {"partitions": "some"},
        {"metrics_port": 70000},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        mirror(**wrong)


def test_rules_survive_the_file() -> None:
    one = mirror(rename="{source}.{topic}", renames={r"x_(\d+)": r"y.\1"}, exclude="no.*")
    deployment = Deployment(mirrors=(one,))
    assert Deployment.model_validate(tomllib.loads(dump_toml(deployment))) == deployment


def test_topics_that_come_back_under_their_prefix_are_not_even_read() -> None:
    there = mirror("dc1", "dc2", rename="{source}.{topic}")
    back = mirror("dc2", "dc1", rename="{source}.{topic}", exclude="secret")
    deployment = Deployment(mirrors=(there, back))
    names = ("clicks", "dc1.clicks", "dc2.clicks", "secret", "dc1x")
    pattern = topics_pattern(deployment, back)
    assert [name for name in names if re.fullmatch(pattern, name)] == [
        "clicks",
        "dc2.clicks",
        "dc1x",
    ]
    assert topics_pattern(Deployment(), mirror()) == ".*"


def test_the_mirrors_of_a_target() -> None:
    deployment = Deployment()
    assert [one.name for one in find_mirrors(deployment, (), "aggregate")] == [
        "dc1-to-aggregate",
        "dc2-to-aggregate",
    ]
    assert [one.source for one in find_mirrors(deployment, ("dc2", "dc2"), "aggregate")] == ["dc2"]
    for sources in ((), ("dc2",)):
        with pytest.raises(UserError, match="there is: dc1 to aggregate, dc2 to aggregate"):
            find_mirrors(deployment, sources, "dc1")


def test_announcements() -> None:
    assert read_announcement(*announcement(7, "a-to-b", frozenset({"A", "C"}))) == (
        7,
        frozenset({"A", "C"}),
    )
    for key, value in ((None, None), (b"7", b"{}"), (b"x", b'{"origin": []}'), (b"7", b"[]")):
        assert read_announcement(key, value) is None
