"""A small world that the audit is played through: producers, two datacenters, mirrors that rename
and flow together, an aggregate, and a consumer group.

The system side is the real one: :class:`Tally` and :class:`ConsumerBooks` report, real batches are
cut into runs and counted, :class:`ClaimBook` folds the events, cells are put paired each other and
judged as the collector does. Only wires and disks are lists. Beside it every message is followed
by hand (:class:`Message`); what that comes to is in :mod:`audit_oracle`, which knows none of that
code.

A schedule is a list of steps, ``(name, argument, ...)``, each a method of :class:`World`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from audit_parts import (
    ABORTED_ID,
    FATES,
    PARTITIONS,
    Cluster,
    Message,
    Producer,
    W,
    is_left_out,
    one_by_one,
)

from tallymark.client.producing.stamps import Stamp
from tallymark.deployment import AuditSettings, Deployment, Mirror
from tallymark.protocol.records.batch import BatchHeader
from tallymark_audit.collector.counting.cells import count
from tallymark_audit.events.event_codec import decode_event, encode_event
from tallymark_audit.events.events import AuditEvent, Copied, Gap
from tallymark_audit.judge.assemble import consumer_facts
from tallymark_audit.judge.copy_progress import GAP_MEANS, GapOf, Part, Passed, in_flight, mirror_of
from tallymark_audit.judge.hops import Hop, Sides, hops_into, paired
from tallymark_audit.judge.processed import processed_cells
from tallymark_audit.judge.verdicts import Clock, ReporterFacts, Verdict, judge
from tallymark_audit.model.cells import FOREVER, CellKey, Edge
from tallymark_audit.model.contents import blocks_of
from tallymark_audit.model.edges import consumer_edge, derive_edges
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.record_runs import MAX_TIMESTAMP, Rules, runs_in
from tallymark_audit.model.sides import CellFacts, Observation, merge_observations
from tallymark_audit.reporters.books.tally import Outcome, ReporterIdentity, Run, Tally, TallyKey
from tallymark_audit.reporters.processing.books import ConsumerBooks
from tallymark_audit.testing import Told

SETTLE, SILENCE = 500, 3000
RULES = Rules(W, MAX_TIMESTAMP, content_check=True)
DATACENTERS = ("dc1", "dc2")
RENAMED = {"dc1": "all", "dc2": "all"}
GROUP = "readers"
PRODUCERS = ("aa", "bb", "cc")
HOME = {"aa": "dc1", "bb": "dc1", "cc": "dc2"}
AUDIT = AuditSettings(window_ms=W, settle_min_ms=SETTLE, silence_ms=SILENCE)
DEPLOYMENT = Deployment(
    audit=AUDIT,
    mirrors=tuple(Mirror(source=dc, target="aggregate", renames={"t": "all"}) for dc in RENAMED),
)
EDGES = (*derive_edges(DEPLOYMENT), consumer_edge("aggregate", GROUP, ".*"))
JUDGED = {
    "producer-to-dc1": "t",
    "producer-to-dc2": "t",
    "dc1-to-aggregate": "t",
    "dc2-to-aggregate": "t",
    "producer-to-aggregate": "all",
    f"aggregate-to-group:{GROUP}": "all",
}
"""The edges, and what each calls the topic."""
Judge = Callable[..., Verdict]


class World:
    """Plays schedules. ``chance`` decides what the steps leave open."""

    def __init__(self, chance: Random, judging: Judge = judge) -> None:
        self.chance = chance
        self.judging = judging
        self.now = 10_000
        self.messages: list[Message] = []
        self.clusters = {dc: Cluster(dc, "t") for dc in DATACENTERS}
        self.clusters["aggregate"] = Cluster("aggregate", "all")
        self.producers: dict[str, Producer] = {}
        self.runs = 0
        self.held: list[tuple[str, int, list[tuple[Message, bytes]]]] = []
        self.mirrored = {(dc, p): 0 for dc in DATACENTERS for p in PARTITIONS}
        """Batches copied, by source partition."""
        self.mirror_events = 0
        self.gaps: dict[str, list[Gap]] = {dc: [] for dc in DATACENTERS}
        self.consumed = dict.fromkeys(PARTITIONS, 0)
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.consumer = self._new_consumer()
        self.changed: dict[tuple[str, int], int] = {}
        self.delayed: list[tuple[str, AuditEvent]] = []
        self.hops = {hop.edge.name: hop for name in self.clusters for hop in hops_into(EDGES, name)}

    # -- steps --------------------------------------------------------------------------------

    def play(self, script: Sequence[tuple[Any, ...]]) -> None:
        for name, *arguments in script:
            self.now += 7
            getattr(self, name)(*arguments)

    def wait(self, ms: int) -> None:
        self.now += ms

    def send(self, who: str, partition: int, count: int, delay: int, fate: str) -> None:
        """``fate``: what becomes of it on the way into the datacenter."""
        producer = self._producer(who)
        stamp = max(0, self.now - delay)
        fresh = [self._message(producer, partition, stamp) for _ in range(count)]
        first, last = fresh[0].sequence, fresh[-1].sequence
        key = TallyKey("t", partition, fresh[0].window)
        producer.tally.accept(Run(key, first, last, stamp, stamp), count, self.now)
        outcome, store = FATES[fate]
        if outcome is not None:
            producer.tally.settle(key, outcome, first, last, self.now)
            if outcome is Outcome.ACKNOWLEDGED:
                values = [message.value for message in fresh]
                producer.tally.fold(key, blocks_of(first, [b"k"] * count, values))
        for message in fresh:
            message.outcome = outcome
        self._store(producer.home, partition, fresh, store)

    def flush(self, order: str) -> None:
        """What was held back on the wire arrives, later than what was sent after it."""
        held, self.held = self.held, []
        if order == "reversed":
            held.reverse()
        for home, partition, batch in held:
            self.clusters[home].append(partition, batch)

    def report(self, who: str, fate: str) -> None:
        """A producer tells how things stand; ``fate``: what becomes of the event."""
        producer = self._producer(who)
        pending = [c for c in producer.tally.cells.items() if c[1].pending]
        through = min([self.now, *(key.window for key, _ in pending)])
        for event in producer.tally.report(self.now, through):
            producer.tally.published(event.event_number)
            self._deliver(producer.home, event, fate)
        producer.reported = max(producer.reported, through)

    def late_events(self) -> None:
        """Events that were delayed arrive, in any order."""
        late, self.delayed = self.delayed, []
        self.chance.shuffle(late)
        for cluster, event in late:
            self._hear(cluster, event)

    def crash(self, who: str, journal: bool) -> None:
        """The process dies. With a journal the next start publishes what it knew."""
        producer = self._producer(who)
        del self.producers[who]
        producer.alive, producer.silent = False, not journal
        if journal:
            self._close(producer)
        else:
            self.producers[f"{who}{self.runs}"] = producer

    def mirror(self, source: str, partition: int, fate: str) -> None:
        """Copy the next batch of a partition. ``fate``: what the target makes of it."""
        log = self.clusters[source].batches[partition]
        at = self.mirrored[source, partition]
        if at < len(log):
            self._copy(log[at], partition, fate)
            self.mirrored[source, partition] = at + 1

    def mirror_restarts(self, source: str, partition: int, again: int) -> None:
        """It was killed before it had stored how far it was."""
        place = source, partition
        self.mirrored[place] = max(0, self.mirrored[place] - again)

    def mirror_reports(self, source: str, fate: str) -> None:
        self._deliver("aggregate", self._mirror_event(source), fate)

    def expire(self, source: str, partition: int) -> None:
        """Retention takes the next batch that the mirror has not copied, once it was counted."""
        cluster, at = self.clusters[source], self.mirrored[source, partition]
        if at < len(cluster.batches[partition]) and at < cluster.counted_to[partition]:
            self.mirrored[source, partition] = at + 1
            for message in cluster.batches[partition][at]:
                message.expired = True
            header = cluster.logs[partition].batches[at].header
            gap = Gap("t", partition, header.base_offset, header.last_offset, "retention", self.now)
            self.gaps[source].append(gap)

    def collect(self, cluster: str, partition: int, batches: int, crash: bool) -> None:
        """The counter of a partition counts some; if it crashes nothing of that was committed, and
        whoever has the partition next begins where it began."""
        where = self.clusters[cluster]
        log = where.logs[partition]
        at = where.counted_to[partition]
        some = log.batches[at : at + batches]
        start = some[0].header.base_offset if some else 0
        aborted = {header.producer_id for header in (b.header for b in some) if _is_aborted(header)}
        good = [b for b in some if b.header.producer_id not in aborted]
        bad = [b for b in some if b.header.producer_id in aborted]
        runs = runs_in(good, where.topic, partition, start, RULES)
        runs += runs_in(bad, where.topic, partition, start, RULES, aborted=True)
        changed = count(runs, partition, where.cells[partition])
        if crash:
            return
        where.cells[partition].update(changed)
        where.counted_to[partition] = at + len(some)
        for messages in where.batches[partition][at : at + len(some)]:
            for message in messages:
                message.counted[cluster] = message.counted.get(cluster, 0) + 1
        for key in changed:
            self.changed[cluster, key.window] = self.now
        if all(where.counted_to[p] == len(where.logs[p].batches) for p in PARTITIONS):
            where.counted_through = self.now

    def consume(self, partition: int, fate: str) -> None:
        """The group takes the next batch of a partition of the aggregate."""
        where, at = self.clusters["aggregate"], self.consumed[partition]
        if at >= len(where.batches[partition]):
            return
        self.consumed[partition] = at + 1
        batch, messages = where.logs[partition].batches[at], where.batches[partition][at]
        runs = runs_in([batch], "all", partition, batch.header.base_offset, RULES)
        times = {"skipped": 0, "twice": 2}.get(fate, 1)
        each = [one for run in runs for one in one_by_one(run)]
        for one in each * times:
            out = Outcome.FILTERED if is_left_out(one.first) else Outcome.ACKNOWLEDGED
            self.consumer.add(one, ("all", partition), self.now, out)
        for message in messages:
            message.processed += times
        self.consumer.processed_before({("all", partition): batch.header.next_offset})

    def rebalance(self) -> None:
        """Another member takes over, and begins again where the last one had reported."""
        self._consumer_reports("delivered", closed=True)
        self.consumer = self._new_consumer()

    def reread(self, partition: int, again: int) -> None:
        """What was committed was lost: some batches are processed again."""
        self.consumed[partition] = max(0, self.consumed[partition] - again)

    def consumer_reports(self, fate: str) -> None:
        self._consumer_reports(fate)

    # -- the end ------------------------------------------------------------------------------

    def settle(self) -> None:
        """Everything under way arrives, whoever lives reports, and it is long past."""
        self.flush("in order")
        self.late_events()
        for producer in list(self.producers.values()):
            if producer.alive:
                self._close(producer)
        for dc in DATACENTERS:
            for partition in PARTITIONS:
                while self.mirrored[dc, partition] < len(self.clusters[dc].batches[partition]):
                    self.mirror(dc, partition, "copied")
        for partition in PARTITIONS:
            while self.consumed[partition] < len(self.clusters["aggregate"].batches[partition]):
                self.consume(partition, "processed")
        self._consumer_reports("delivered", closed=True)
        self.now += SETTLE
        for dc in DATACENTERS:
            self._deliver("aggregate", self._mirror_event(dc), "delivered")
        self.now += 2 * W + 10 * SETTLE
        for name in self.clusters:
            for partition in PARTITIONS:
                self.collect(name, partition, 1 << 30, crash=False)
        self.now += 20 * SILENCE
        for name in self.clusters:
            for partition in PARTITIONS:
                self.collect(name, partition, 0, crash=False)

    def windows(self) -> set[int]:
        return {message.window for message in self.messages}

    # -- the system under test ----------------------------------------------------------------

    def verdict(self, edge: str, window: int) -> Verdict:
        """As the collector would judge now."""
        hop, topic = self.hops[edge], JUDGED[edge]
        cells = self._cells(hop, topic, window)
        return self.judging(
            hop.edge, topic, window, cells, self._reporters(hop.edge), self._clock(hop, window)
        )

    def _cells(self, hop: Hop, topic: str, window: int) -> list[CellFacts]:
        edge = hop.edge
        if edge.kind == "consumer":
            return self._group_cells(window)
        down = self.clusters[edge.downstream]
        known = {name: {cluster.topic} for name, cluster in self.clusters.items()}
        above = {
            (up, name): _of(self.clusters[up].seen(), window)
            for up, names in hop.upstreams(topic, known).items()
            for name in names
            if name == self.clusters[up].topic
        }
        parts: dict[CellKey, list[Part]] = {}
        passed: dict[int, Passed] = {}
        gaps: list[GapOf] = []
        if edge.kind == "mirror":
            parts = self._parts(edge.upstream, window)
            told = self.clusters[edge.downstream].book.copied
            passed = {
                place.partition: Passed(offset, at)
                for place, (at, offset) in told.items()
                if place.reporter == mirror_of(edge)
            }
            gaps = [
                GapOf(gap.partition, gap.first_offset, gap.last_offset, GAP_MEANS[gap.reason])
                for reporter, gap in down.book.gaps
                if reporter == mirror_of(edge)
            ]
        homes = {
            reporter.instance: name
            for name, cluster in self.clusters.items()
            for reporter in cluster.book.reporters.values()
            if reporter.tier == "producer"
        }
        sides = Sides(
            _of(down.seen(), window),
            {key: one for key, one in down.book.claims().items() if key.window == window},
            above,
            parts,
            homes,
            passed,
            down.counted_through,
            gaps,
        )
        return paired(hop, topic, sides)

    def _group_cells(self, window: int) -> list[CellFacts]:
        where = self.clusters["aggregate"]
        done: list[Observation] = []
        filtered: dict[CellKey, RangeSet] = {}
        for claim in where.book.processed(GROUP):
            if claim.key.window == window:
                done += processed_cells(claim)
                filtered[claim.key] = filtered.get(claim.key, EMPTY) | claim.filtered
        passed: dict[int, Passed] = {}
        for place, (_, offset) in where.book.copied.items():
            if place.topic == "all":
                known = passed.get(place.partition, Passed(0))
                passed[place.partition] = max(known, Passed(offset))
        behind = in_flight(self._parts("aggregate", window), passed, self.now)
        return consumer_facts(_of(where.seen(), window), merge_observations(done), filtered, behind)

    def _parts(self, cluster: str, window: int) -> dict[CellKey, list[Part]]:
        found: dict[CellKey, list[Part]] = {}
        for partition, cells in self.clusters[cluster].cells.items():
            for key, seen in cells.items():
                if key.window == window:
                    found.setdefault(key, []).append(Part(partition, seen))
        return found

    def _reporters(self, edge: Edge) -> list[ReporterFacts]:
        book = self.clusters[edge.home].book
        if edge.kind == "producer":
            return [one.facts() for one in book.reporters.values() if one.tier == "producer"]
        if edge.kind == "consumer":
            return [one.facts() for one in book.reporters.values() if one.tier == "consumer"]
        return [one.facts() for name, one in book.reporters.items() if name == mirror_of(edge)]

    def _clock(self, hop: Hop, window: int) -> Clock:
        edge = hop.edge
        up = edge.upstream if edge.kind != "producer" else edge.downstream
        down = edge.downstream if edge.kind != "consumer" else edge.upstream
        through = self.clusters[up].counted_through
        if edge.kind == "producer" and edge.implied:
            through = min(c.counted_through for c in self.clusters.values())
        changed = max(self.changed.get((name, window), 0) for name in hop.clusters())
        return Clock(
            now=self.now,
            window_ms=W,
            settle_ms=SETTLE,
            silence_ms=SILENCE,
            downstream_through=self.clusters[down].counted_through,
            upstream_through=through,
            changed=changed,
        )

    # -- what steps are made of ---------------------------------------------------------------

    def _producer(self, who: str) -> Producer:
        if who not in self.producers:
            self.runs += 1
            instance = f"{who}{self.runs:06x}" + "00" * 4
            name = f"producer-{instance}"
            tally = Tally(ReporterIdentity(name, "web", "app", instance, W, self.now))
            self.producers[who] = Producer(instance, HOME[who], tally)
        return self.producers[who]

    def _message(self, producer: Producer, partition: int, stamp: int) -> Message:
        sequence = producer.next[partition]
        producer.next[partition] += 1
        late = stamp < producer.reported
        message = Message(
            producer.instance, producer.home, partition, sequence, stamp, self.now, late
        )
        self.messages.append(message)
        return message

    def _store(self, home: str, partition: int, fresh: list[Message], how: str) -> None:
        cluster, batch = self.clusters[home], [(m, m.value) for m in fresh]
        if how == "aborted":
            for message in fresh:
                message.aborted = True
            told = [
                Told(Stamp(bytes.fromhex(m.instance), m.partition, m.sequence, "web"), m.stamp)
                for m in fresh
            ]
            cluster.logs[partition].append(told, producer=ABORTED_ID)
            cluster.batches[partition].append(())
        elif how == "held":
            self.held.append((home, partition, batch))
        elif how == "corrupt":
            cluster.append(partition, [(m, m.value + b"!") for m in fresh])
        else:
            for _ in range({"lost": 0, "twice": 2}.get(how, 1)):
                cluster.append(partition, batch)

    def _copy(self, messages: Sequence[Message], partition: int, fate: str) -> None:
        if not messages:
            return
        batch = [(m, m.contents[m.home][0]) for m in messages]
        if fate == "changed":
            batch = [(m, value + b"?") for m, value in batch]
        if fate == "half":
            batch = batch[: len(batch) // 2]
        if fate == "shuffled":
            batch = list(reversed(batch))
        for _ in range({"dropped": 0, "twice": 2}.get(fate, 1) if batch else 0):
            self.clusters["aggregate"].append(partition, batch)

    def _mirror_event(self, source: str) -> AuditEvent:
        self.mirror_events += 1
        copied = []
        for partition in PARTITIONS:
            log, done = self.clusters[source].logs[partition], self.mirrored[source, partition]
            through = log.batches[done - 1].header.next_offset if done else 0
            copied.append(Copied("t", partition, "all", "", through))
        return AuditEvent(
            kind="mirror",
            tier="mirror",
            reporter=f"mirror-{source}-to-aggregate",
            server="host",
            application="mirror",
            instance="",
            event_number=self.mirror_events,
            covers_from=0,
            emitted_at=self.now,
            window_ms=W,
            complete_through=self.now,
            copied=tuple(copied),
            gaps=tuple(self.gaps[source]),
        )

    def _new_consumer(self) -> ConsumerBooks:
        self.runs += 1
        instance = f"ff{self.runs:06x}" + "00" * 4
        who = ReporterIdentity(
            f"consumer-{instance}", "web", "app", instance, W, self.now, kind="consumer"
        )
        return ConsumerBooks(who, GROUP, 10_000, 1 << 50)

    def _consumer_reports(self, fate: str, closed: bool = False) -> None:
        through = FOREVER if closed else self.now
        for event in self.consumer.report(self.now, through, closed):
            self.consumer.tally.published(event.event_number)
            self._deliver("aggregate", event, fate)

    def _close(self, producer: Producer) -> None:
        """The last report: what was never settled is in doubt."""
        producer.alive = False
        for message in self.messages:
            if message.instance == producer.instance and message.outcome is None:
                message.outcome = Outcome.IN_DOUBT
        producer.tally.settle_pending(self.now, Outcome.IN_DOUBT)
        for event in producer.tally.report(self.now, FOREVER, closed=True):
            self._deliver(producer.home, event, "delivered")

    def _deliver(self, cluster: str, event: AuditEvent, fate: str) -> None:
        if fate == "delayed":
            self.delayed.append((cluster, event))
        for _ in range({"lost": 0, "delayed": 0, "repeated": 2}.get(fate, 1)):
            self._hear(cluster, event)

    def _hear(self, cluster: str, event: AuditEvent) -> None:
        event = decode_event(encode_event(event), W)
        self.clusters[cluster].book.add(event)
        for cell in event.cells:
            self.changed[cluster, cell.window_start] = self.now


def _is_aborted(header: BatchHeader) -> bool:
    return header.producer_id == ABORTED_ID


def _of(cells: dict[CellKey, Observation], window: int) -> dict[CellKey, Observation]:
    return {key: seen for key, seen in cells.items() if key.window == window}
