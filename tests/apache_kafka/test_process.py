"""The process: it dies with who started it, and says why it does not start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from broker_kinds import skip_without_jars

from tallymark.client import Admin
from tallymark.errors import UserError
from tallymark.processes.apache_kafka import ApacheKafkaServer

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]

STARTER = """
import sys, time
from pathlib import Path
from tallymark.processes.apache_kafka import ApacheKafkaServer
server = ApacheKafkaServer(Path(sys.argv[1]))
server.start()
print(server.pid, server.bootstrap_servers, flush=True)
time.sleep(300)
"""


@pytest.mark.soak
def test_it_dies_with_its_parent_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """kill -9 of whoever started it leaves no Java behind; the data can be used again, on another
    port, and is the same cluster."""
    skip_without_jars()
    command = [sys.executable, "-c", STARTER, str(tmp_path / "kafka")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, servers = process.stdout.readline().split()
        java = psutil.Process(int(pid))
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("kept", 3)
            identity = admin.cluster_id()
        os.kill(process.pid, signal.SIGKILL)
    java.wait(20)
    with ApacheKafkaServer(tmp_path / "kafka") as again:
        assert again.bootstrap_servers != servers
        with Admin(bootstrap_servers=again.bootstrap_servers) as admin:
            assert admin.topics()["kept"].partition_count == 3
            assert admin.cluster_id() == identity


@pytest.mark.soak
def test_why_it_does_not_start_is_told(apache_kafka: ApacheKafkaServer, tmp_path: Path) -> None:
    wrong = ApacheKafkaServer(tmp_path / "wrong", {"log.flush.interval.ms": "soon"})
    with pytest.raises(UserError, match=r"cannot use|ended by itself"):
        wrong.start()
    taken = ApacheKafkaServer(tmp_path / "taken", port=apache_kafka.port)
    with pytest.raises(UserError, match="it is taken"):
        taken.start()
