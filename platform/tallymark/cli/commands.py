"""Which commands there are, without importing one of them.

They are the entry points ``tallymark.commands`` of our own package (a test holds that), written
down here so that no command has to read the metadata of every installed package before it starts:
that takes 0.03 s of processor time. Commands of other packages are found by their entry points.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """Where a command is (``module:attribute``), and its line in ``tallymark --help``."""

    target: str
    summary: str


COMMANDS: Final[dict[str, Entry]] = {
    "acls": Entry(
        "tallymark.cli.acls:command",
        "Say who may do what.",
    ),
    "apache-kafka": Entry(
        "tallymark.cli.apache_kafka:command",
        "Run a broker of Apache Kafka, for trying the stack on it.",
    ),
    "attach": Entry(
        "tallymark_audit.attach.cli:command",
        "Audit Kafka clusters that are there already.",
    ),
    "audit": Entry(
        "tallymark_audit.cli:command",
        "Count, judge, name and repair: the audit.",
    ),
    "broker": Entry(
        "tallymark.cli.broker:command",
        "Run one broker.",
    ),
    "cluster": Entry(
        "tallymark.cli.cluster:command",
        "Show the brokers of a cluster.",
    ),
    "completion": Entry(
        "tallymark.cli.completion:command", "Print the script by which a shell completes commands."
    ),
    "consume": Entry(
        "tallymark.cli.consume:command",
        "Print the messages of topics.",
    ),
    "dashboards": Entry(
        "tallymark_dashboards.cli:command",
        "Serve the audit dashboards.",
    ),
    "demo": Entry(
        "tallymark_audit.demo.cli:command", "Run the main job end to end, with a real fault."
    ),
    "doctor": Entry(
        "tallymark.cli.doctor:command",
        "Look for what is missing on this machine, and say what to do.",
    ),
    "export": Entry(
        "tallymark.cli.export:command",
        "Write the records of a topic to a file.",
    ),
    "groups": Entry(
        "tallymark.cli.groups:command", "List, describe, reset and delete consumer groups."
    ),
    "import": Entry(
        "tallymark.cli.import_file:command", "Send the records of an exported file to a topic."
    ),
    "log-dirs": Entry(
        "tallymark.cli.log_dirs:command",
        "Show what the disks of brokers hold.",
    ),
    "mirror": Entry(
        "tallymark.cli.mirror:command",
        "Copy topics from one cluster into another.",
    ),
    "offsets": Entry(
        "tallymark.cli.offsets:command",
        "Check how far consumers are behind.",
    ),
    "perf": Entry(
        "tallymark.cli.perf:command", "Measure how fast a cluster takes and gives messages."
    ),
    "produce": Entry(
        "tallymark.cli.produce:command",
        "Publish lines as messages.",
    ),
    "publish": Entry(
        "tallymark.cli.publish:command",
        "Publish JSON lines, CSV, access logs or host metrics as Avro events.",
    ),
    "quotas": Entry(
        "tallymark.cli.quotas:command",
        "List, set and remove quotas of users and client ids.",
    ),
    "reconcile": Entry(
        "tallymark_spark_jobs.cli:reconcile",
        "Reconcile with Spark: count the data, judge every window.",
    ),
    "registry": Entry(
        "tallymark_schema_registry.cli:command",
        "Serve the Avro schema registry.",
    ),
    "replay": Entry(
        "tallymark.cli.replay:command", "Send a topic's messages again, at the pace they once came."
    ),
    "status": Entry(
        "tallymark.cli.status:command",
        "Show the processes of the running stack.",
    ),
    "topics": Entry(
        "tallymark.cli.topics:command", "List, create, describe, change and delete topics."
    ),
    "up": Entry(
        "tallymark.cli.up:command",
        "Start the whole stack on this machine.",
    ),
    "users": Entry(
        "tallymark.cli.users:command",
        "Add, list and remove users.",
    ),
    "verify-log": Entry(
        "tallymark.cli.verify_log:command",
        "Check the files of a broker's logs.",
    ),
    "zookeeper": Entry(
        "tallymark.cli.zookeeper:command", "Run Apache ZooKeeper from the Spark extra."
    ),
}
