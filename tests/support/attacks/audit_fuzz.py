"""A stranger beside an audited stack: monitoring events, batches, topics and groups of which
nothing holds, from a seed. As a program it attacks two clusters, see :func:`main`."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from random import Random
from typing import Any, Final

import crc32c
import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form
from hostile_batches import bomb, garbage, sealed

from tallymark.client import Admin
from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.errors import TallymarkError
from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch
from tallymark.testing.wire import WireClient
from tallymark_audit.events import event_schema, event_schema_v1, event_schema_v2, event_schema_v3
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent, CellReport, Copied, Gap
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet

TOPIC: Final = "strangers"
NUMBERS: Final = (
    0, 1, -1, 7, 127, 128, 1000, 2**31 - 1, 2**31, -(2**31), 2**32 + 1, 2**40, 2**53 + 1, 2**62,
    2**63 - 1, -(2**63),
)  # fmt: skip
TEXTS: Final = (
    "", "x", "x" * 255, "x" * 256, "\x1b[2J", "<script>alert(1)</script>", "a\u202eb", "a\0b",
    "\N{SNOWMAN}" * 40, "'; drop table claims; --", "(overflow)", TOPIC, AUDIT_TOPIC, "../../x",
    "__consumer_offsets", "%s%n{}",
)  # fmt: skip
POSSIBLE: Final = (0, 1, 7, 127, 1000, 2**31 - 1)
SHORT: Final = tuple(text for text in TEXTS if len(text) < 256 and "\0" not in text)
ODD_TOPICS: Final = (
    "odd.one", "odd_two", "o" * 249, "-dash", "odd..three", "ODD", "0", "odd-compacted",
)  # fmt: skip
ODD_CONFIGS: Final[tuple[dict[str, str], ...]] = (
    {}, {"max.message.bytes": "200"}, {"cleanup.policy": "compact"}, {"retention.ms": "1"},
    {"message.timestamp.type": "LogAppendTime"}, {"compression.type": "gzip"},
    {"segment.bytes": "20000"}, {"message.timestamp.before.max.ms": "1"},
)  # fmt: skip
_SCHEMAS: Final = (event_schema_v1, event_schema_v2, event_schema_v3, event_schema)


class Stranger:
    """Makes what a stranger sends; the same seed makes the same. ``mirror``: the name of a mirror
    that there is, of which only what cannot be is told."""

    def __init__(self, seed: int, window_ms: int, mirror: str) -> None:
        self._dice = Random(seed)
        self._window_ms = window_ms
        self._mirror = mirror
        self._numbers: tuple[int, ...] = NUMBERS
        self._texts: tuple[str, ...] = TEXTS
        self._known = [self._instance() for _ in range(20)]

    # -- monitoring events --------------------------------------------------------------------

    def event(self) -> bytes:
        """A value for the audit topic."""
        dice, kind = self._dice, self._dice.randrange(10)
        if kind == 0:
            return dice.randbytes(dice.randrange(3000))
        if kind == 1:
            return event_schema.MARKER + dice.randbytes(dice.randrange(300))
        if kind == 2:
            return self._of_version(dice.randrange(3))
        value = encode_event(self._event())
        if kind in (3, 4):
            return self._changed(value)
        if kind == 5:
            return _sealed(self._changed(value[:-4]))
        return value

    def _event(self) -> AuditEvent:
        dice, now = self._dice, time.time_ns() // 1_000_000
        wild = dice.random() < 0.4
        self._numbers, self._texts = (NUMBERS, TEXTS) if wild else (POSSIBLE, SHORT)
        kind: Any = dice.choice(("producer", "producer", "consumer", "mirror", "lake"))
        instance = dice.choice(self._known) if dice.random() < 0.7 else self._instance()
        made = AuditEvent(
            kind=kind, tier=kind, reporter=f"{kind}-{instance}", server=f"host-{instance}",
            application="app", instance=instance, event_number=dice.randrange(1000),
            covers_from=0, emitted_at=now, window_ms=self._window_ms, complete_through=now,
            started_at=now, consumer_group=dice.choice(("", "forged", self._text())),
        )  # fmt: skip
        if kind == "mirror":
            made = replace(made, gaps=self._many(self._gap), copied=self._many(self._copied))
            if dice.random() < 0.3:  # impossible, under the name of one that there is
                far = Copied(TOPIC, 0, TOPIC, "", 2**63 - 1, 2**63 - 1)
                return replace(made, reporter=self._mirror, copied=(*made.copied, far))
        else:
            made = replace(made, cells=self._many(self._cell))
        if dice.random() < 0.5:
            name = dice.choice(("event_number", "emitted_at", "complete_through", "started_at"))
            changes: dict[str, Any] = {name: dice.choice(self._numbers), "covers_from": 0}
            if dice.random() < 0.3:
                changes |= {dice.choice(("server", "application", "reporter")): self._text()}
            made = replace(made, **changes)
        return made

    def _many(self, make: Callable[[], Any]) -> tuple[Any, ...]:
        dice = self._dice
        count = dice.choice((0, 1, 1, 2, 5, 20, 20, 300 if dice.random() < 0.2 else 3))
        return tuple(make() for _ in range(count))

    def _cell(self) -> CellReport:
        dice, now = self._dice, time.time_ns() // 1_000_000
        at = now - now % self._window_ms
        window = dice.choice((at, at, at - self._window_ms, -self._window_ms, *self._numbers))
        ranges = self._ranges()
        cell = CellReport(
            dice.choice((TOPIC, TOPIC, self._text(), f"never-{dice.randrange(10**6)}")),
            dice.choice((0, 0, 0, 1, dice.choice(self._numbers))),
            max(-(2**63), window - window % self._window_ms) if dice.random() < 0.9 else window,
            accepted=ranges,
            acknowledged=ranges,
            count=ranges.size % 2**63,
        )
        if dice.random() < 0.4:
            names = ("part", "revision", "count", "bytes", "duplicates", "skewed", "unstamped")
            changes: dict[str, Any] = {dice.choice(names): dice.choice(self._numbers)}
            cell = replace(cell, **changes)
        if dice.random() < 0.3:
            known = dice.choice(self._known)
            cell = replace(cell, instance=known, server=f"name-{dice.randrange(10**6)}")
        return cell

    def _ranges(self) -> RangeSet:
        dice = self._dice
        if dice.random() < 0.1:
            return RangeSet.single(0, dice.choice((2**31, 2**32 - 1, 2**40, 2**62)))
        return RangeSet((n * 3, n * 3 + dice.randrange(2)) for n in range(dice.choice((1, 1, 500))))

    def _gap(self) -> Gap:
        dice = self._dice
        first = dice.choice(self._numbers)
        last = min(2**63 - 1, first + dice.choice((0, 1, 2**30)))
        reason = dice.choice(("aborted", "retention", "corrupt", "damaged", self._text()))
        topic, partition = dice.choice((TOPIC, self._text())), dice.choice(self._numbers)
        return Gap(topic, partition, first, last, reason)

    def _copied(self) -> Copied:
        dice = self._dice
        topic = dice.choice((TOPIC, self._text()))
        numbers = dice.choice(self._numbers), dice.choice(self._numbers)
        return Copied(topic, dice.choice((0, dice.choice(self._numbers))), topic, "", *numbers)

    def _of_version(self, number: int) -> bytes:
        """An event of an older version, which has no checksum, perhaps changed."""
        schema = _SCHEMAS[number].SCHEMA
        raw = fastavro.schemaless_reader(
            BytesIO(encode_event(self._event())[10:]),
            fastavro.parse_schema(event_schema.SCHEMA),
            None,
        )
        assert isinstance(raw, dict)
        out = BytesIO()
        named = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
        fastavro.schemaless_writer(
            out, fastavro.parse_schema(schema), {**raw, "version": number + 1}
        )
        value = event_schema.MARKER + bytes.fromhex(named) + out.getvalue()
        return self._changed(value) if self._dice.random() < 0.6 else value

    # -- batches ------------------------------------------------------------------------------

    def batch(self) -> bytes:
        """Records for a topic that is mirrored and counted."""
        dice, kind = self._dice, self._dice.randrange(8)
        if kind == 0:
            return garbage(dice.randrange(1000), count=dice.choice((1, 3)), last_delta=2)
        if kind == 1 and dice.random() < 0.1:
            return bomb(dice.choice((5, 60, 250)))
        whole = self._records()
        if kind == 2:  # records changed, under a right CRC
            count = int.from_bytes(whole[57:61], "big")
            records = self._changed(whole[HEADER_SIZE:])
            return sealed(records, last_delta=count - 1, count=count)
        if kind == 3:
            return self._changed(whole)
        return whole

    def _records(self) -> bytes:
        dice, now = self._dice, time.time_ns() // 1_000_000
        records: list[Any] = []
        for _ in range(dice.choice((1, 1, 3, 10))):
            at = now if dice.random() < 0.8 else dice.choice((0, -1, 1, 2**40, 2**62))
            records.append((dice.choice((None, b"k")), b"v" * 20, self._headers(), at))
        return bytes(encode_batch(records, compression=dice.choice(("none", "zstd", "gzip"))))

    def _headers(self) -> list[tuple[str, bytes]]:
        dice = self._dice
        code = dice.choice(self._known) if dice.random() < 0.5 else self._instance()
        numbers = dice.choice((0, 1, 2**31 - 1)), dice.choice((0, 1, 2**40, 2**62))
        stamp = encode_stamp(Stamp(bytes.fromhex(code), *numbers, f"host-{dice.randrange(10**6)}"))
        if dice.random() < 0.5:
            stamp = self._changed(stamp)
        return [("tm", stamp)] * dice.choice((1, 1, 1, 2))

    # -- parts --------------------------------------------------------------------------------

    def _changed(self, value: bytes) -> bytes:
        """A few bytes changed, left out or repeated."""
        dice, data = self._dice, bytearray(value or b"x")
        for _ in range(dice.choice((1, 1, 2, 5))):
            place = dice.randrange(len(data))
            kind = dice.randrange(4)
            if kind < 2:
                data[place] ^= 1 << dice.randrange(8)
            elif kind == 2:
                del data[place : place + dice.randrange(1, 20)]
            else:
                data[place:place] = data[place : place + 30]
            data = data or bytearray(b"x")
        return bytes(data)

    def _instance(self) -> str:
        return self._dice.randbytes(8).hex()

    def _text(self) -> str:
        return self._dice.choice(self._texts)


def _sealed(body: bytes) -> bytes:
    return body + crc32c.crc32c(body).to_bytes(4, "little")


class Attack:
    """Sends a stranger's inputs to two clusters, so many a second; ``sent`` counts them by kind,
    refusals too."""

    def __init__(self, source: str, target: str, stranger: Stranger, seed: int) -> None:
        self._servers = source, target
        self._stranger = stranger
        self._dice = Random(seed)
        self.sent: Counter[str] = Counter()

    def run(self, inputs: int, rate: float) -> None:
        began = time.monotonic()
        with (
            WireClient(self._servers[0], timeout=60) as one,
            WireClient(self._servers[1], timeout=60) as two,
            Admin(bootstrap_servers=self._servers[0]) as admin,
        ):
            for number in range(inputs):
                if number % 300 == 0:
                    self._odd_topic(admin, one)
                elif number % 100 == 0:
                    self._group(one)
                elif self._dice.random() < 0.6:
                    values = [(None, self._stranger.event(), (), time.time_ns() // 1_000_000)]
                    wire = self._dice.choice((one, two))
                    self._produce(wire, AUDIT_TOPIC, bytes(encode_batch(values)))
                else:
                    self._produce(one, TOPIC, self._stranger.batch())
                ahead = began + number / rate - time.monotonic()
                if ahead > 0:
                    time.sleep(ahead)

    def _produce(self, wire: WireClient, topic: str, batch: bytes) -> None:
        part = m.ProduceRequestPartition(index=0, records=batch)
        named = m.ProduceRequestTopic(name=topic, partition_data=[part])
        answer = wire.ask(m.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[named]), 7)
        code = answer.responses[0].partition_responses[0].error_code
        self.sent[
            f"{'event' if topic == AUDIT_TOPIC else 'batch'}{' refused' if code else ''}"
        ] += 1

    def _odd_topic(self, admin: Admin, wire: WireClient) -> None:
        """Made, or deleted, in the middle of everything."""
        name = self._dice.choice(ODD_TOPICS)
        try:
            if self._dice.random() < 0.3:
                admin.delete_topic(name)
            else:
                admin.create_topic(name, 1, dict(self._dice.choice(ODD_CONFIGS)))
            self.sent["topic"] += 1
        except TallymarkError:
            self.sent["topic refused"] += 1
        with suppress(TallymarkError):
            self._produce(wire, name, self._stranger.batch())

    def _group(self, wire: WireClient) -> None:
        """Offsets and members of groups that mirrors and collectors have."""
        group = self._dice.choice(("mirror-dc1-to-aggregate", "tallymark-audit-dc1", "forged"))
        number = self._dice.choice(NUMBERS)
        part = m.OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        named = m.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
        made: tuple[tuple[Any, int], ...] = (
            (m.OffsetCommitRequest(group_id=group, topics=[named]), 2),
            (m.DeleteGroupsRequest(groups_names=[group]), 0),
            (m.HeartbeatRequest(group_id=group, generation_id=1, member_id="x"), 0),
        )
        wire.ask(*self._dice.choice(made))
        self.sent["group"] += 1


def main() -> None:
    """``audit_fuzz.py SOURCE TARGET WINDOW_MS MIRROR INPUTS RATE SEED``: prints what was sent."""
    source, target, window_ms, mirror, inputs, rate, seed = sys.argv[1:]
    stranger = Stranger(int(seed), int(window_ms), mirror)
    attack = Attack(source, target, stranger, int(seed))
    attack.run(int(inputs), float(rate))
    print(json.dumps(attack.sent))


if __name__ == "__main__":
    main()
