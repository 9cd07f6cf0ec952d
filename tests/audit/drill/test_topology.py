"""The drill's folder and settings."""

from pathlib import Path

import pytest

from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark_audit.proof.drill.planning.topology import AGGREGATE, build


def test_a_mirror_behind_a_proxy_has_settings_of_its_own(tmp_path: Path) -> None:
    made = build(tmp_path / "drill", ["dc1-to-aggregate", "producer-to-dc2"])
    try:
        (path,) = made.own.values()
        assert list(made.own) == ["mirror-dc1-to-aggregate"]
        proxied, straight = load(str(path)), load(str(made.settings))
        hop = made.hops["dc1-to-aggregate"]
        assert proxied.cluster(AGGREGATE).bootstrap_servers == f"127.0.0.1:{hop.port}"
        assert hop.target == straight.cluster(AGGREGATE).bootstrap_servers
        assert proxied.cluster("dc1") == straight.cluster("dc1")
        assert made.bootstrap("dc2") != made.straight("dc2")
        assert made.bootstrap("dc1") == made.straight("dc1")
        assert straight.audit.content_check
    finally:
        made.release()


def test_a_folder_that_holds_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="what no drill has put there"):
        build(tmp_path, [])
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_one_drill_at_a_time_and_the_next_one_begins_with_an_empty_folder(tmp_path: Path) -> None:
    first = build(tmp_path / "drill", [])
    (first.folder / "audit.db").write_text("old")
    (first.sealed).mkdir()
    with pytest.raises(UserError, match="a drill is running"):
        build(tmp_path / "drill", [])
    assert (first.folder / "audit.db").exists()
    first.release()
    build(tmp_path / "drill", []).release()
    assert not (first.folder / "audit.db").exists()
    assert not first.sealed.exists()
