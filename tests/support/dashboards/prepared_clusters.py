"""Clusters, groups and a registry as the background task would have found them: one of everything
that pages about them have to show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tallymark.serialization.schemas import Reference
from tallymark_dashboards.snapshots.holder import Snapshots, longest, total, worst
from tallymark_dashboards.snapshots.registry_shapes import (
    RegistryState,
    SubjectState,
    SubjectVersion,
)
from tallymark_dashboards.snapshots.replica_book import BACK, BEHIND, GONE, NAMED
from tallymark_dashboards.snapshots.shapes import (
    BrokerDescription,
    ClusterDescription,
    ClusterState,
    CoursePoint,
    Delay,
    GroupPartition,
    GroupState,
    IsrChange,
    MemberDescription,
    OpenTransaction,
    Part,
    PartitionState,
    Standing,
    Status,
    TopicState,
    Transactions,
)

HOSTILE = "<script>alert(1)</script>\u202e" + "x" * 220
MINUTE = 60_000


def partition(
    topic: str, number: int, lag: int, status: Status = Status.OK, why: str = "", owner: str = "m-1"
) -> GroupPartition:
    """Of a log from 0 to 10,000."""
    late = Delay(lag * 1000, least=lag > 4_000)
    offset = 10_000 - lag
    return GroupPartition(topic, number, offset, 0, 10_000, lag, late, owner, status, why or "fine")


def group(
    name: str, *partitions: GroupPartition, state: str = "Stable", kept: str = "brokers"
) -> GroupState:
    """A group of one member, with what its partitions sum up to."""
    owned = tuple((one.topic, one.partition) for one in partitions if one.owner)
    members = (MemberDescription("m-1", None, "loader-7f", "10.0.3.17", owned),) if owned else ()
    status = worst(partitions)
    why = next((one.why for one in partitions if one.status is status), "nothing is committed")
    return GroupState(
        name, "zookeeper" if kept == "zookeeper" else "brokers", state, "cooperative-sticky",
        1 if kept == "brokers" else -1, members, partitions, 1, "", total(partitions),
        longest(partitions), status, why,
    )  # fmt: skip


def groups(now: int) -> Part[Mapping[str, GroupState]]:
    """One group of each status, and one with a name that is meant to harm."""
    quiet = "its offset has not moved for 312 s, and there are messages to read"
    stalled = [
        partition("orders", n, 700 * n, *((Status.STALLED, quiet) if n else (Status.OK, "")))
        for n in range(4)
    ]
    gone = partition("clicks", 0, 5_000, Status.STOPPED, f"{quiet}; no member reads it", "")
    found = [
        group("billing", partition("orders", 0, 0), partition("orders", 1, 0)),
        group("fraud-detection", *stalled),
        group("nightly-export", gone, state="Empty"),
        group(
            "search-index",
            partition("clicks", 0, 900, Status.WARN, "it reads, but its lag grows: 400 more"),
        ),
        group("new-one"),
        group(HOSTILE, partition("clicks", 0, 3)),
    ]
    return Part({one.group: one for one in found}, now - 4_000, now - 4_000)


def topic(name: str, partitions: int, leaderless: Iterable[int] = (), short: int = 0) -> TopicState:
    """Three replicas; ``short`` partitions lack one in sync."""
    without = set(leaderless)
    parts = tuple(
        PartitionState(
            n, -1 if n in without else 1 + n % 3, (1, 2, 3),
            () if n in without else (1, 2) if n < short else (1, 2, 3),
            None if n in without else 0, None if n in without else 10_000,
        )
        for n in range(partitions)
    )  # fmt: skip
    return TopicState(name, name.startswith("_"), parts, 1)


def cluster(name: str, now: int) -> ClusterState:
    """Three brokers; ``dc1`` with leaderless partitions, ``dc2`` away for some minutes."""
    brokers = tuple(BrokerDescription(n, f"{name}-broker-{n}.example", 9092) for n in (1, 2, 3))
    topics = [topic("clicks", 12), topic("orders", 4), topic("_tallymark_audit", 1)]
    if name == "dc1":
        topics += [topic("payments", 6, leaderless=(2, 5), short=1)]
        alone = PartitionState(0, 1, (3, 1, 2), (1,), 0, 10_000)
        topics += [TopicState("ledger", False, (alone,), 1, min_insync=2)]
    at = now - 7 * MINUTE if name == "dc2" else now - 4_000
    away = "dc2-broker-1.example:9092: connect failed: connection refused" if name == "dc2" else ""
    return ClusterState(
        name,
        f"{name}-broker-1.example:9092",
        Part(ClusterDescription(f"id-{name}", 2, brokers), at, now, away),
        Part({one.name: one for one in topics}, at, now, away),
        groups(now) if name == "dc1" else Part({}, at, now, away),
        isr_changes=isr_changes(now) if name == "dc1" else (),
        short_since={("ledger", 0): now - 6 * MINUTE} if name == "dc1" else {},
        transactions=Part(transactions(now) if name == "dc1" else Transactions(), at, now, away),
    )


def transactions(now: int) -> Transactions:
    """One of many partitions, one that ends, one of a stranger; and a partition in which something
    hangs."""
    many = tuple(("orders", n) for n in range(8))
    return Transactions(
        (
            OpenTransaction(
                "copier-0", "Ongoing", 4_001, 2, now - 9 * MINUTE, 900_000, many, 1_204
            ),
            OpenTransaction("copier-1", "PrepareCommit", 4_002, 1, now - 800, 60_000, many[:1]),
            OpenTransaction(HOSTILE, "Ongoing", 2**40, 3),
        ),
        (Standing("orders", 3, 8_796, 1_204, True), Standing("clicks", 7, 9_100, 900, False)),
        3,
        2,
    )


def isr_changes(now: int) -> tuple[IsrChange, ...]:
    """A broker that went with what it led and came back, and one that did not keep up."""
    many = tuple(f"orders-{n}" for n in range(NAMED))
    at, before = now - 6 * MINUTE, now - 6 * MINUTE - 10_000
    return (
        IsrChange(now - 2 * MINUTE, now - 3 * MINUTE, 2, "joined", BACK, 1_204, many),
        IsrChange(at, before, 2, "left", BEHIND, 1, ("ledger-0",)),
        IsrChange(at, before, 3, "left", GONE, 1_204, many, led=402),
    )


def registry(now: int) -> RegistryState:
    """A subject that grew by a field, one that broke its level, one that refers to another."""
    fields = [{"name": "id", "type": "long"}, {"name": "user", "type": "string"}]
    more = [*fields, {"name": "device", "type": ["null", "string"], "default": None}]
    broken = [*more, {"name": "price", "type": "double"}]

    def record(of: list[dict[str, object]]) -> str:
        return json.dumps({"type": "record", "name": "Click", "namespace": "shop", "fields": of})

    clicks = tuple(
        SubjectVersion(n + 1, 100 + n, "AVRO", record(of))  # type: ignore[arg-type]
        for n, of in enumerate((fields, more, broken))
    )
    line = {"name": "click", "type": "shop.Click"}
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": [line]}
    orders = SubjectVersion(
        1, 200, "AVRO", json.dumps(order), (Reference("shop.Click", "clicks-value", 3),)
    )
    subjects = {
        "clicks-value": SubjectState("clicks-value", clicks, "BACKWARD"),
        "orders-value": SubjectState("orders-value", (orders,), "FULL", own_level=True),
        HOSTILE: SubjectState(HOSTILE, (SubjectVersion(1, 7, "JSON", "{}"),), "NONE"),
    }
    return RegistryState("http://registry.example:8081", "BACKWARD", Part(subjects, now, now))


def snapshots(now: int, names: Iterable[str] = ("dc1", "dc2", "aggregate")) -> Snapshots:
    """Everything; the courses of groups go back one hour."""
    made = Snapshots([cluster(name, now) for name in names], registry(now))
    known = groups(now).value

    def course(name: str) -> tuple[CoursePoint, ...]:
        lag = known[name].lag if name in known else None
        if lag is None:
            return ()
        return tuple(
            CoursePoint(now - (60 - step) * MINUTE, lag * step // 60, 1000 * lag * step // 60)
            for step in range(61)
        )

    made.courses_from("dc1", course)
    return made
