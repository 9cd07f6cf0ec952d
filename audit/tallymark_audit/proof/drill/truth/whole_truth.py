"""The truth of one drill, put together: the books, every cluster's log, the logs of topics that
were deleted, and what the group was given; and what has to be said of all that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark_audit.proof.drill.planning.topology import (
    AGGREGATE,
    CONSUMER_HOP,
    GROUP,
    SKEW_MS,
    TOPIC,
    WINDOW_MS,
    SideTopic,
    Topology,
)
from tallymark_audit.proof.drill.truth.books_and_logs import (
    Book,
    Consumed,
    Log,
    LostHost,
    LostMember,
    MessageId,
    OldLog,
    Unreadable,
    read_books,
    read_consumed,
    read_files,
    read_log,
    read_reports,
    read_young,
)
from tallymark_audit.proof.drill.truth.elections import UncleanElection, expect_saved
from tallymark_audit.proof.drill.truth.expected import (
    Expectation,
    expect,
    expect_gone,
    expect_nothing,
    expect_repeats,
    expect_skew,
)
from tallymark_audit.proof.drill.truth.lake_rows import expect_of_lake, lake_of

GROUP_LOG: Final = f"group:{GROUP}"
"""The name among the logs of what the group was given."""


class Deleted(NamedTuple):
    """A topic that was deleted at ``cluster``: what the deleted ``log`` held, what stands there
    ``now``, and what of the deleted one was too young to have been counted for certain."""

    cluster: str
    log: Log
    now: Log
    young: set[MessageId]


@dataclass(frozen=True, slots=True)
class Truth:
    """``logs``: by cluster, with what was deleted there. ``consumed``: None without a group.
    ``reported``: by producer run, up to when (ms) the audit topic has its reports. ``lake``: the
    rows of its tables, None without any."""

    books: list[Book]
    logs: dict[str, Log]
    deleted: list[Deleted]
    consumed: Consumed | None
    reported: Mapping[str, int] = field(default_factory=dict[str, int])
    lake: Log | None = None

    @property
    def all_logs(self) -> dict[str, Log]:
        """``logs``, and by :data:`GROUP_LOG` what the group was given."""
        return self.logs | ({GROUP_LOG: self.consumed.log} if self.consumed is not None else {})


def read_truth(
    topology: Topology,
    topics: Sequence[SideTopic],
    old_logs: Iterable[OldLog],
    unreadable: Iterable[Unreadable],
) -> Truth:
    """Read everything. UserError: it cannot be read, or contradicts itself."""
    damaged = {(place.cluster, place.topic) for place in unreadable}
    logs: dict[str, Log] = {}
    for cluster in topology.deployment.clusters:
        name = cluster.name
        wanted = (TOPIC, *(one.name for one in topics))
        readable = [topic for topic in wanted if (name, topic) not in damaged]
        logs[name] = read_log(topology.straight(name), readable)
    for cluster_name, topic in damaged:
        folder = topology.broker_folder(cluster_name) / f"{topic}-0"
        read_files(sorted(folder.glob("[0-9]*.log")), topic, 0, logs[cluster_name])
    deleted = _read_deleted(old_logs, logs)
    consumed = None
    if CONSUMER_HOP in topology.hops:
        consumed = read_consumed(topology.sealed / f"{GROUP}.consumed", TOPIC)
    reported: dict[str, int] = {}
    for cluster in topology.deployment.clusters:
        reported |= read_reports(topology.straight(cluster.name))
    return Truth(
        read_books(topology.sealed), logs, deleted, consumed, reported, lake_of(topology, topics)
    )


class Gone(NamedTuple):
    """What is gone: hosts and members with their journals, batches that cannot be read, and what
    unclean elections took."""

    hosts: Sequence[LostHost]
    members: Sequence[LostMember]
    unreadable: Sequence[Unreadable]
    elections: Sequence[UncleanElection] = ()


def expect_all(truth: Truth, topology: Topology, start: int, gone: Gone) -> Expectation:
    """What the audit has to say of the truth; ``start`` (ms): when the producers began."""
    hosts = [one._replace(reported=truth.reported.get(one.instance, 0)) for one in gone.hosts]
    found = expect(truth.books, truth.logs, topology.mirrors, WINDOW_MS, hosts)
    if truth.consumed is not None:
        found.add(_expect_of_group(truth.logs[AGGREGATE], truth.consumed.log))
    if truth.lake is not None:
        found.add(expect_of_lake(truth.logs[AGGREGATE], truth.lake))
    expect_skew(found, truth.books, start - SKEW_MS, WINDOW_MS)
    for old in truth.deleted:
        expect_gone(found, old.cluster, old.log, old.now, old.young)
    if truth.consumed is not None:
        lately = [truth.consumed.last[one.server] for one in gone.members]
        doubtful = set().union(*truth.consumed.in_hand.values(), *lately)
        expect_repeats(found, CONSUMER_HOP, doubtful)
    for place in gone.unreadable:
        expect_nothing(found, place)
    for election in gone.elections:
        expect_saved(found, election, truth.logs[AGGREGATE])
    return found


def _expect_of_group(upstream: Log, given: Log) -> Expectation:
    """The group reads the main topic, and owes no other."""
    owed = {origin: seen for origin, seen in upstream.items() if origin.topic == TOPIC}
    logs = {AGGREGATE: owed, GROUP_LOG: given}
    return expect([], logs, [(AGGREGATE, GROUP_LOG)], WINDOW_MS)


def _read_deleted(old_logs: Iterable[OldLog], logs: dict[str, Log]) -> list[Deleted]:
    """What deleted topics held; added to what their clusters have."""
    found: list[Deleted] = []
    by_topic: dict[tuple[str, str], list[OldLog]] = {}
    for old in old_logs:
        by_topic.setdefault((old.cluster, old.topic), []).append(old)
    for (cluster, topic), parts in by_topic.items():
        log: Log = {}
        young: set[MessageId] = set()
        for old in parts:
            partition = int(old.files[0].parent.name.rpartition("-")[2])
            read_files(old.files, topic, partition, log)
            young |= read_young(old)
        now = {origin: seen for origin, seen in logs[cluster].items() if origin.topic == topic}
        logs[cluster] = _together(logs[cluster], log)
        found.append(Deleted(cluster, log, now, young))
    return found


def _together(one: Log, other: Log) -> Log:
    return {
        origin: {
            sequence: [
                *other.get(origin, {}).get(sequence, ()),
                *one.get(origin, {}).get(sequence, ()),
            ]
            for sequence in one.get(origin, {}).keys() | other.get(origin, {}).keys()
        }
        for origin in one.keys() | other.keys()
    }
