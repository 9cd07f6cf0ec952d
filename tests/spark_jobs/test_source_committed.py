"""The source reads what was committed, unless ``kafka.isolation.level`` asks for everything; here
without a session (in one: ``test_spark_source.py``)."""

from __future__ import annotations

from outcomes import ALL, COMMITTED, write_outcomes

from tallymark.client import Admin
from tallymark.testing import MemoryBroker
from tallymark_spark_jobs.source.log_reader import plan_spans, read_batches
from tallymark_spark_jobs.source.options import parse_options


def test_aborted_messages_are_read_where_that_is_asked_for_only() -> None:
    """They were among the rows of every table that did not leave them out by itself."""
    with MemoryBroker(transaction_state_log_num_partitions=1) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t")
        write_outcomes(broker.bootstrap_servers, "t")

        def values(**given: str) -> list[bytes]:
            named = {name.replace("_", "."): value for name, value in given.items()}
            how = parse_options(
                {
                    "kafka.bootstrap.servers": broker.bootstrap_servers,
                    "subscribe": "t",
                    "columns": "value",
                    **named,
                }
            )
            batches = (each for span in plan_spans(how) for each in read_batches(how, span))
            return [row["value"] for batch in batches for row in batch.to_pylist()]

        assert values() == COMMITTED
        assert values(kafka_isolation_level="read_committed") == COMMITTED
        assert values(kafka_isolation_level="read_uncommitted") == ALL
