"""Options of the data source: what is meant, and what is refused with a word of help."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tallymark.errors import UserError
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark_spark_jobs.source.options import SourceOptions, parse_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def parse(**options: str) -> SourceOptions:
    return parse_options({**SERVERS, **options})


def test_defaults_are_those_of_a_batch_read_in_spark() -> None:
    options = parse(subscribe="a, b,a")
    assert options.topics == ("a", "b")
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert options.mode == "records"
    assert options.fail_on_data_loss
    assert not options.include_headers


def test_names_come_in_any_case() -> None:
    options = parse(SUBSCRIBEPATTERN="m.*", includeheaders="TRUE", MinPartitions="4")
    assert (options.pattern, options.include_headers, options.min_partitions) == ("m.*", True, 4)


def test_offsets_by_partition() -> None:
    options = parse(
        assign='{"a": [0, 1]}',
        startingOffsets='{"a": {"0": 23, "1": -2}}',
        endingOffsets='{"a": {"0": 30, "1": -1}}',
    )
    assert options.assigned == (("a", 0), ("a", 1))
    assert options.starting == {("a", 0): 23, ("a", 1): -2}
    assert options.ending == {("a", 0): 30, ("a", 1): -1}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "exactly one of subscribe"),
        ({"subscribe": "a", "subscribePattern": "b"}, "not 2 of them"),
        ({"subscribe": "a", "endingTimestmp": "3"}, "did you mean endingTimestamp"),
        ({"subscribe": "a", "kafka.max.poll.records": "5"}, "no option"),
        ({"subscribe": "a", "kafka.ssl.truststore.type": "JKS"}, "give a PEM file"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"assign": '{"a": "0"}'}, "list of partitions"),
        ({"assign": "{}"}, "names no partition"),
        ({"assign": "[1]"}, "JSON object"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "cannot be latest"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "cannot be earliest"),
        ({"subscribe": "a", "startingOffsets": "{"}, "is not JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a": 1}'}, "object of partitions"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"x": 1}}'}, "is not a partition"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "is not an offset"),
        ({"subscribe": "a", "startingOffsets": "earliest", "startingTimestamp": "1"}, "exclude"),
        ({"subscribe": "a", "endingTimestamp": "yesterday"}, "milliseconds"),
        ({"subscribe": "a", "startingTimestamp": "-1"}, "milliseconds"),
        ({"subscribe": "a", "includeHeaders": "yes"}, "true or false"),
        ({"subscribe": "a", "rowsPerPartition": "0"}, "above zero"),
        ({"subscribe": "a", "mode": "fast"}, "records or stamps"),
        ({"subscribe": "a", "columns": "offset,values"}, "names values; there are key, value"),
        ({"subscribe": "a", "columns": "headers"}, "names headers"),
        ({"subscribe": "a", "columns": " , "}, "is empty"),
        ({"subscribe": "a", "kafka.isolation.level": "none"}, "read_uncommitted or read_committed"),
        ({"subscribe": "a", "endingLateness": "1h"}, "milliseconds, or all"),
        ({"subscribe": "a", "startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, "is not a time"),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "no"}, "error or latest"),
        ({"subscribe": "a", "rowsPerPartition": "5", "maxRecordsPerPartition": "5"}, "exclude"),
        (
            {"subscribe": "a", "endingTimestamp": "5", "endingOffsetsByTimestamp": "{}"},
            "endingOffsetsByTimestamp and endingTimestamp exclude",
        ),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse(**options)


def test_servers_are_needed() -> None:
    with pytest.raises(UserError, match=r"kafka\.bootstrap\.servers"):
        parse_options({"subscribe": "a"})


def test_security_by_the_names_of_kafkas_clients() -> None:
    options = parse_options(
        {
            "kafka.bootstrap.servers": "h:1",
            "subscribe": "a",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "alice",
            "kafka.sasl.password": "S3cret",
        }
    )
    assert options.security["security_protocol"] == "SASL_SSL"
    assert options.security["sasl_password"] == "S3cret"
    assert "S3cret" not in repr(options)


def test_the_names_of_sparks_kafka_source() -> None:
    options = parse(
        subscribe="a",
        startingOffsetsByTimestamp='{"a": {"0": 5, "1": 6}}',
        endingOffsetsByTimestamp='{"a": {"0": 7}}',
        maxRecordsPerPartition="9",
        **{"kafka.isolation.level": "read_committed"},
    )
    assert options.starting_times == {("a", 0): 5, ("a", 1): 6}
    assert options.ending_times == {("a", 0): 7}
    assert options.rows_per_partition == 9
    assert options.isolation == "read_committed"
    assert options.fail_without_start, "the strategy is error unless said otherwise"
    assert not parse(subscribe="a", startingTimestamp="5").fail_without_start


def test_columns_keep_the_order_of_the_schema() -> None:
    assert parse(subscribe="a", columns="Offset,timestamptype , key").columns == (
        "key",
        "offset",
        "timestampType",
    )


def test_the_lateness_of_an_end() -> None:
    assert parse(subscribe="a").ending_lateness == 3_600_000
    assert parse(subscribe="a", endingLateness="0").ending_lateness == 0
    assert parse(subscribe="a", endingLateness="ALL").ending_lateness is None


def test_finding_and_making_the_source_loads_no_client() -> None:
    """Each of the processes that Spark starts for a source took 0.9 s of processor time to load the
    client, TLS and Arrow; the two that find it and ask for its schema need nothing of that."""
    code = """if True:
        import sys
        import pyspark_tallymark
        options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "mode": "stamps"}
        source = pyspark_tallymark.DefaultSource(options)
        source.reader(schema=source.schema())
        told = [name for name in sys.modules if name.startswith(("tallymark", "pyarrow", "numpy"))]
        for name in told:
            assert name.partition(".")[0].startswith("tallymark"), name
            assert not name.startswith(("tallymark.client", "tallymark.net")), name
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
