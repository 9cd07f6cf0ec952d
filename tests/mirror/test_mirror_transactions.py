"""Transactions of our own broker through a mirror: what was aborted stays behind, by default."""

from __future__ import annotations

from typing import Any

import pytest
from eventually import eventually
from mirror_rig import Rig, rig, zookeeper
from outcomes import ALL, COMMITTED, VALUES, write_outcomes

from tallymark.deployment import Mirror as MirrorSettings

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

MARKERS = len(VALUES) - 1


@pytest.mark.parametrize("isolation", [None, "read_uncommitted"])
def test_aborted_messages_are_copied_where_that_is_asked_for_only(rig: Rig, isolation: Any) -> None:
    rig.start("source", "target")
    given = {} if isolation is None else {"isolation": isolation}
    rig.mirrors = (MirrorSettings(source="source", target="target", topics="t", **given),)
    rig.topic("source", "t")
    write_outcomes(rig.brokers["source"].bootstrap_servers, "t")
    mirror = rig.mirror()
    end = len(VALUES) + MARKERS
    eventually(lambda: bool(mirror.seen.gaps) and mirror.seen.gaps[-1][3] == end)
    expected = COMMITTED if isolation is None else ALL
    eventually(lambda: rig.count("t") >= len(expected))
    mirror.stop()
    assert rig.values("t") == expected
    reasons = [gap[4] for gap in mirror.seen.gaps]
    assert reasons.count("aborted") == (2 if isolation is None else 0)
    assert reasons.count("control") == MARKERS
