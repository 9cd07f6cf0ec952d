"""What the audit has to say of what is in the logs."""

import zlib

from tallymark_audit.proof.drill.applications.producer import message_value
from tallymark_audit.proof.drill.faults.kinds import RESTAMPED_AT_REST
from tallymark_audit.proof.drill.scoring.compare import compare
from tallymark_audit.proof.drill.truth.books_and_logs import (
    AckedRecord,
    Book,
    Log,
    LostHost,
    MessageId,
    Seen,
    SenderRun,
    Unreadable,
)
from tallymark_audit.proof.drill.truth.expected import (
    CORRUPT,
    DUPLICATION,
    LOSS,
    UNCLAIMED,
    Cell,
    Expectation,
    Finding,
    expect,
    expect_gone,
    expect_nothing,
    expect_repeats,
)

WINDOW = 1_000
SERVER, INSTANCE, TOPIC = "web-1", "00" * 8, "orders"
ORIGIN = SenderRun(TOPIC, 0, SERVER, INSTANCE)


def crc(sequence: int) -> int:
    return zlib.crc32(message_value(SERVER, 0, sequence))


def book(*acked: int, ended: bool = True) -> Book:
    """Messages whose number is also their time, in hundreds of ms."""
    told = {(0, sequence): AckedRecord(sequence * 100, crc(sequence)) for sequence in acked}
    return Book("dc1", TOPIC, SERVER, INSTANCE, told, {0: max(acked) + 1} if ended else {})


def log(*sequences: int, damaged: tuple[int, ...] = ()) -> Log:
    found: Log = {ORIGIN: {}}
    for offset, sequence in enumerate(sequences):
        content = crc(sequence) ^ (sequence in damaged)
        seen = Seen(0, offset, sequence * 100, content)
        found[ORIGIN].setdefault(sequence, []).append(seen)
    return found


def expected(one: Book, **logs: Log) -> Expectation:
    return expect([one], logs, [("dc1", "aggregate")] if "aggregate" in logs else [], WINDOW)


def item(kind: str, number: int, window: int, copy: int = 0, edge: str = "") -> Finding:
    cell = Cell(edge or "producer-to-dc1", TOPIC, window, 0, SERVER, INSTANCE)
    return Finding(cell, kind, number, copy)


def test_all_is_well() -> None:
    found = expected(book(0, 1, 12), dc1=log(0, 1, 12), aggregate=log(12, 0, 1))
    assert found.items == set()
    assert found.messages == {"producer-to-dc1": 3, "dc1-to-aggregate": 3}
    assert {cell.window for cell in found.cells} == {0, 1_000}


def test_a_loss_is_expected_on_the_hop_where_it_was_lost() -> None:
    found = expected(book(0, 1, 12), dc1=log(0, 12), aggregate=log(0))
    assert found.items == {
        item(LOSS, 1, 0),
        item(LOSS, 12, 1_000, edge="dc1-to-aggregate"),
    }


def test_further_copies_are_those_that_upstream_does_not_have() -> None:
    found = expected(book(0, 1), dc1=log(0, 0, 1), aggregate=log(0, 0, 0, 1))
    assert found.items == {
        item(DUPLICATION, 0, 0, 1),
        item(DUPLICATION, 0, 0, 1, edge="dc1-to-aggregate"),
    }


def test_loss_and_duplication_of_one_cell_do_not_cancel() -> None:
    found = expected(book(0, 1, 2), dc1=log(0, 0, 2))
    assert found.items == {item(LOSS, 1, 0), item(DUPLICATION, 0, 0, 1)}


def test_a_changed_value_corrupts_its_block_where_that_can_show() -> None:
    found = expected(book(0, 1, 2), dc1=log(0, 1, 2, damaged=(1, 2)))
    assert found.items == {item(CORRUPT, 0, 0)}
    assert found.hidden == 0


def test_a_changed_value_is_hidden_by_a_loss_or_a_copy_in_its_block() -> None:
    short = expected(book(0, 1, 2), dc1=log(0, 1, damaged=(1,)))
    assert short.items == {item(LOSS, 2, 0)}
    assert short.hidden == 1
    twice = expected(book(0, 1, 2), dc1=log(0, 0, 1, 2, damaged=(1,)))
    assert twice.items == {item(DUPLICATION, 0, 0, 1)}
    assert twice.hidden == 1


def test_a_copy_in_another_block_of_the_cell_hides_no_changed_value() -> None:
    """Seed 5 of three brokers: a cell held sequences 938 to 1,037, so the ends of two blocks. The
    first had copies on both sides, the second a changed value. The audit found it, and the drill
    called that false, since it took copies for hiding all of their cell."""
    numbers = range(1020, 1028)
    origin = SenderRun(TOPIC, 0, SERVER, INSTANCE)

    def side(changed: int) -> Log:
        seen = {one: [Seen(0, one, 0, one == changed)] for one in numbers}
        seen[1021] *= 2
        return {origin: seen}

    logs = {"dc1": side(-1), "aggregate": side(1025)}
    found = expect([], logs, [("dc1", "aggregate")], WINDOW)
    assert found.items == {item(CORRUPT, 1, 0, edge="dc1-to-aggregate")}
    hidden = expect([], logs | {"aggregate": side(1022)}, [("dc1", "aggregate")], WINDOW)
    assert hidden.items == set()
    assert hidden.hidden == 1


def test_a_changed_value_is_hidden_by_a_message_that_upstream_does_not_have() -> None:
    """The sides of the block are not the same messages, so the audit cannot compare them."""
    found = expected(book(0, 1), dc1=log(0, 1), aggregate=log(0, 1, 2, damaged=(1,)))
    assert found.items == {item(UNCLAIMED, 2, 0, edge="dc1-to-aggregate")}
    assert found.hidden == 1


def test_a_changed_value_beside_one_of_unknown_fate_may_show_or_not() -> None:
    """A producer was killed before it heard of its last message, which was in the log: its block
    held one message more than was claimed, so the change in another one could not show, and the
    drill called that a miss."""
    found = expected(book(0, 1, ended=False), dc1=log(0, 1, 2, damaged=(1,)))
    assert found.items == set()
    assert found.allows(item(CORRUPT, 0, 0))
    assert not found.allows(item(CORRUPT, 1, 0))
    elsewhere = expected(book(0, 1, ended=False), dc1=log(0, 1, 12, damaged=(1,)))
    assert elsewhere.items == {item(CORRUPT, 0, 0)}, "another window: another cell's block"


def test_what_a_killed_application_was_never_told_may_be_a_loss_or_not() -> None:
    found = expected(book(0, 1, ended=False), dc1=log(0, 1, 2))
    assert found.items == set()
    assert found.allows(item(LOSS, 3, 0))
    assert not found.allows(item(LOSS, 2, 0)), "it is there"
    assert not found.allows(item(DUPLICATION, 3, 0, 1))
    assert not found.allows(item(LOSS, 3, 0, edge="dc1-to-aggregate"))


def test_an_application_that_ended_well_was_told_everything() -> None:
    found = expected(book(0, 1), dc1=log(0, 1))
    assert not found.allows(item(LOSS, 2, 0))


def test_what_was_not_acknowledged_and_is_there_twice_is_still_duplication() -> None:
    found = expected(book(0, ended=False), dc1=log(0, 1, 1))
    assert found.items == {item(DUPLICATION, 1, 0, 1)}


def test_what_a_mirror_has_and_its_source_has_no_longer_is_unclaimed() -> None:
    found = expected(book(0, 1), dc1=log(0), aggregate=log(0, 1))
    assert found.items == {
        item(LOSS, 1, 0),
        item(UNCLAIMED, 1, 0, edge="dc1-to-aggregate"),
    }


def test_what_a_group_processed_twice_is_named_and_its_contents_are_its_own_business() -> None:
    edge = "aggregate-to-group:billing"
    logs = {"aggregate": log(0, 1, 2), "group:billing": log(0, 0, 1, 1, damaged=(1,))}
    found = expect([], logs, [("aggregate", "group:billing")], WINDOW)
    assert found.items == {
        item(LOSS, 2, 0, edge=edge),
        item(DUPLICATION, 0, 0, 1, edge=edge),
        item(DUPLICATION, 1, 0, 1, edge=edge),
    }
    assert not any(one.mirrored for one in found.items)


def test_what_a_message_lost_with_its_stamp_may_show_to_who_counted_it_before() -> None:
    """Message 1 was restamped as 2: 1 is lost and 2 is there twice, once with what 1 held. Its
    block cannot show that; the scrub knew what was counted first, and the drill called it false."""
    topic = RESTAMPED_AT_REST
    origin = ORIGIN._replace(topic=topic)
    one = book(0, 1, 2)
    one.topic = topic
    there = {0: [Seen(0, 0, 0, crc(0))], 2: [Seen(0, 1, 200, crc(1)), Seen(0, 2, 200, crc(2))]}
    found = expected(one, dc1={origin: there})
    kinds = {(item.kind, item.number) for item in found.items}
    assert kinds == {(LOSS, 1), (DUPLICATION, 2)}
    cell = next(iter(found.items)).cell
    assert found.allows(Finding(cell, CORRUPT, 0))
    assert not found.allows(Finding(cell, CORRUPT, 1))


MIRROR = "dc1-to-aggregate"


def who(sequence: int) -> MessageId:
    return MessageId(TOPIC, INSTANCE, 0, sequence)


def deleted(now: Log, aggregate: Log, young: frozenset[MessageId] = frozenset()) -> Expectation:
    """The log of dc1 held 0, 1 and 2 when its topic was deleted; ``now`` is what came since."""
    old = log(0, 1, 2)
    both = {ORIGIN: old[ORIGIN] | now.get(ORIGIN, {})}
    found = expected(book(0, 1, 2, 5), dc1=both, aggregate=aggregate)
    expect_gone(found, "dc1", old, now, young)
    return found


def test_what_a_deleted_topic_held_had_arrived_and_what_was_not_mirrored_is_gone() -> None:
    found = deleted(log(5), log(0, 1, 5))
    assert found.items == found.gone == {item(LOSS, 2, 0, edge=MIRROR)}


def test_what_was_sent_again_after_the_deletion_is_not_gone() -> None:
    found = deleted(log(2, 5), log(0, 1, 5))
    assert found.items == {item(LOSS, 2, 0, edge=MIRROR)}
    assert found.gone == set()


def test_of_what_came_just_before_the_deletion_nobody_can_say_whether_it_was_counted() -> None:
    found = deleted(log(5), log(0, 1, 5), frozenset({who(2)}))
    assert (found.items, found.gone) == (set(), set())
    for edge in ("", MIRROR):
        assert found.allows(item(LOSS, 2, 0, edge=edge))
        assert found.allows(item(UNCLAIMED, 2, 0, edge=edge))
        assert not found.allows(item(LOSS, 1, 0, edge=edge))
        assert not found.allows(item(CORRUPT, 2, 0, edge=edge))


def test_what_a_killed_member_had_in_hand_was_processed_twice_or_once() -> None:
    edge = "aggregate-to-group:billing"
    logs = {"aggregate": log(0, 1, 2), "group:billing": log(0, 1, 0, 1, 2)}
    found = expect([], logs, [("aggregate", "group:billing")], WINDOW)
    expect_repeats(found, edge, {who(1)})
    assert found.items == {item(DUPLICATION, 0, 0, 1, edge=edge)}
    assert found.allows(item(DUPLICATION, 1, 0, 1, edge=edge))
    assert not found.allows(item(DUPLICATION, 2, 0, 1, edge=edge))


def test_nothing_is_expected_behind_what_nobody_can_read() -> None:
    found = expected(book(0, 1, 12), dc1=log(0, 1, 12), aggregate=log(0))
    expect_nothing(found, Unreadable("aggregate", TOPIC, 0, 7, 1_000))
    assert found.items == {item(LOSS, 1, 0, edge=MIRROR)}
    assert found.allows(item(LOSS, 12, 1_000, edge=MIRROR))
    assert not found.allows(item(LOSS, 0, 0, edge=MIRROR))
    assert not found.allows(item(LOSS, 12, 1_000)), "dc1 itself can be read"


def test_a_repair_is_not_waited_for_where_nothing_is_upstream() -> None:
    found = deleted(log(5), log(0, 1, 5))
    lost = {item(LOSS, 2, 0, edge=MIRROR)}
    assert compare(found, lost, located=set()).perfect
    found.gone.clear()
    assert compare(found, lost, located=set()).unplaced == lost


def test_what_a_lost_host_did_not_report_is_in_doubt_however_old() -> None:
    """On a busy machine the last report of a host that was lost was eight seconds old, not half a
    second: that its messages were UNCLAIMED and not LOSS was called wrong."""
    for reported, sure in ((1 << 62, True), (22_000, True), (21_500, False), (9_000, False)):
        host = LostHost("dc1", INSTANCE, 30_000, reported)
        found = expect([book(1, 210)], {"dc1": log(1)}, [], WINDOW, [host])
        assert [item.kind for item in found.items] == ([LOSS] if sure else [])
        assert bool(found.unsure) != sure
