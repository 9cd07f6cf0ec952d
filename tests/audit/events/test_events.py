"""Monitoring events on the wire: what is written is read, by us and by Avro's own library; what is
anything else is refused with a typed error and nothing worse."""

import contextlib
import io
import json
from dataclasses import replace

import avro.io
import avro.schema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import RemoteProtocolError
from tallymark_audit.events.event_codec import decode_event, encode_event
from tallymark_audit.events.event_schema import SCHEMA
from tallymark_audit.events.events import AuditEvent, CellReport, Copied, Gap
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Block, Summary
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.repeats import MAX_LEVELS

EVENT = AuditEvent(
    kind="producer",
    reporter="producer-00112233445566aa",
    server="web-1",
    application="shop",
    instance="00112233445566aa",
    event_number=7,
    covers_from=4,
    emitted_at=1_700_000_000_000,
    window_ms=60_000,
    complete_through=1_699_999_999_000,
    started_at=1_699_999_000_000,
    cells=(
        CellReport(
            topic="views",
            partition=3,
            window_start=1_699_999_980_000,
            part=2,
            revision=9,
            count=12,
            bytes=1200,
            accepted=RangeSet([(0, 9), (12, 13)]),
            acknowledged=RangeSet([(0, 9)]),
            failed=RangeSet([(12, 12)]),
            in_doubt=RangeSet([(13, 13)]),
            min_timestamp=1_699_999_980_001,
            max_timestamp=1_699_999_985_000,
        ),
    ),
    gaps=(Gap("views", 0, 5, 9, "compaction", 1),),
)
FULL = replace(EVENT, consumer_group="billing", copied=(Copied("views", 1, "v", "ab" * 16, 9, 7),))

longs = st.integers(0, 2**62)
hashes = st.integers(0, 2**64 - 1)
range_sets = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=4).map(
    lambda pairs: RangeSet((first, first + more) for first, more in pairs)
)
cells = st.builds(
    CellReport,
    topic=st.text("abc.-_", min_size=1, max_size=9),
    partition=st.integers(0, 2**31 - 1),
    window_start=longs,
    part=longs,
    revision=longs,
    count=longs,
    accepted=range_sets,
    acknowledged=range_sets,
    failed=range_sets,
    in_doubt=range_sets,
    aborted=range_sets,
    filtered=range_sets,
    expired=range_sets,
    again=st.lists(range_sets.filter(bool), max_size=2).map(tuple),
    duplicates=longs,
    instance=st.sampled_from(["", "aabbccddeeff0011"]),
    server=st.text("xyz", max_size=9),
    summary=st.none() | st.builds(Summary, longs, longs, longs, longs, hashes),
    blocks=st.lists(st.builds(Block, longs, st.integers(1, 1024), hashes), max_size=3).map(tuple),
    latency=st.dictionaries(st.integers(-1, 600), st.integers(1, 99), max_size=4).map(
        lambda sketch: tuple(sketches.to_list(sketch))
    ),
    unstamped=longs,
    malformed=longs,
)
events = st.builds(
    lambda number, covers, some, closed, server: replace(
        FULL,
        event_number=number,
        covers_from=min(number, covers),
        cells=tuple(some),
        closed=closed,
        server=server,
    ),
    longs,
    longs,
    st.lists(cells, max_size=3),
    st.booleans(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
)


@settings(max_examples=60)
@given(events)
def test_is_read_as_it_was_written(event: AuditEvent) -> None:
    assert decode_event(encode_event(event)) == event


def test_the_reference_codec_reads_the_same() -> None:
    value = encode_event(EVENT)
    schema = avro.schema.parse(json.dumps(SCHEMA))
    decoder = avro.io.BinaryDecoder(io.BytesIO(value[10:]))
    raw = avro.io.DatumReader(schema).read(decoder)
    assert isinstance(raw, dict)
    assert raw["reporter"] == EVENT.reporter
    assert raw["cells"][0]["accepted"] == [0, 9, 12, 13]
    assert value[2:10] == schema.fingerprint("CRC-64-AVRO")


def test_the_format_is_pinned() -> None:
    """A change of the schema is a new version: readers of the old one must be kept."""
    assert encode_event(EVENT)[:10].hex() == PINNED


PINNED = "c3017dd2739ac117e29d"


def test_what_version_3_wrote_is_still_read() -> None:
    cell = replace(FULL.cells[0], again=(RangeSet.single(3, 4),), duplicates=2)
    event = decode_event(VERSION_3)
    assert event == replace(FULL, cells=(cell,))
    assert not event.checked


VERSION_3 = bytes.fromhex(
    "c301f82427ca78b4e28d061070726f64756365723270726f64756365722d3030313132323333343435353636"
    "61611070726f64756365720a7765622d310873686f7020303031313232333334343535363661610e62696c6c"
    "696e670e08028097b1fdf96280a0abfef962c0a907b090abfef962000100020a766965777306c0e7a8fef962"
    "0000041218e012080012181a000400120004181800041a1a0000000004020406080000000000c2e7a8fef962"
    "d0b5a9fef96200000000020a7669657773000a1214636f6d70616374696f6e0200020a766965777302027640"
    "6162616261626162616261626162616261626162616261626162616261626162120e00"
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_no_changed_bits_are_believed(data: st.DataObject) -> None:
    """Sixty events in which bits had flipped, on a disk that wrote the batch's CRC anew, were
    believed as far as they could be decoded: 237 messages were LOST that nobody had sent, of topics
    that do not exist, by reporters that never ran, in windows of no length anybody counts in. The
    test of damage asked for typed errors only, so a changed event that decoded was fine with it."""
    value = bytearray(encode_event(FULL))
    bits = data.draw(st.sets(st.integers(0, 8 * len(value) - 1), min_size=1, max_size=5))
    for bit in bits:
        value[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RemoteProtocolError):
        decode_event(bytes(value))


def test_what_version_1_wrote_is_still_read() -> None:
    """What it could not tell is not known, which is what the defaults say."""
    assert decode_event(VERSION_1) == EVENT
    again = encode_event(decode_event(VERSION_1))
    assert decode_event(again) == decode_event(VERSION_1)


def test_what_version_2_wrote_is_still_read() -> None:
    """It told how many came again, not which."""
    cell = replace(EVENT.cells[0], server="web-9", instance="aabbccddeeff0011", duplicates=3)
    assert decode_event(VERSION_2) == replace(FULL, cells=(cell,))


VERSION_2 = bytes.fromhex(
    "c3011a751f211dc8cfce041070726f64756365723270726f64756365722d3030313132323333343435353636"
    "61611070726f64756365720a7765622d310873686f7020303031313232333334343535363661610e62696c6c"
    "696e670e08028097b1fdf96280a0abfef962c0a907b090abfef962000100020a766965777306c0e7a8fef962"
    "0a7765622d392061616262636364646565666630303131041218e012080012181a000400120004181800041a"
    "1a0000000006000000c2e7a8fef962d0b5a9fef96200000000020a7669657773000a1214636f6d7061637469"
    "6f6e0200020a7669657773020276406162616261626162616261626162616261626162616261626162616261"
    "626162120e00"
)
VERSION_1 = bytes.fromhex(
    "c301feffffa357ca178a021070726f64756365723270726f64756365722d3030313132323333343435353636"
    "61611070726f64756365720a7765622d310873686f7020303031313232333334343535363661610e08028097"
    "b1fdf96280a0abfef962c0a907b090abfef962000100020a766965777306c0e7a8fef962041218e012080012"
    "181a000400120004181800041a1a00c2e7a8fef962d0b5a9fef9620000020a7669657773000a1214636f6d70"
    "616374696f6e0200"
)


def test_what_comes_again_for_ever_is_refused() -> None:
    cell = replace(EVENT.cells[0], again=(RangeSet.single(3, 3),) * (MAX_LEVELS + 1))
    with pytest.raises(RemoteProtocolError, match="came 101 times again"):
        decode_event(encode_event(replace(EVENT, cells=(cell,))))


def test_a_version_that_is_not_the_schemas_is_refused() -> None:
    value = bytearray(VERSION_3)
    assert value[10] == 2 * 3, "as Avro writes it"
    value[10] = 2 * 4
    with pytest.raises(RemoteProtocolError, match="version 4"):
        decode_event(bytes(value))


@settings(max_examples=150)
@given(st.data())
def test_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    value = bytearray(VERSION_3)  # without a checksum: the decoder is on its own
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(value) - 1))
        value[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(value)))
    with contextlib.suppress(RemoteProtocolError):  # typed, and no other exception
        decode_event(bytes(value[:end]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"event_number": -1, "covers_from": -1}, "cannot cover"),
        ({"covers_from": 8}, "cannot cover"),
        ({"group": 0}, "cannot cover"),
        ({"group": 9}, "cannot cover"),
        ({"instance": "zz"}, "16 hex digits"),
        ({"server": "x" * 256}, "server of 256"),
        ({"reporter": "a\0b"}, "NUL"),
        ({"consumer_group": "x" * 256}, "consumer_group of 256"),
        ({"cells": (replace(EVENT.cells[0], partition=-1),)}, "negative"),
        ({"cells": (replace(EVENT.cells[0], instance="12"),)}, "16 hex digits"),
        ({"cells": (replace(EVENT.cells[0], latency=(700, 1)),)}, "bucket 700"),
        ({"copied": (Copied("t" * 256, 0, "t"),)}, "topic of 256"),
    ],
)
def test_what_no_reporter_says_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(RemoteProtocolError, match=said):
        decode_event(encode_event(replace(EVENT, **change)))  # type: ignore[arg-type]  # by name


def test_other_things_on_the_topic_are_told_apart() -> None:
    with pytest.raises(RemoteProtocolError, match="not an audit event"):
        decode_event(b"hello")
    with pytest.raises(RemoteProtocolError, match="another version"):
        decode_event(b"\xc3\x01" + b"\0" * 20)
    with pytest.raises(RemoteProtocolError, match="bytes follow"):
        decode_event(VERSION_3 + b"x")
    with pytest.raises(RemoteProtocolError, match="does not match its checksum"):
        decode_event(encode_event(EVENT) + b"x")


def test_claims_about_windows_of_another_length_are_refused() -> None:
    """A producer that did not find the settings counted in windows of a minute; the deployment
    judged windows of five seconds and found twelve claims in one of them and eleven losses."""
    value = encode_event(replace(EVENT, window_ms=60_000))
    assert decode_event(value, 60_000).window_ms == 60_000
    with pytest.raises(RemoteProtocolError, match="windows of 60000 ms, this deployment in 5000"):
        decode_event(value, 5_000)


@pytest.mark.parametrize("sum_of_hashes", [0, 2**63 - 1, 2**63, 2**64 - 1])
def test_sums_of_hashes_have_64_bits(sum_of_hashes: int) -> None:
    """Half of all cells that were only counted, and of all blocks, have a sum above 2^63, which no
    long of Avro holds: the whole event could not be written, again and again."""
    cell = CellReport(
        "t",
        0,
        0,
        summary=Summary(1, 1, 0, 0, sum_of_hashes),
        blocks=(Block(0, 1, sum_of_hashes),),
    )
    event = replace(FULL, cells=(cell,))
    assert decode_event(encode_event(event)) == event
