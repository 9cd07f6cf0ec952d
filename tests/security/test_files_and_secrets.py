"""What lies on the disk is its user's alone, is not written through links, and secrets of settings
are shown nowhere."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallymark.broker.settings.text import log_effective, parse
from tallymark.deployment import Cluster, Deployment, dump_toml, load
from tallymark.deployment.secret_text import resolve
from tallymark.errors import UserError
from tallymark.log import OsFiles
from tallymark.net.web.access_log import AccessLogFile
from tallymark.private_files import make_private, write_private
from tallymark.processes.checks.file_modes import check_modes
from tallymark_audit.reporters.journal.disk import Disk
from tallymark_audit.reporters.journal.orphans import find_orphans
from tallymark_audit.store.engine import open_store

SECRET = "hunter2-and-more"


@pytest.fixture(autouse=True)
def wide_umask() -> Iterator[None]:
    """The worst that a shell may hand down."""
    old = os.umask(0)
    yield
    os.umask(old)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_segments_locks_stores_and_journals_are_their_users_alone(tmp_path: Path) -> None:
    """On a host with several users everybody could read every record of every topic, and the
    audit, whatever access-control lists said: segments were made 0644, stores as the umask had
    it."""
    files = OsFiles()
    folder = str(tmp_path / "data/t-0")
    files.make_dirs(folder)
    files.open(f"{folder}/0.log").close()
    files.lock(f"{folder}/.lock", "me").release()
    open_store(f"sqlite:///{tmp_path}/audit.db").close()
    Disk().make_folder(tmp_path / "journal")
    Disk().create(tmp_path / "journal/one.journal", 4096).close()
    assert mode(tmp_path / "data/t-0") == 0o700
    assert mode(tmp_path / "journal") == 0o700
    for name in ("data/t-0/0.log", "data/t-0/.lock", "audit.db", "journal/one.journal"):
        assert mode(tmp_path / name) == 0o600, name


def test_a_journal_folder_that_is_shared_stays_shared(tmp_path: Path) -> None:
    """Producers of several users share a folder that somebody opened for them, as /tmp is: its
    mode is not ours to change, each journal is its own user's."""
    shared = tmp_path / "journal"
    shared.mkdir()
    shared.chmod(0o1777)
    Disk().make_folder(shared)
    assert mode(shared) == 0o1777
    Disk().create(shared / "one.journal", 4096).close()
    assert mode(shared / "one.journal") == 0o600


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """In a folder where others may place names, one placed a link to a file of the victim under the
    name that the next journal, segment, lock or access log would have: it was truncated or written
    to, with the victim's rights."""
    precious = tmp_path / "precious"
    precious.write_text("kept")
    link = tmp_path / "link.journal"
    link.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        Disk().create(link, 4096)
    with pytest.raises(OSError, match="symbolic links"):
        OsFiles().open(str(link))
    with pytest.raises(OSError, match="symbolic links"):
        OsFiles().lock(str(link), "me")
    with pytest.raises(UserError, match="cannot write the access log"):
        AccessLogFile(link)
    assert list(find_orphans(tmp_path, "c")) == []
    write_private(link, "new")
    assert not link.is_symlink()
    assert link.read_text() == "new"
    dangling = tmp_path / "store.db"
    dangling.symlink_to(tmp_path / "elsewhere")
    make_private(dangling)  # somebody's own link is somebody's own business
    assert not (tmp_path / "elsewhere").exists()
    assert precious.read_text() == "kept"


def test_a_file_that_was_wide_is_closed_before_it_is_written(tmp_path: Path) -> None:
    """A password was written into a file that everybody could read, and closed afterwards."""
    wide = tmp_path / "secret"
    wide.write_text("old")
    wide.chmod(0o666)
    with wide.open() as read_by_another:
        write_private(wide, SECRET)
        assert read_by_another.read() == "old"
    assert mode(wide) == 0o600


def test_doctor_tells_of_wide_modes(tmp_path: Path) -> None:
    data, secret = tmp_path / "data", tmp_path / "secret"
    (data / "journal").mkdir(parents=True)
    (data / "audit.db").write_bytes(b"")
    secret.write_text(SECRET)
    security = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "me",
        "sasl_password_file": str(secret),
    }
    cluster = Cluster.model_validate(
        {"name": "dc1", "brokers": [{"port": 1}], "security": security}
    )
    deployment = Deployment(data_dir=data, clusters=(cluster,))
    told = check_modes(deployment)
    assert [(one.what, one.grade) for one in told] == [("modes", "warning"), ("secrets", "warning")]
    assert f"chmod -R go= {data}" in told[0].do
    assert SECRET not in str(told)
    data.chmod(0o700)
    secret.chmod(0o600)
    assert [one.grade for one in check_modes(deployment)] == ["ok"]


@pytest.mark.parametrize(("given", "expected"), [(None, 0o600), ("027", 0o640)])
def test_every_command_has_a_narrow_umask(given: str | None, expected: int, tmp_path: Path) -> None:
    environment = {**os.environ, **({"TALLYMARK_UMASK": given} if given else {})}
    code = (
        "import atexit, sys; atexit.register(lambda: open('made', 'w').close());"
        "from tallymark.cli.main import main; sys.argv[1:] = ['--version']; main()"
    )
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=60
    )
    assert mode(tmp_path / "made") == expected


def test_a_umask_that_is_none_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tallymark", "--version"],
        env={**os.environ, "TALLYMARK_UMASK": "private"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "tallymark: TALLYMARK_UMASK='private' is no umask; give one like 077 or 027"
    )


# --- secrets


def test_secrets_of_a_broker_stand_elsewhere_and_are_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A password of a key could only be given as it is: in server.properties, in the settings of
    the deployment, or on the command line, where everybody reads it with ``ps``; a traceback or
    debugger that printed the settings printed it."""
    monkeypatch.setenv("KEY_PASSWORD", SECRET)
    path = tmp_path / "zk"
    path.write_text(SECRET + "\nsecond line\n")
    settings = parse(
        {
            "ssl.key.password": "${KEY_PASSWORD}",
            "zookeeper.user": "broker",
            "zookeeper.password": f"${{file:{path}}}",
        }
    )
    assert settings.ssl_key_password == settings.zookeeper_password == SECRET
    with caplog.at_level(logging.INFO):
        log_effective(settings, logging.getLogger("broker"))
    assert SECRET not in repr(settings) + str(settings) + caplog.text
    assert "ssl_key_password='(hidden)'" in repr(settings)


def test_settings_keep_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``up`` writes for its processes, and what is printed, has the name of the variable."""
    file = tmp_path / "t.toml"
    file.write_text('[audit]\nstore = "postgresql://me:${DB_PASSWORD}@db/audit"\n')
    deployment = load(file)
    assert SECRET not in dump_toml(deployment) + repr(deployment)
    with pytest.raises(UserError, match="DB_PASSWORD is not set") as missing:
        _ = deployment.audit_store
    assert "store of [audit]" in str(missing.value)
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    assert deployment.audit_store == f"postgresql://me:{SECRET}@db/audit"
    assert SECRET not in dump_toml(deployment) + repr(deployment)
    plain = Deployment.model_validate({"audit": {"store": f"postgresql://me:{SECRET}@db/audit"}})
    assert SECRET not in repr(plain)


@pytest.mark.parametrize("text", ["a$b", "$", "${", "{x}", "$5", "plain"])
def test_a_dollar_is_a_dollar(text: str) -> None:
    assert resolve(text, "it") == text


def test_a_file_that_has_no_secret_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\nsecond")
    for path, why in ((empty, "is empty"), (tmp_path / "none", "No such file")):
        with pytest.raises(UserError, match=why) as error:
            resolve(f"${{file:{path}}}", "ssl.key.password")
        assert "ssl.key.password" in str(error.value)


@pytest.mark.slow
def test_a_secret_on_the_command_line_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tallymark", "broker", "--data", str(tmp_path)),
            *("--set", f"ssl.key.password={SECRET}", "--set", "nothing.like.this=1"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "--set ssl.key.password shows its value in the list of processes" in done.stderr
    assert SECRET not in done.stderr
