"""Publishing what killed producers left, from a process that is not a producer."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tallymark.client import Admin
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment, dump_toml
from tallymark.testing import MemoryBroker
from tallymark_audit.cli import command
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.books.tally import ReporterIdentity, Run, TallyKey
from tallymark_audit.reporters.journal.writer import Journal

HUNDRED_DAYS = 100 * 24 * 3600 * 1000


def leave_a_journal(folder: Path, cluster: str) -> None:
    """As a producer that is killed before it has published anything."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(
        folder, cluster, ReporterIdentity("producer-aa", "web", "app", "aa" * 8, 1000, 5)
    )
    journal.accept(Run(TallyKey("t", 0, 0), 0, 9, 1, 2), 10, 77)
    journal.close(remove=False)


def test_the_audit_topic_is_made_with_the_retention_of_the_settings(tmp_path: Path) -> None:
    """Where a host's producers had all been killed before the audit topic was there, the journals'
    publisher made it, with a retention of 35 days whatever the settings said: reports that were to
    be kept for 100 days were gone after 35."""
    with MemoryBroker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        deployment = Deployment(
            data_dir=tmp_path,
            clusters=(Cluster(name="dc1", brokers=(BrokerAddress(port=port),)),),
            mirrors=(),
            audit=AuditSettings(retention_ms=HUNDRED_DAYS),
        )
        settings = tmp_path / "tallymark.toml"
        settings.write_text(dump_toml(deployment))
        leave_a_journal(deployment.journal_dir, admin.cluster_id() or "")
        arguments = ["replay-journals", "--settings", str(settings), "--cluster", "dc1"]
        result = CliRunner().invoke(command, arguments, catch_exceptions=False)
        assert "the last claims of 1 producer runs" in result.output
        (kept,) = admin.describe_configs([("topic", AUDIT_TOPIC)]).check().values()
    assert kept["retention.ms"].value == str(HUNDRED_DAYS)
    assert list(deployment.journal_dir.iterdir()) == []
