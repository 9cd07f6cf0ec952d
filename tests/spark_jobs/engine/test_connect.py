"""Reading through Spark Connect: the server finds the source, and its errors come back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tallymark import Admin, Producer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.engine.errors import line_of

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.soak]
READER = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").getOrCreate()
def read(topic):
    source = spark.read.format("tallymark").option("kafka.bootstrap.servers", sys.argv[1])
    return source.option("subscribe", topic).load()
rows = sorted(bytes(row.value).decode() for row in read("metrics").select("value").collect())
try:
    read("nowhere").count()
    error = ""
except Exception as raised:
    error = str(raised)
print(json.dumps({"kind": type(spark).__module__, "rows": rows, "error": error}))
"""


def test_a_connect_session_reads_topics(tmp_path: Path) -> None:
    """In a process of its own: a classic session cannot follow in the same one."""
    pytest.importorskip("grpc", reason="pyspark[connect] is in the group dev")
    with BrokerThread(tmp_path) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("metrics", 2)
        with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
            for n in range(100):
                producer.send("metrics", b"%03d" % n, partition=n % 2)
        ran = subprocess.run(
            [sys.executable, "-c", READER, broker.bootstrap_servers],
            cwd=tmp_path,
            # The server, which this process starts here, looks for the source with this Python.
            env=dict(os.environ)
            | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["kind"] == "pyspark.sql.connect.session"
    assert told["rows"] == [f"{n:03d}" for n in range(100)]
    assert "there is no topic nowhere" in (line_of(RuntimeError(told["error"])) or told["error"])
