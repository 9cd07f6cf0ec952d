"""What copies of topics are called downstream, when somebody else copies. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tallymark.deployment import Mirror
from tallymark_audit.attach.found import ClusterFound
from tallymark_audit.model.edges import is_audited

SAME: Final = "{topic}"


def usual_rename(source: ClusterFound, target: ClusterFound, pattern: str) -> str:
    """How the copies that are there are named: as at the source, or behind a prefix and a dot as
    MirrorMaker 2 does (its DefaultReplicationPolicy); the one that fits more topics."""
    wanted = {name for name in source.topics if is_audited(name, pattern)}
    fits = Counter({SAME: len(wanted & target.topics.keys())})
    for name in target.topics:
        for at in (i for i, letter in enumerate(name) if letter == "." and i):
            if name[at + 1 :] in wanted:
                fits[name[: at + 1] + SAME] += 1
    best, count = fits.most_common(1)[0]
    return best if count > fits[SAME] else SAME


def copied_topics(mirror: Mirror, names: Iterable[str], target: ClusterFound) -> frozenset[str]:
    """Those of the source's topics of which the target has a copy."""
    return frozenset(name for name in names if mirror.target_topic(name) in target.topics)
