"""The names of all commands, known without importing them.

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
        "tallymark.cli.admin.acls:command",
        "Say who may do what.",
    ),
    "apache-kafka": Entry(
        "tallymark.cli.servers.apache_kafka:command",
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
        "tallymark.cli.servers.broker:command",
        "Run one broker.",
    ),
    "brokers": Entry(
        "tallymark.cli.admin.leads.brokers:command",
        "Empty brokers before they are stopped or removed.",
    ),
    "cluster": Entry(
        "tallymark.cli.admin.cluster:command",
        "Show the brokers of a cluster.",
    ),
    "completion": Entry(
        "tallymark.cli.completion:command", "Print the script by which a shell completes commands."
    ),
    "consume": Entry(
        "tallymark.cli.messages.consume:command",
        "Print the messages of topics.",
    ),
    "dashboards": Entry(
        "tallymark_dashboards.cli:command",
        "Serve the audit dashboards.",
    ),
    "demo": Entry(
        "tallymark_audit.proof.demo.cli:command", "Run the main job end to end, with a real fault."
    ),
    "doctor": Entry(
        "tallymark.cli.stack.doctor:command",
        "Look for what is missing on this machine, and say what to do.",
    ),
    "down": Entry(
        "tallymark.cli.stack.down:command",
        "Stop the stack that tallymark up keeps running.",
    ),
    "elect": Entry(
        "tallymark.cli.admin.leads.elect:command",
        "Give partitions the leader that they should have.",
    ),
    "export": Entry(
        "tallymark.cli.messages.export:command",
        "Write the records of a topic to a file.",
    ),
    "features": Entry(
        "tallymark.cli.admin.features:command",
        "Show and raise what all brokers of a cluster understand.",
    ),
    "groups": Entry(
        "tallymark.cli.admin.groups:command", "List, describe, reset and delete consumer groups."
    ),
    "import": Entry(
        "tallymark.cli.messages.import_file:command",
        "Send the records of an exported file to a topic.",
    ),
    "lake": Entry(
        "tallymark_spark_jobs.cli.lake:lake",
        "Look into the lake, and keep its files in order.",
    ),
    "load": Entry(
        "tallymark_spark_jobs.cli.load:load",
        "Load topics into the lake, with Spark: every message exactly once.",
    ),
    "log-dirs": Entry(
        "tallymark.cli.admin.log_dirs:command",
        "Show what the disks of brokers hold.",
    ),
    "mirror": Entry(
        "tallymark.cli.servers.mirror:command",
        "Copy topics from one cluster into another.",
    ),
    "offsets": Entry(
        "tallymark.cli.admin.offsets:command",
        "Check how far consumers are behind.",
    ),
    "perf": Entry(
        "tallymark.cli.messages.perf:command",
        "Measure how fast a cluster takes and gives messages.",
    ),
    "produce": Entry(
        "tallymark.cli.messages.produce:command",
        "Publish lines as messages.",
    ),
    "publish": Entry(
        "tallymark.cli.messages.publish:command",
        "Publish JSON lines, CSV, access logs or host metrics as Avro events.",
    ),
    "quotas": Entry(
        "tallymark.cli.admin.quotas:command",
        "List, set and remove quotas of users and client ids.",
    ),
    "reconcile": Entry(
        "tallymark_spark_jobs.cli.reconcile:reconcile",
        "Reconcile with Spark: count the data, judge every window.",
    ),
    "registry": Entry(
        "tallymark_schema_registry.cli.serve:command",
        "Serve the Avro schema registry.",
    ),
    "registry-access": Entry(
        "tallymark_schema_registry.cli.registry_access:command",
        "Say who may do what in the schema registry.",
    ),
    "reassign": Entry("tallymark.cli.admin.reassign:command", "Move replicas to other brokers."),
    "replay": Entry(
        "tallymark.cli.messages.replay:command",
        "Send a topic's messages again, at the pace they once came.",
    ),
    "schema": Entry(
        "tallymark_schema_registry.cli:command",
        "Register, check, read, delete and move schemas.",
    ),
    "status": Entry(
        "tallymark.cli.stack.status:command",
        "Show the processes of the running stack.",
    ),
    "stream-load": Entry(
        "tallymark_spark_jobs.cli.stream_load:stream_load",
        "Load topics into the lake as they come, with Spark.",
    ),
    "topics": Entry(
        "tallymark.cli.admin.topics:command", "List, create, describe, change and delete topics."
    ),
    "transactions": Entry(
        "tallymark.cli.admin.transactions.command:command",
        "List transactions, find those that hang, and abort them.",
    ),
    "up": Entry(
        "tallymark.cli.stack.up:command",
        "Start the whole stack on this machine.",
    ),
    "users": Entry(
        "tallymark.cli.admin.users:command",
        "Add, list and remove users.",
    ),
    "verify-log": Entry(
        "tallymark.cli.admin.verify_log:command",
        "Check the files of a broker's logs.",
    ),
    "zookeeper": Entry(
        "tallymark.cli.servers.zookeeper:command", "Run Apache ZooKeeper from the Spark extra."
    ),
}
