"""What is installed and fetched is what the locks say, byte by byte."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from project import ROOT

from tallymark.processes.apache_kafka.jars import CHECKSUMS, NotAvailableError, check

A = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"  # of "a"


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "deploy/sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_jars_that_are_not_those_of_the_list_are_refused(tmp_path: Path) -> None:
    """Maven took the jars of a broker from wherever its settings said, and they ran unseen."""
    (tmp_path / "a.jar").write_bytes(b"a")
    check(tmp_path, f"{A}  a.jar\n")
    for name, content in {"a.jar": b"b", "b.jar": b"a"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(NotAvailableError, match=rf"{name}.* is not what jars\.sha256 lists"):
            check(tmp_path, f"{A}  a.jar\n")
        (tmp_path / name).unlink()
        (tmp_path / "a.jar").write_bytes(b"a")
    (tmp_path / "a.jar").unlink()
    with pytest.raises(NotAvailableError, match=r"a\.jar"):
        check(tmp_path, f"{A}  a.jar\n")


def test_the_list_has_the_server_and_its_clients() -> None:
    names = {line.split()[1] for line in CHECKSUMS.read_text().splitlines()}
    assert {"kafka_2.13-4.1.0.jar", "kafka-clients-4.1.0.jar"} <= names


@pytest.mark.soak
def test_the_bill_of_materials_has_every_lock(sbom: ModuleType, tmp_path: Path) -> None:
    sbom.sys.argv = ["sbom", str(tmp_path / "sbom.json")]
    sbom.main()
    text = (tmp_path / "sbom.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found = {one["purl"]: one for one in json.loads(text)["components"]}
    pinned = {
        f"pkg:pypi/{line.split()[0].lower().replace('==', '@')}"
        for line in (ROOT / "deploy/requirements.txt").read_text().splitlines()
        if not line.startswith(" ")
    }
    assert len(pinned) > 40
    assert pinned == {purl for purl in found if purl.startswith("pkg:pypi/")}
    assert any(purl.startswith("pkg:npm/idiomorph@") for purl in found)
    assert "pkg:maven/org.apache.kafka/kafka-clients@4.1.0" in found
    zookeeper = next(one for purl, one in found.items() if "/zookeeper@" in purl)
    assert zookeeper["hashes"][0]["alg"] == "SHA-256"
    assert all(
        one["externalReferences"][0]["hashes"]
        for purl, one in found.items()
        if purl.startswith("pkg:pypi/")
    )


def test_what_the_image_copies_is_not_left_out_of_its_context() -> None:
    """The image could not be built: it copied a lock that ``.dockerignore`` left out."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    dockerfile = (ROOT / "deploy/Dockerfile").read_text().replace("\\\n", " ")
    copied = [
        source
        for line in dockerfile.splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert "deploy/requirements-kernel.txt" in copied
    for source in copied:
        assert (ROOT / source).exists(), source
        above = [source, *(str(each) for each in Path(source).parents)]
        assert any(f"!{each}" in ignored for each in above), f"{source} is not in the context"
        assert source not in ignored
