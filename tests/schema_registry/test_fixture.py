"""The fixture for tests of users."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tallymark.serialization import AvroDecoder, AvroEncoder, RegistryClient
from tallymark_schema_registry.testing import memory_registry

pytest_plugins = ["pytester"]
USED = """
    import pytest
    from tallymark.serialization import RegistryClient

    urls = []

    @pytest.mark.parametrize("text", ['"int"', '"long"', '"string"'])
    def test_each_has_its_own(schema_registry, text):
        urls.append(schema_registry.url)
        with RegistryClient(schema_registry.url) as client:
            assert client.subjects() == []
            assert client.register("s", text) == 1
        assert len(set(urls)) == len(urls)
"""


def test_it_is_a_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "of-it"
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(folder))
    folder.mkdir()
    with memory_registry() as registry, RegistryClient(registry.url) as client:
        data = AvroEncoder(client, '"string"')("t", "x")
        assert AvroDecoder(client)("t", data) == "x"
        assert (folder / "registry.db").is_file()
    assert not folder.exists()


@pytest.mark.slow
def test_each_test_has_its_own(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["tallymark_schema_registry.testing"]')
    pytester.makepyfile(USED)
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=3)
