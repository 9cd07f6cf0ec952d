"""Taking leaders away in clusters of three brokers. What is done is sealed at once; what a log held
before is copied while its broker is dead, since a broker that comes back may cut it.

============================  ======================================================================
kill-leader                   leader killed │ another leads │ it comes back
lost-in-failover              followers stand still, the leader acknowledges (acks=1) │ it is killed
                              │ followers go on, one leads │ it comes back and cuts
unclean-election              the mirror stands still │ followers are killed, the leader is alone in
                              sync and acknowledges │ it is killed │ the follower with the longest
                              log comes back and leads │ the others come back, one of them cuts
============================  ======================================================================
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tallymark.client.admin.topics import PartitionDescription
from tallymark.clock import now_ms
from tallymark.errors import TallymarkError
from tallymark.protocol.records.batch import Record, split_batches
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote, GroundTruthWriter, notes_of
from tallymark_audit.proof.drill.faults.log_faults import end_of
from tallymark_audit.proof.drill.planning.plan import PlannedAction
from tallymark_audit.proof.drill.planning.topology import AGGREGATE, TOPIC, broker_of
from tallymark_audit.proof.drill.running.processes import wait_until
from tallymark_audit.proof.drill.running.stage import Stage
from tallymark_audit.proof.drill.truth.elections import UncleanElection

_WAIT_SECONDS: Final = 90.0
_HOLD_SECONDS: Final = 60.0
"""What stands still is let go on; this is for a drill that dies meanwhile."""
_COPIED_SECONDS: Final = 1.0
"""A mirror that stands still may have asked for more just before: the answer is made by then."""
_RECORDS: Final = 100
"""So many that only the leader has, acknowledged."""


class FailoverActions:
    """See the module. ``elections``: the unclean ones that were brought about."""

    def __init__(self, stage: Stage, ground_truth: GroundTruthWriter) -> None:
        self.elections: list[UncleanElection] = []
        self._stage = stage
        self._processes = stage.processes
        self._ground_truth = ground_truth

    def do(self, action: PlannedAction) -> None:
        """One action of the plan; at its end all brokers run, and all replicas are in sync.
        UserError: the drill cannot go on."""
        if action.kind == kinds.KILL_LEADER:
            self._kill_leader(action.name)
        elif action.kind == kinds.LOST_IN_FAILOVER:
            self._lose(action.name, action.kind)
        else:
            self._elect_unclean(action.name, action.kind)
        self._wait_until_whole(action.name, TOPIC)

    def _kill_leader(self, cluster: str) -> None:
        leader = self._wait_for_leader(cluster, TOPIC)
        broker = broker_of(cluster, leader)
        self._processes.kill(broker)
        self._ground_truth.write([FaultNote(now_ms(), kinds.KILL_LEADER, broker, TOPIC)])
        heir = self._wait_for_leader(cluster, TOPIC, leader)
        self._stage.narrator.say(f"{broker} led and is killed, broker {heir} leads")
        self._start(cluster, [leader])

    def _lose(self, cluster: str, topic: str) -> None:
        """The followers of the topic stand still while its leader acknowledges records, and die
        with it: they never see them. Their sessions outlive the pause on most machines; where not,
        they register anew."""
        leader, followers = self._roles(cluster, topic)
        for node in followers:
            self._processes.hold(broker_of(cluster, node), _HOLD_SECONDS)
        self._wait_for_acks(topic)
        self._processes.kill(broker_of(cluster, leader))
        behind = max(end_of(_newest(self._log(cluster, node, topic))) for node in followers)
        self._seal(cluster, topic, self._records_from(self._log(cluster, leader, topic), behind))
        for node in followers:
            self._processes.resume(broker_of(cluster, node))
        heir = self._wait_for_leader(cluster, topic, leader)
        self._stage.narrator.say(
            f"broker {leader} of {cluster} acknowledged {topic} alone and is killed, "
            f"broker {heir} leads"
        )
        self._start(cluster, [leader])
        self._wait_until_whole(cluster, topic)

    def _elect_unclean(self, cluster: str, topic: str) -> None:
        leader, followers = self._roles(cluster, topic)
        mirror = f"mirror-{cluster}-to-{AGGREGATE}"
        self._processes.hold(mirror, 4 * _HOLD_SECONDS)
        time.sleep(_COPIED_SECONDS)
        self._leave_alone(cluster, topic, leader, followers)
        self._processes.kill(broker_of(cluster, leader))
        files = self._copy(self._log(cluster, leader, topic), leader)
        ends = {node: end_of(_newest(self._log(cluster, node, topic))) for node in followers}
        chosen = max(followers, key=lambda node: ends[node])
        self._seal(cluster, topic, self._records_from(files[0].parent, ends[chosen]))
        self._start(cluster, [chosen])
        self._wait_for_leader(cluster, topic, leader)
        (now,) = self._stage.partitions(cluster, topic)
        election = UncleanElection(
            cluster, topic, now.partition, now.leader, now.leader_epoch, ends[chosen],
            leader, end_of(files[-1]), files,
        )  # fmt: skip
        self.elections.append(election)
        self._stage.narrator.say(
            f"broker {now.leader} of {cluster} is elected for {topic} without offsets "
            f"{election.from_offset} to {election.to_offset}"
        )
        self._start(cluster, [node for node in (leader, *followers) if node != chosen])
        self._wait_until_whole(cluster, topic)
        self._processes.resume(mirror)

    def _leave_alone(self, cluster: str, topic: str, leader: int, followers: Sequence[int]) -> None:
        """Kill the followers, and wait until the leader has acknowledged records alone."""
        for node in followers:
            self._processes.kill(broker_of(cluster, node))

        def is_alone() -> bool:
            return [one.isr for one in self._partitions(cluster, topic)] == [(leader,)]

        why = f"{topic} of {cluster} still has other members in sync"
        wait_until(is_alone, _WAIT_SECONDS, why, self._processes)
        self._wait_for_acks(topic)

    # -- looking --------------------------------------------------------------------------------

    def _roles(self, cluster: str, topic: str) -> tuple[int, list[int]]:
        """The leader of the topic's one partition, and its followers, all in sync."""
        self._wait_until_whole(cluster, topic)
        leader = self._wait_for_leader(cluster, topic)
        return leader, [node for node in self._stage.topology.nodes(cluster) if node != leader]

    def _wait_for_leader(self, cluster: str, topic: str, other_than: int = -1) -> int:
        """The leader of the topic's first partition, once it is another one than that."""
        found = [-1]

        def is_led() -> bool:
            found[0] = next((one.leader for one in self._partitions(cluster, topic)), -1)
            return found[0] not in (-1, other_than)

        why = f"{topic} of {cluster} has no leader but {other_than}"
        wait_until(is_led, _WAIT_SECONDS, why, self._processes)
        return found[0]

    def _wait_until_whole(self, cluster: str, topic: str) -> None:
        def is_whole() -> bool:
            found = self._partitions(cluster, topic)
            return bool(found) and not any(one.under_replicated for one in found)

        why = f"not all replicas of {topic} of {cluster} are in sync"
        wait_until(is_whole, _WAIT_SECONDS, why, self._processes)

    def _wait_for_acks(self, topic: str) -> None:
        """Until its producer was told that more records are safe. That the log has more is not
        enough: on a busy machine the leader died with all of them unanswered, and nothing was
        lost."""
        (book,) = self._stage.topology.sealed.glob(f"web-{topic}-*.book")

        def acked() -> int:
            return book.read_bytes().count(b'["acked", ')

        before = acked()
        why = f"nothing is acknowledged in {topic}"
        wait_until(lambda: acked() > before + _RECORDS, _WAIT_SECONDS, why, self._processes)

    def _partitions(self, cluster: str, topic: str) -> Sequence[PartitionDescription]:
        """In the order of their numbers; none: nothing answers just now."""
        try:
            return self._stage.partitions(cluster, topic)
        except TallymarkError:
            return ()

    def _start(self, cluster: str, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._processes.start(broker_of(cluster, node))
        for node in nodes:
            self._processes.wait_ready(broker_of(cluster, node))

    # -- logs -----------------------------------------------------------------------------------

    def _log(self, cluster: str, node: int, topic: str) -> Path:
        return self._stage.topology.broker_folder(cluster, node) / f"{topic}-0"

    def _copy(self, log: Path, node: int) -> tuple[Path, ...]:
        """The segments as they are now."""
        kept = self._stage.topology.sealed / f"broker-{node}" / log.name
        kept.mkdir(parents=True)
        return tuple(
            Path(shutil.copy2(segment, kept)) for segment in sorted(log.glob("[0-9]*.log"))
        )

    def _records_from(self, log: Path, offset: int) -> list[Record]:
        return [
            record
            for segment in sorted(log.glob("[0-9]*.log"))
            for batch in split_batches(segment.read_bytes())
            if batch.header.next_offset > offset
            for record in batch.records()
        ]

    def _seal(self, cluster: str, topic: str, records: Sequence[Record]) -> None:
        note = FaultNote(now_ms(), topic, f"producer-to-{cluster}", topic)
        self._ground_truth.write(notes_of(note, records))


def _newest(log: Path) -> Path:
    return max(log.glob("[0-9]*.log"))
