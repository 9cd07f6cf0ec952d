"""Tallies and claims of made-up sequences, for tests of the reconciliation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tallymark.deployment import AuditSettings, Deployment
from tallymark_audit.events.claim_book import ClaimBook, PartKey, Reporter
from tallymark_audit.model.cells import FOREVER, CellKey, Copy
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Claim
from tallymark_spark_jobs.counting.digests import BITS, number_of, seed_of
from tallymark_spark_jobs.counting.intervals import levels
from tallymark_spark_jobs.counting.tally import CellTally
from tallymark_spark_jobs.reconcile.judging.groups import Shared
from tallymark_spark_jobs.reconcile.judging.spark_facts import Facts
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.resolve import shortened
from tallymark_spark_jobs.reconcile.shapes.tallies import ClaimPart, Seen

W = 5_000
LATE = 1_000_000
DEPLOYMENT = Deployment(audit=AuditSettings(window_ms=W, settle_min_ms=5_000))
PERIOD = Period(None, 100 * W)


def key_of(window: int = 0, instance: int = 1, topic: str = "t", partition: int = 0) -> CellKey:
    return CellKey(topic, partition, window, f"web-{instance}", f"{instance:016x}")


def tally_of(
    key: CellKey, sequences: Sequence[int], first_offset: int = 0, partition: int = 0
) -> CellTally:
    """What one task counts that reads these sequences in this order, at offsets one by one."""
    found = levels([(one, one) for one in sequences])
    seed, folded, seen, copies = seed_of(key), 0, set[int](), list[Copy]()
    for at, one in enumerate(sequences):
        folded ^= number_of(seed, one)
        if one in seen:
            copies.append(Copy(partition, first_offset + at, one))
        seen.add(one)
    return CellTally(
        key,
        aborted=False,
        messages=len(sequences),
        extra=len(sequences) - len(seen),
        bytes=10 * len(sequences),
        malformed=0,
        ranges=found[0] if found else (),
        copies=tuple(sorted(copies, key=lambda copy: (copy.sequence, copy.offset))),
        digest_xor=folded,
        digest_sum=sum(number_of(seed, one) for one in sequences) & BITS,
        first_partition=partition,
        last_partition=partition,
        first_offset=first_offset,
        last_offset=first_offset + len(sequences) - 1,
        min_timestamp=key.window + 1,
        max_timestamp=key.window + 2,
        again=found[1:],
    )


def cheap(one: Seen, most: int = 1) -> Seen:
    """As the cheap pass sends it."""
    sent = shortened(one.tally, most)
    return Seen(one.cluster, sent, sent is one.tally)


def claim_of(cluster: str, key: CellKey, ranges: Iterable[tuple[int, int]]) -> ClaimPart:
    sequences = RangeSet(ranges)
    claim = Claim(key, accepted=sequences, acknowledged=sequences, count=sequences.size)
    return ClaimPart(cluster, PartKey(f"producer-{key.instance}", key, 0), 1, claim)


def shared_of(claims: Iterable[ClaimPart], deployment: Deployment = DEPLOYMENT) -> Shared:
    """What all groups share, with reporters that have reported all."""
    books: dict[str, ClaimBook] = {one.name: ClaimBook() for one in deployment.clusters}
    publishing: dict[str, dict[str, set[str]]] = {}
    for one in claims:
        key, name = one.part.key, one.part.reporter
        books[one.cluster].reporters[name] = Reporter(
            name,
            server=key.server,
            instance=key.instance,
            last_heard=10_000,
            complete_through=FOREVER,
            closed=True,
        )
        publishing.setdefault(one.cluster, {}).setdefault(key.topic, set()).add(name)
    facts = Facts(as_of=LATE, observed={}, books=books, publishing=publishing)
    return Shared(deployment, PERIOD, derive_edges(deployment), facts)


def knowing(shared: Shared, seen: Iterable[Seen]) -> Shared:
    """The same, with the topics that there are."""
    known: dict[str, set[str]] = {}
    for one in seen:
        known.setdefault(one.cluster, set()).add(one.tally.key.topic)
    return replace(shared, facts=replace(shared.facts, known=known))
