"""Doing what happens beside the main traffic: topics made again, damage at rest, members of a group
killed. What is done is sealed at once, and what the truth needs is kept."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tallymark.client import Admin
from tallymark.clock import now_ms
from tallymark_audit.proof.drill.faults import at_rest, kinds
from tallymark_audit.proof.drill.faults.at_rest import Rotten
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote, GroundTruthWriter, notes_of
from tallymark_audit.proof.drill.faults.log_faults import end_of
from tallymark_audit.proof.drill.findings.found import counted_to
from tallymark_audit.proof.drill.planning.plan import PlannedAction
from tallymark_audit.proof.drill.planning.topology import (
    AGGREGATE,
    CONSUMER_HOP,
    GROUP,
    TOPIC,
    WINDOW_MS,
    SideTopic,
    broker_of,
)
from tallymark_audit.proof.drill.running.lake_actions import change_in_lake
from tallymark_audit.proof.drill.running.processes import wait_until
from tallymark_audit.proof.drill.running.stage import Stage
from tallymark_audit.proof.drill.truth.books_and_logs import (
    LostMember,
    OldLog,
    Unreadable,
    polls_of,
)

_REST_MS: Final = 5_000
"""What is as old as this is counted soon, if its collector runs."""
_WAIT_SECONDS: Final = 90.0
_POLLS: Final = 50
"""A member that is killed has asked so often, at least: it has stored offsets, and gone on."""
_BEHIND_SHARE: Final = 0.7
"""How often a mirror stops when the topic that it copies is deleted."""
_BEHIND_SECONDS: Final = 2.0
"""How long it has by then, and how long in all."""
_STILL_SECONDS: Final = 5.0


class SideActions:
    """See the module. ``old_logs``: of deleted topics; ``unreadable``: where a log ends for its
    readers; ``lost_members``: of the group, with their journals."""

    def __init__(
        self, stage: Stage, ground_truth: GroundTruthWriter, chance: random.Random
    ) -> None:
        self.old_logs: list[OldLog] = []
        self.unreadable: list[Unreadable] = []
        self.lost_members: list[LostMember] = []
        self._stage = stage
        self._processes = stage.processes
        self._topology = stage.topology
        self._ground_truth = ground_truth
        self._chance = chance
        self._members = 0

    def do(self, action: PlannedAction, topics: tuple[SideTopic, ...]) -> None:
        """One action of the plan. UserError: the drill cannot go on."""
        if action.kind in kinds.CONSUMER_KILLS:
            self._kill_member(action.kind)
            return
        (topic,) = [topic for topic in topics if topic.name == action.kind]
        if action.kind in kinds.TOPIC_FAULTS:
            self._make_again(topic)
        elif action.kind in kinds.LAKE_FAULTS:
            change_in_lake(self._stage, topic, self._ground_truth, self._chance)
        elif action.kind == kinds.BROKEN_CRC:
            self._break(topic, action.name)
        else:
            self._let_rot(topic, action.name)

    # -- topics ---------------------------------------------------------------------------------

    def _make_again(self, topic: SideTopic) -> None:
        """Delete the topic under its producer, and make it again; a mirror may be behind."""
        name, home = topic.name, topic.home
        folders = self._folders(home, name)
        if self._chance.random() < _BEHIND_SHARE:
            self._processes.pause(f"mirror-{home}-to-{AGGREGATE}", _STILL_SECONDS)
            time.sleep(_BEHIND_SECONDS)
        # Only what the mirror has not copied and the collector has counted is lost for certain.
        young = {folder.name: end_of(_newest(folder)) for folder in folders}
        self._wait_for_counter(home, name, young)
        kept = {folder.name: self._keep(folder) for folder in folders}
        left = topic.partitions // 2 if name == kinds.SHRINK_TOPIC else topic.partitions
        with Admin(bootstrap_servers=self._topology.straight(home)) as admin:
            admin.delete_topic(name)
            admin.create_topic(name, left)
        self._ground_truth.write([FaultNote(now_ms(), name, home, name)])
        self.old_logs += [
            OldLog(home, name, kept[folder], young[folder]) for folder in sorted(kept)
        ]
        self._stage.narrator.say(f"topic {name} of {home} is deleted and made again")

    def _wait_for_counter(self, cluster: str, topic: str, ends: dict[str, int]) -> None:
        """Until the collector has read what was there some time ago: it cannot count what is gone
        before."""

        def has_read() -> bool:
            counted = counted_to(self._stage.store, cluster, topic)
            return all(
                counted.get(int(folder.rpartition("-")[2]), 0) >= end
                for folder, end in ends.items()
            )

        why = f"the collector of {cluster} does not read {topic}"
        wait_until(has_read, _WAIT_SECONDS, why, self._processes)

    def _keep(self, folder: Path) -> tuple[Path, ...]:
        """The segments under a second name, by which they stay when the broker deletes them: also
        what is appended until then is in them."""
        kept = self._topology.sealed / "deleted" / folder.name
        kept.mkdir(parents=True, exist_ok=True)
        found: list[Path] = []
        for segment in sorted(folder.glob("[0-9]*.log")):
            os.link(segment, kept / segment.name)
            found.append(kept / segment.name)
        return tuple(found)

    # -- damage at rest -------------------------------------------------------------------------

    def _let_rot(self, topic: SideTopic, cluster: str) -> None:
        """Damage what was counted, here and where it is mirrored to: a mirror that is behind would
        copy the damage, and the alarm about it would be taken back after the second look."""
        segment = self._wait_for_segment(topic, cluster, lambda: now_ms() - _REST_MS)
        end = {segment.parent.name: end_of(segment)}
        for place in dict.fromkeys((cluster, AGGREGATE)):
            self._wait_for_counter(place, topic.name, end)
        damage: Callable[[], Rotten] = {
            kinds.CHANGED_AT_REST: partial(at_rest.change_values, segment, self._chance),
            kinds.RESTAMPED_AT_REST: partial(
                at_rest.change_stamps, segment, self._chance, WINDOW_MS
            ),
            kinds.LOST_SEGMENT: partial(at_rest.remove, segment),
            kinds.LOSS_FOR_SPARK: partial(at_rest.remove, segment),
        }[topic.name]
        broker = broker_of(cluster)
        self._processes.kill(broker)
        self._seal_rot(damage(), topic.name, cluster)
        self._processes.start(broker)
        self._processes.wait_ready(broker)

    def _break(self, topic: SideTopic, cluster: str) -> None:
        """Break the CRC of one batch before its collector has come to it."""
        broker, collector = broker_of(cluster), f"collector-{cluster}"
        self._processes.kill(collector)
        (folder,) = self._folders(cluster, topic.name)
        end = end_of(_newest(folder))
        segment = self._wait_for_segment(topic, cluster, now_ms, end)
        self._processes.kill(broker)
        rotten = at_rest.break_crc(segment, self._chance)
        self._seal_rot(rotten, topic.name, cluster)
        window = rotten.before - rotten.before % WINDOW_MS
        until = rotten.behind - rotten.behind % WINDOW_MS
        self.unreadable.append(Unreadable(cluster, topic.name, 0, rotten.offset, window, until))
        self._processes.start(broker)
        self._processes.wait_ready(broker)
        self._processes.start(collector)

    def _wait_for_segment(
        self, topic: SideTopic, cluster: str, older_than: Callable[[], int], first_offset: int = 0
    ) -> Path:
        """A closed segment of the topic's one partition, chosen among all there are."""
        (folder,) = self._folders(cluster, topic.name)
        found: list[Path] = []

        def has_some() -> bool:
            found[:] = at_rest.closed_segments(folder, older_than(), first_offset)
            return bool(found)

        why = f"no segment of {topic.name} on {cluster} is closed and flushed"
        wait_until(has_some, _WAIT_SECONDS, why, self._processes)
        return self._chance.choice(found)

    def _seal_rot(self, rotten: Rotten, kind: str, cluster: str) -> None:
        now, records = now_ms(), rotten.records
        self._ground_truth.write(notes_of(FaultNote(now, kind, cluster, kind), records))
        where = f"{rotten.segment.parent.name} of {cluster}"
        self._stage.narrator.say(f"{kind}: {len(records)} messages of {where}")

    # -- the group ------------------------------------------------------------------------------

    def consume(self) -> None:
        """Start a member of the group: through the proxy if there is one, its reports not."""
        self._members += 1
        self._processes.start_consumer(
            f"consumer-{GROUP}",
            {
                "bootstrap": self._topology.hops[CONSUMER_HOP].bootstrap,
                "straight": self._topology.straight(AGGREGATE),
                "topic": TOPIC,
                "group": GROUP,
                "server": f"app-{self._members}",
                "book": str(self._topology.sealed / f"{GROUP}.consumed"),
            },
        )
        self._processes.wait_ready(f"consumer-{GROUP}")

    def _kill_member(self, kind: str) -> None:
        name, server = f"consumer-{GROUP}", f"app-{self._members}"
        book = self._topology.sealed / f"{GROUP}.consumed"
        why = f"{server} of group {GROUP} is given nothing"
        wait_until(lambda: polls_of(book, server) > _POLLS, _WAIT_SECONDS, why, self._processes)
        gone = ""
        if kind == kinds.LOST_CONSUMER:
            # Before the kill, or another process that starts just then would publish it.
            self._forget_journal(server)
            gone = ", and its journal is gone with its host"
        self._processes.kill(name)
        now = now_ms()
        self._ground_truth.write([FaultNote(now, kind, CONSUMER_HOP, TOPIC)])
        if gone:
            self.lost_members.append(LostMember(server, now))
        self._stage.narrator.say(f"{server} of group {GROUP} is killed{gone}")
        self.consume()

    def _forget_journal(self, server: str) -> None:
        """Remove the journals that name the member as their server."""
        for journal in self._topology.deployment.journal_dir.glob("*"):
            if journal.is_file() and server.encode() in journal.read_bytes():
                journal.unlink()

    def _folders(self, cluster: str, topic: str) -> list[Path]:
        """The topic's logs, each where its partition is led."""
        nodes = self._topology.nodes(cluster)
        if len(nodes) == 1:  # it is the one, also while it is only starting
            found = self._topology.broker_folder(cluster, *nodes).glob(f"{topic}-*")
            return sorted(path for path in found if path.name.rpartition("-")[2].isdigit())
        leaders = self._stage.leaders(cluster, topic)
        return [
            self._topology.broker_folder(cluster, node) / f"{topic}-{partition}"
            for partition, node in sorted(leaders.items())
        ]


def _newest(folder: Path) -> Path:
    return max(folder.glob("[0-9]*.log"))
