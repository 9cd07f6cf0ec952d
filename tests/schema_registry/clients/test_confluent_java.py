"""Java's KafkaAvroSerializer with our registry, where its jars are.

They are not on Maven Central. Put ``kafka-avro-serializer`` and all that it needs (``mvn
dependency:copy-dependencies`` with Confluent's repository) into the folder ``confluent-jars`` of
``$TALLYMARK_CACHE`` (``~/.cache/tallymark``), and this test runs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tallymark.cache_folder import cache_folder
from tallymark.serialization import AvroDecoder, AvroEncoder, RegistryClient
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.responses import Profile

pytestmark = pytest.mark.process

DRIVER = Path(__file__).with_name("java") / "Confluent.java"
ONE = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
TWO = ONE.replace("]}", ',{"name":"b","type":"string","default":"x"}]}')


@pytest.fixture
def jars() -> Path:
    folder = cache_folder() / "confluent-jars"
    if not list(folder.glob("kafka-avro-serializer-*.jar")):
        pytest.skip(f"there is no kafka-avro-serializer jar in {folder}")
    if shutil.which("java") is None:
        pytest.skip("there is no java here")
    return folder


def test_register_evolve_delete_import_read(
    jars: Path, registry: RegistryServer, ours: RegistryClient, profile: Profile
) -> None:
    data = AvroEncoder(ours, ONE)("theirs", {"a": 5})
    done = subprocess.run(
        ["java", "-cp", f"{jars}/*", str(DRIVER), registry.url, data.hex()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    first, second = (bytes.fromhex(found.pop(name)) for name in ("first", "second"))
    conflict = 40901 if profile is Profile.EIGHT else 409
    assert found == {
        "read": '{"a": 5}',
        "refused": f"409 {conflict}",
        "versions": "[1, 2]",
        "compatible": "false",
        "level": "FULL",
        "deleted": "1",
        "left": "[2]",
        "gone": "[2]",
        "mode": "IMPORT",
        "imported": "700",
        "by id": TWO,
    }
    decoder = AvroDecoder(ours)
    assert (decoder.decode(first), decoder.decode(second)) == ({"a": 1}, {"a": 2, "b": "y"})
    imported = ours.version("imported", 5)
    assert imported is not None
    assert (imported.schema_id, imported.text) == (700, TWO)
