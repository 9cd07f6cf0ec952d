"""A private PostgreSQL for tests: its files in a temporary folder, its socket there too, no port.

PostgreSQL refuses to run as root; then it runs as the user ``postgres``, or ``nobody``. Nothing is
flushed to disk, so a new database costs a tenth of a second.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from eventually import eventually

from tallymark.processes.child_process import stop_process

INSTALLED = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs, by version, which are not on the PATH."""
QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=")


def start_postgres(*settings: str) -> PostgresServer:
    """Start a server, with ``settings`` as ``name=value`` beyond those that make it quick. Skips
    the test where there is no PostgreSQL or no driver for it."""
    pytest.importorskip("psycopg", reason="needs psycopg, PostgreSQL's driver")
    initdb, postgres = _program("initdb"), _program("postgres")
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="tallymark-pg-"))
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    arguments = ["-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "--no-sync"]
    made = subprocess.run(
        [initdb, *arguments, "--encoding=UTF8", "--no-locale"],
        user=user.pw_uid if user else None,
        group=user.pw_gid if user else None,
        extra_groups=[] if user else None,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise RuntimeError(f"initdb failed: {made.stderr}")
    switches = [part for setting in (*QUICK, *settings) for part in ("-c", setting)]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [postgres, "-D", str(folder / "data"), "-k", str(folder), *switches],
        user=user.pw_uid if user else None,
        group=user.pw_gid if user else None,
        extra_groups=[] if user else None,
        cwd=folder,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    log.close()
    server = PostgresServer(folder, process)
    try:
        eventually(server.answers)
    except BaseException:
        server.stop()
        raise
    return server


@dataclass
class PostgresServer:
    """A running server; :meth:`stop` it."""

    folder: Path
    process: subprocess.Popen[bytes]
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def address(self, database: str) -> str:
        """SQLAlchemy's address of a database."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.folder}"

    def answers(self) -> bool:
        """Whether it takes connections yet. RuntimeError: it has ended."""
        import psycopg

        if self.process.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended: {(self.folder / 'log').read_text()}")
        try:
            psycopg.connect(self._plain("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def new_database(self) -> str:
        """Make an empty database; its address."""
        import psycopg

        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self._plain("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.address(name)

    def stop(self) -> None:
        """End it at once, and remove its files."""
        stop_process(self.process, 30, signal.SIGINT)  # it ends the sessions and itself
        shutil.rmtree(self.folder, ignore_errors=True)

    def _plain(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None and INSTALLED.is_dir():
        versions = sorted(INSTALLED.iterdir(), key=lambda path: _number(path.name), reverse=True)
        found = next((str(v / "bin" / name) for v in versions if (v / "bin" / name).exists()), None)
    if found is None:
        pytest.skip(f"needs PostgreSQL ({name}): deploy/ensure-postgresql installs it")
    return found


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1


def _user() -> pwd.struct_passwd | None:
    """Whom to run it as, if not as ourselves."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no user to run it as")
