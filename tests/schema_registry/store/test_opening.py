"""Addresses that are none, disks of other machines, and files that disappear."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.errors import UserError
from tallymark_schema_registry.catalog.records import ModeSet
from tallymark_schema_registry.store.changes import Change, StoreFailed
from tallymark_schema_registry.store.opening import open_store
from tallymark_schema_registry.store.same_file import network_disk

CHANGE = Change(1, 0, "", ModeSet(".", "", "READONLY"))


@pytest.mark.parametrize(
    "address", ["nonsense", "mystery://x", "sqlite://", "sqlite:////proc/x/r.db"]
)
def test_a_store_that_cannot_be_opened_is_said_in_one_line(address: str) -> None:
    with pytest.raises(UserError) as error:
        open_store(address)
    assert "\n" not in str(error.value)


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        open_store(f"postgresql+psycopg://me:secret@/x?host={tmp_path}")
    assert "secret" not in str(error.value)


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/x /mnt/share nfs4 rw 0 0
/dev/sdb1 /mnt/share/local xfs rw 0 0
me@there /mnt/with\\040space fuse.sshfs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/registry.db", ""),
        ("/mnt/share/registry.db", "nfs4"),
        ("/mnt/share/local/registry.db", ""),
        ("/mnt/with space/registry.db", "fuse.sshfs"),
        ("/mnt/shared/registry.db", ""),
    ],
)
def test_network_disks_are_told(path: str, kind: str, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert network_disk(Path(path), mounts) == kind


def test_where_mounts_are_not_told_no_disk_is_a_network_disk(tmp_path: Path) -> None:
    assert network_disk(tmp_path, tmp_path / "missing") == ""


def test_a_warning_about_a_network_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tallymark_schema_registry.store.opening.network_disk", lambda _: "nfs")
    open_store(f"sqlite:///{tmp_path / 'registry.db'}").close()
    assert "on a network disk (nfs)" in caplog.text


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_was_removed_is_not_written_to(tmp_path: Path, replaced: bool) -> None:
    """SQLite goes on writing to a file that has no name any more: what it acknowledged was lost
    with the process."""
    path = tmp_path / "registry.db"
    store = open_store(f"sqlite:///{path}")
    store.append(0, [CHANGE])
    kept = path.rename(tmp_path / "moved.db")
    if replaced:
        path.write_bytes(kept.read_bytes())
    with pytest.raises(StoreFailed, match="the registry's store"):
        store.append(1, [CHANGE._replace(number=2)])
    path.unlink(missing_ok=True)
    kept.rename(path)
    store.append(1, [CHANGE._replace(number=2)])
    store.close()
