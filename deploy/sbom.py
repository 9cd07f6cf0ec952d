"""``make sbom``: what Tallymark is made of, for scanners, as CycloneDX 1.6.

    python deploy/sbom.py build/sbom.cdx.json

Of what the locks pin: the Python packages of ``deploy/requirements.txt`` (with the hash of each of
their files), the front-end libraries of ``dashboards/package-lock.json``, the jars of Apache Kafka
that ``apache_kafka/jars.sha256`` lists; and the jars inside the PySpark that is installed, from
which ZooKeeper runs, too. A jar that does not say its Maven group is ``pkg:generic``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT: Final = Path(__file__).resolve().parents[1]
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_JAR: Final = re.compile(r"^(?P<name>.+?)-(?P<version>\d[^/]*)\.jar$")


def main() -> None:
    target = Path(sys.argv[1])
    bom = Bom(components=components(ROOT))
    version = metadata.version("tallymark")
    bom.metadata.component = Component(
        name="tallymark", version=version, type=ComponentType.APPLICATION, bom_ref="tallymark"
    )
    bom.register_dependency(bom.metadata.component, bom.components)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n", encoding="utf-8")
    print(f"{target}: {len(bom.components)} components")


def components(root: Path) -> list[Component]:
    """All that the locks below ``root`` name, each once."""
    found = [
        *python_packages((root / "deploy/requirements.txt").read_text(encoding="utf-8")),
        *npm_packages(json.loads((root / "dashboards/package-lock.json").read_text())),
        *listed_jars((root / "platform/tallymark/processes/apache_kafka/jars.sha256").read_text()),
        *bundled_jars(pyspark_jars()),
    ]
    return list({one.bom_ref.value: one for one in found}.values())


def python_packages(lock: str) -> Iterator[Component]:
    """Of a lock with hashes, as ``uv pip compile --generate-hashes`` writes it."""
    for entry in lock.replace("\\\n", " ").splitlines():
        pin = _PIN.match(entry)
        if pin is None:
            continue
        name, version = pin.groups()
        files = ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION,
            url=XsUri(f"pkg:pypi/{name}@{version}"),
            comment="the files that may be installed",
            hashes=[_sha256(one) for one in _HASH.findall(entry)],
        )
        licenses = [LicenseFactory().make_from_string(text) for text in _licenses(name)]
        purl = PackageURL("pypi", name=name.lower(), version=version)
        yield _component(purl, licenses=licenses, external_references=[files])


def npm_packages(lock: dict[str, Any]) -> Iterator[Component]:
    """Of a ``package-lock.json`` of version 3, without what only tests need; ``integrity`` is a
    SHA-512 in base64."""
    for place, one in lock["packages"].items():
        if place and not one.get("dev"):
            digest = base64.b64decode(one["integrity"].removeprefix("sha512-")).hex()
            name = place.rpartition("node_modules/")[2]
            purl = PackageURL("npm", name=name, version=one["version"])
            yield _component(purl, hashes=[HashType(alg=HashAlgorithm.SHA_512, content=digest)])


def listed_jars(checksums: str) -> Iterator[Component]:
    """Of lines of ``sha256sum``. Their group is Maven's, where the name has it."""
    for line in checksums.splitlines():
        digest, name = line.split()
        yield _jar(name, digest, _group_of(name))


def bundled_jars(jars: Iterable[Path]) -> Iterator[Component]:
    """Of jars that are here, with the group that Maven wrote into them."""
    for path in jars:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield _jar(path.name, digest, _group_within(path))


def pyspark_jars() -> list[Path]:
    """The jars of the PySpark that is installed."""
    files = metadata.files("pyspark") or []
    return sorted(Path(str(one.locate())) for one in files if one.name.endswith(".jar"))


def _jar(name: str, digest: str, group: str) -> Component:
    parts = _JAR.match(name)
    artifact, version = (parts["name"], parts["version"]) if parts else (name, None)
    purl = PackageURL("maven" if group else "generic", group or None, artifact, version)
    return _component(purl, hashes=[_sha256(digest)])


def _sha256(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)


def _group_of(name: str) -> str:
    return "org.apache.kafka" if name.startswith(("kafka", "connect-")) else ""


def _group_within(path: Path) -> str:
    """``META-INF/maven/GROUP/ARTIFACT/pom.properties``; shaded jars have several."""
    with zipfile.ZipFile(path) as jar:
        found = [
            parts[2:4]
            for entry in jar.namelist()
            if len(parts := entry.split("/")) == 5 and parts[4] == "pom.properties"
        ]
    return next((group for group, artifact in found if path.name.startswith(f"{artifact}-")), "")


def _licenses(name: str) -> list[str]:
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    text = told.get("License-Expression") or told.get("License") or ""
    return [text] if text and len(text) < 100 else []


def _component(purl: PackageURL, **more: Any) -> Component:
    return Component(
        name=purl.name,
        group=purl.namespace,
        version=purl.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=str(purl),
        **more,
    )


if __name__ == "__main__":
    main()
