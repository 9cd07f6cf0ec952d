"""The collector's store and Spark answer the same questions; what is done with the answers is one
function."""

from __future__ import annotations

from tallymark.deployment import AuditSettings, Deployment, Mirror
from tallymark_audit.collector.judging.window_facts import StoreFacts
from tallymark_audit.events.claim_book import ClaimBook
from tallymark_audit.events.events import AuditEvent, Copied, Gap
from tallymark_audit.judge.copy_progress import STOPPED, Part, mirror_of
from tallymark_audit.judge.fact_source import FactSource
from tallymark_audit.judge.hops import hops_into
from tallymark_audit.judge.states import State
from tallymark_audit.judge.windows import judge_windows
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.store import open_store
from tallymark_spark_jobs.reconcile.judging.spark_facts import Facts, SparkFacts

(EDGE,) = (
    edge
    for edge in derive_edges(Deployment(mirrors=(Mirror(source="dc1", target="aggregate"),)))
    if edge.kind == "mirror"
)
(HOP,) = (hop for hop in hops_into([EDGE], "aggregate"))
SETTINGS = AuditSettings(window_ms=5_000, settle_min_ms=5_000)
AS_OF = 1_000_000


def test_both_are_sources_of_facts() -> None:
    """What one of them lacks is found here, by the type checker too."""
    with open_store("sqlite://") as store, store.read() as connection:
        sources: list[FactSource] = [
            StoreFacts(connection, SETTINGS, AS_OF),
            SparkFacts(Facts(AS_OF, {}, {})),
        ]
        for source in sources:
            (verdict,) = judge_windows(source, HOP, "t", [0], SETTINGS, AS_OF)
            assert verdict.claimed == verdict.observed == 0
            assert judge_windows(source, HOP, "t", [0], SETTINGS, AS_OF, skip_empty=True) == []


def test_spark_knows_that_a_mirror_waits_before_a_spread_partition() -> None:
    """Upstream of a second mirror, cells do not lie in the partition that they began in. Where that
    mirror stood still at a batch that cannot be read, the collector said so of everything behind
    it. Spark had a copy of that rule without this half of it: SETTLING, "has not copied it yet",
    in every nightly run."""
    key = CellKey("t", 5, 0, "web-1", "11" * 8)
    seen = Observation(key, 10, 100, RangeSet.single(0, 9), first_offset=20, last_offset=29)
    stopped = AuditEvent(
        kind="mirror",
        reporter=mirror_of(EDGE),
        server="mirror-1",
        application="mirror",
        instance="",
        event_number=0,
        covers_from=0,
        emitted_at=AS_OF - 10,
        window_ms=5_000,
        complete_through=0,
        copied=(Copied("t", 0, "t", "", 15, 15),),
        gaps=(Gap("t", 0, 15, 15, STOPPED, AS_OF - 100),),
    )
    book = ClaimBook()
    book.add(stopped)
    facts = Facts(
        AS_OF,
        {("dc1", "t"): {0: {key: seen}}},
        {"aggregate": book},
        parts={("dc1", "t"): {0: {key: [Part(0, seen)]}}},
    )
    source = SparkFacts(facts)
    assert source.is_spread("dc1", "t")
    (verdict,) = judge_windows(source, HOP, "t", [0], SETTINGS, AS_OF)
    assert (verdict.state, verdict.missing) == (State.UNKNOWN, 10)
    assert "cannot be read from offset 15 on" in verdict.reasons[0]
    assert "mirror-dc1-to-aggregate waits there" in verdict.reasons[0]
