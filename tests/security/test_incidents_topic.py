"""The topic of incidents of replication is a topic like others: it takes records of those that may
write to it, brokers too where they send to another one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from brokers_in_memory import BrokersInMemory
from eventually import eventually
from security_world import PASSWORD

from tallymark.broker.replicas.incidents import (
    INCIDENTS_FILE,
    UNCLEAN_ELECTION,
    ReplicationIncident,
)
from tallymark.broker.trail.opening import told_lately
from tallymark.client.admin.acls import AclEntry
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.users import NewPassword
from tallymark.clock import now_ms

TOPIC = "_tallymark_incidents"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    """Clients need no log-in and may administer; brokers log in as ``broker`` at each other."""
    with BrokersInMemory(
        tmp_path,
        2,
        on_disk=True,
        listeners="OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0",
        listener_security_protocol_map="OUTSIDE:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        inter_broker_listener_name="INSIDE",
        inter_broker_user="broker",
        inter_broker_password=PASSWORD,
        connection_failed_authentication_delay_ms=10,
        authorizer_enable=True,
        zookeeper_allow_open=True,
        super_users="User:ANONYMOUS",
    ) as brokers:
        yield brokers


def incident(broker: int, at: int = 1) -> ReplicationIncident:
    return ReplicationIncident(
        at, UNCLEAN_ELECTION, broker, "t", 0, UUID(int=1), 3, 10, -1, 12, ((0, 0), (3, 10))
    )


def report(cluster: BrokersInMemory, broker: int, at: int = 1) -> None:
    thread = cluster.brokers[broker]

    async def put() -> None:
        assert thread.broker is not None
        assert thread.broker._replicas is not None
        thread.broker._replicas.report(incident(broker, at))

    thread.call(put())


def test_a_report_waits_until_the_brokers_user_may_write_it(
    cluster: BrokersInMemory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without WRITE it must be in the file at least, and come later: no other place has it."""
    cluster.create(TOPIC, replicas=1)
    leader = cluster.state(TOPIC).leader
    other = 3 - leader
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        admin.alter_users([NewPassword("broker", PASSWORD)]).check()
        report(cluster, leader)
        eventually(lambda: len(cluster.content(leader, TOPIC)[0]) == 1)
        report(cluster, other)
        eventually(lambda: "lines of the incidents of replication wait" in caplog.text)
        refused = "TOPIC_AUTHORIZATION_FAILED"
        eventually(lambda: refused in caplog.text)
        assert len(cluster.content(leader, TOPIC)[0]) == 1
        admin.create_acls([AclEntry("topic", TOPIC, "User:broker", "write")]).check()
    eventually(lambda: len(cluster.content(leader, TOPIC)[0]) == 2)
    found = [json.loads(value or b"") for value in cluster.content(leader, TOPIC)[0]]
    assert [line["broker"] for line in found] == [leader, other]
    (data,) = cluster.brokers[other].settings.log_dirs
    assert (data / INCIDENTS_FILE).read_text() == incident(other).line().decode()


def test_a_broker_that_was_killed_with_its_report_tells_it_when_it_is_back(
    cluster: BrokersInMemory,
) -> None:
    """A drill brought an unclean election about and killed the new leader half a minute later. The
    report of it had waited in its memory for a leader of the topic: the audit never heard of the
    election, only of what was cut for it."""
    at = now_ms()
    report(cluster, 1, at)  # no broker may write it: there is no topic, and no right to make it
    (data,) = cluster.brokers[1].settings.log_dirs
    eventually(lambda: (data / INCIDENTS_FILE).exists())
    eventually(lambda: (data / INCIDENTS_FILE).read_bytes() == incident(1, at).line())
    cluster.brokers[1].kill()
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        admin.alter_users([NewPassword("broker", PASSWORD)]).check()
        admin.create_acls([AclEntry("topic", TOPIC, "User:broker", "write")]).check()
        cluster.brokers[1].start()
        eventually(lambda: TOPIC in admin.topics())

    def told() -> list[bytes | None]:
        return [
            value
            for one in cluster.brokers
            for value in cluster.content(one, TOPIC)[0]
            if cluster.state(TOPIC).leader == one
        ]

    eventually(lambda: incident(1, at).line().strip() in told())


def test_only_whole_lines_of_the_last_week_are_told_again(tmp_path: Path) -> None:
    path = tmp_path / INCIDENTS_FILE
    assert told_lately(path, 1_000) == []
    week = 7 * 24 * 3_600_000
    old, new = incident(1, 999).line(), incident(2, 1_000).line()
    path.write_bytes(b"no json\n[1]\n" + old + new + new[:-9])
    assert told_lately(path, week + 1_000) == [new]
    many = b"".join(incident(3, 2_000 + number).line() for number in range(1_000))
    path.write_bytes(many)
    found = told_lately(path, week)
    assert 100 < len(found) < 1_000
    assert many.endswith(b"".join(found))
