"""Both sides of a window beside each other: no row is lost, and the sums hold."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.model.ranges import RangeSet
from tallymark_dashboards.view.pairs import Stretch, pairs, part, sums

RUN = "00112233445566aa"


def seen(ranges: list[int], partition: int = 0, run: str = RUN, **others: Any) -> dict[str, Any]:
    size = RangeSet.from_list(ranges).size
    return {
        "tier": "cluster", "partition": partition, "server": "web" if run else "",
        "instance": run, "seen_topic": "clicks", "seen_partition": partition, "count": size,
        "bytes": 10 * size, "ranges": ranges, "aborted": [], "fingerprint": "",
        "first_offset": 0, "last_offset": size - 1, **others,
    }  # fmt: skip


def claim(ranges: list[int], partition: int = 0, run: str = RUN, **others: Any) -> dict[str, Any]:
    size = RangeSet.from_list(ranges).size
    return {
        "tier": "producer", "partition": partition, "server": "web", "instance": run,
        "reporter": "r1", "count": size, "bytes": 10 * size, "accepted": ranges,
        "acknowledged": ranges, "failed": [], "in_doubt": [], "aborted": [], "filtered": [],
        "expired": [], "summary": [], "duplicates": 0, "unstamped": 0, "acks": -1, **others,
    }  # fmt: skip


def test_a_run_is_one_row_with_both_sides() -> None:
    """The page listed all of upstream and then all of downstream: to find the run of which 3 were
    missing one compared two tables of a hundred rows by eye."""
    (one,) = pairs([claim([0, 9])], [seen([0, 6])])
    assert (one.claimed.messages, one.counted.messages, one.difference) == (10, 7, -3)
    assert one.claimed.reporters == ("r1",)


def test_parts_of_a_run_are_one_row_and_a_message_counts_once() -> None:
    """Two reporters claimed 4–5 both; the cluster has 5 in two partitions."""
    both = [claim([0, 5]), claim([4, 9], reporter="r2")]
    there = [seen([0, 5]), seen([5, 9], seen_partition=3)]
    (one,) = pairs(both, there)
    assert (one.claimed.messages, one.claimed.copies) == (10, 2)
    assert (one.counted.messages, one.counted.copies) == (10, 1)
    assert [stretch.log for stretch in one.counted.stretches] == ["clicks-0", "clicks-3"]


def test_what_is_only_on_one_side_is_there() -> None:
    found = pairs([claim([0, 1], run="aa" * 8)], [seen([0, 3], run="bb" * 8)])
    assert [(one.instance[:2], one.difference) for one in found] == [("bb", 4), ("aa", -2)]


def test_the_worst_of_the_verdict_comes_first() -> None:
    up = [claim([0, 9], run=run * 8) for run in ("aa", "bb", "cc")]
    cells = [
        {"partition": 0, "server": "web", "instance": run * 8, "state": state}
        for run, state in (("bb", "DUPLICATION"), ("cc", "LOSS"))
    ]
    found = pairs(up, up_as_seen(up), cells)
    assert {one.state for one in found[:2]} == {"LOSS", "DUPLICATION"}
    assert (found[2].instance[:2], found[2].state) == ("aa", "COMPLETE")


def up_as_seen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [seen(row["accepted"], row["partition"], row["instance"]) for row in rows]


def test_offsets_are_a_range_only_where_all_of_it_is_of_the_run() -> None:
    """ "90–300" stood beside 4 messages: whoever copied 90 to 300 copied the records of others."""
    assert str(Stretch("clicks-2", 90, 93, 4)) == "clicks-2: 90–93"
    assert str(Stretch("clicks-2", 90, 90, 1)) == "clicks-2: 90"
    assert str(Stretch("clicks-2", 90, 300, 4)) == "clicks-2: 4 within 90–300"


def test_messages_without_names_count_by_number() -> None:
    assert part([seen([], run="", count=7)]).messages == 7
    assert part([seen([], run="", count=7, share=3)]).messages == 3
    assert part([seen([], fingerprint="ab", count=7)]).messages == 7
    assert part([claim([], summary=[9, 8, 0, 1, "ff"])]).messages == 8


def test_with_acks_0_the_claim_is_what_was_accepted() -> None:
    one = part([claim([0, 9], acknowledged=[], in_doubt=[9, 9], acks=0)])
    assert one.messages == 9
    assert one.said is not None
    assert str(one.said["in doubt"]) == "9"


def test_ranges_that_make_no_sense_are_none() -> None:
    assert part([seen([0, 3]) | {"ranges": [5, 1]}]).named == RangeSet()


RUNS = st.sampled_from(["", "aa" * 8, "bb" * 8, "cc" * 8])
SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)), max_size=4).map(
    lambda some: RangeSet((first, first + more) for first, more in some).to_list()
)
CELLS = st.lists(st.tuples(SPANS, st.integers(0, 2), RUNS), max_size=12)


@given(up=CELLS, down=CELLS)
def test_pairing_loses_no_row_and_the_sums_hold(
    up: list[tuple[list[int], int, str]], down: list[tuple[list[int], int, str]]
) -> None:
    above = [claim(ranges, partition, run or "dd" * 8) for ranges, partition, run in up]
    below = [
        seen(ranges, partition, run, count=RangeSet.from_list(ranges).size + len(run))
        for ranges, partition, run in down
    ]
    found = pairs(above, below)
    assert len({one.key for one in found}) == len(found)
    for rows, side in ((above, "claimed"), (below, "counted")):
        there = [row for one in found for row in getattr(one, side).rows]
        assert Counter(map(id, there)) == Counter(map(id, rows))
    claimed, counted, copies = sums(found)
    assert claimed + sum(one.claimed.copies for one in found) == sum(
        RangeSet.from_list(row["acknowledged"]).size for row in above
    )
    assert counted + copies == sum(row["count"] for row in below)
    assert sum(one.difference for one in found) == counted - claimed
