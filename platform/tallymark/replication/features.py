"""Levels of features: what all brokers of a cluster understand, and so may be used (KIP-584).

Each broker registers the range of levels that it supports. The cluster has one finalized level of
each feature, 0 where it is not in use yet. A level rises when every live broker supports it; a
broker that does not support a finalized level may not join. So no broker ever meets what it does
not understand::

    broker 1 supports replication 0-1 ┐
    broker 2 supports replication 0-1 ├─ replication rises to 1 ──▶ factors above 1 are allowed,
    broker 3 (of this release)        ┘                            a broker without it is refused
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from tallymark.errors import CODES, KafkaError

REPLICATION: Final = "replication.version"
"""Level 1: partitions may have several replicas."""
TRANSACTION: Final = "transaction.version"
"""Apache Kafka's. Level 2: producers may use the protocol in which each end of a transaction raises
the epoch (KIP-890). All brokers must know it before there is a transaction in the cluster."""
FIRST_WITH_ZERO: Final = 4
"""The first version of ApiVersions that may list a feature whose lowest level is 0."""


class Levels(NamedTuple):
    """The levels of a feature that a broker supports, both ends included."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        return f"{self.lowest}-{self.highest}"


Supported: TypeAlias = Mapping[str, Levels]
"""Feature -> levels, of one broker. Brokers of older releases have none."""

OURS: Final[Supported] = {REPLICATION: Levels(0, 1), TRANSACTION: Levels(0, 2)}
"""What this release supports."""


@dataclass(frozen=True, slots=True)
class Finalized:
    """The levels in force, and how often they changed (the version of their node, -1: no node).
    ``others`` are fields of the node that this version does not know."""

    levels: Mapping[str, int] = field(default_factory=dict[str, int])
    epoch: int = -1
    others: Mapping[str, object] = field(default_factory=dict[str, object])

    def level(self, feature: str) -> int:
        """0 for a feature that is not in use."""
        return self.levels.get(feature, 0)


class Served(NamedTuple):
    """What ApiVersions returns: its tags 0, 1 and 2."""

    supported: Supported
    epoch: int
    finalized: Mapping[str, int]


def raised(
    finalized: Finalized, feature: str, level: int, brokers: Mapping[int, Supported]
) -> Finalized:
    """The levels after the feature was raised; the same object where it is as high already.

    ``brokers`` are all that live. KafkaError INVALID_UPDATE_VERSION for a level below the one in
    force (what it allows may be in use), and for one that a broker does not support: it names the
    brokers. Apache Kafka has the same code for both.
    """
    now, wrong = finalized.level(feature), CODES["INVALID_UPDATE_VERSION"]
    if level < now:
        raise KafkaError(wrong, f"{feature} is at level {now} and cannot go back")
    if not any(feature in supported for supported in brokers.values()):
        raise KafkaError(wrong, f"no broker knows the feature {feature[:80]!r}")
    cannot = sorted(
        one for one, supported in brokers.items() if not _can(supported, feature, level)
    )
    if cannot:
        raise KafkaError(
            wrong, f"brokers {cannot} do not support level {level} of {feature}: upgrade them first"
        )
    if level == now:
        return finalized
    return replace(finalized, levels={**finalized.levels, feature: level})


def all_raised(
    finalized: Finalized, levels: Mapping[str, int], brokers: Mapping[int, Supported]
) -> Finalized:
    """:func:`raised`, several features at once: all or none."""
    for feature, level in levels.items():
        finalized = raised(finalized, feature, level, brokers)
    return finalized


def highest(feature: str, brokers: Mapping[int, Supported]) -> int:
    """The highest level that all of the live brokers support; 0 without brokers."""
    return min((one.get(feature, Levels(0, 0)).highest for one in brokers.values()), default=0)


def refusal(supported: Supported, finalized: Finalized) -> str | None:
    """Why a broker with this support may not join the cluster; None where it may."""
    for feature, level in sorted(finalized.levels.items()):
        if not _can(supported, feature, level):
            theirs = supported.get(feature)
            known = f"supports {theirs}" if theirs else "does not know it"
            return (
                f"the cluster uses {feature} at level {level}, this broker {known}:"
                " start a release that supports it"
            )
    return None


def without_transactions(brokers: Mapping[int, Supported]) -> list[int]:
    """The brokers that know no transactions: markers could not be written there."""
    return sorted(one for one, supported in brokers.items() if TRANSACTION not in supported)


def check_factor(factor: int, finalized: Finalized, brokers: Mapping[int, Supported]) -> None:
    """KafkaError INVALID_REPLICATION_FACTOR for more than one replica in a cluster that is not at
    the level for it, with the brokers that hold it up."""
    if factor <= 1 or finalized.level(REPLICATION) >= 1:
        return
    old = sorted(one for one, supported in brokers.items() if not _can(supported, REPLICATION, 1))
    cannot = f"brokers {old} do not support it: an older release, or no ZooKeeper"
    why = cannot if old else "it was not raised yet"
    raise KafkaError(
        CODES["INVALID_REPLICATION_FACTOR"],
        f"{factor} replicas need level 1 of {REPLICATION}: {why}",
    )


def served(supported: Supported, finalized: Finalized, version: int) -> Served:
    """What ApiVersions of ``version`` returns. Below v4 a supported feature whose lowest level is 0
    is left out: older clients fail on it (KAFKA-17011). Levels of 0 are not in force."""
    shown = {
        name: levels
        for name, levels in supported.items()
        if version >= FIRST_WITH_ZERO or levels.lowest > 0
    }
    in_force = {name: level for name, level in finalized.levels.items() if level > 0}
    return Served(shown, finalized.epoch, in_force)


def _can(supported: Supported, feature: str, level: int) -> bool:
    levels = supported.get(feature, Levels(0, 0))
    return levels.lowest <= level <= levels.highest
