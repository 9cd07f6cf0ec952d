"""Standard streams that are closed, full, or read by somebody who went away."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallymark.cli.messages.consume import _print
from tallymark.cli.messages.reading.avro_hint import AvroHint
from tallymark.cli.messages.reading.records import Shown

MAIN = "from tallymark.cli.main import main; main()"
FULL = Path("/dev/full")


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of sh in which ``$T`` is the command ``tallymark``."""
    environment = {**os.environ, "PYTHON": sys.executable, "MAIN": MAIN}
    return subprocess.run(
        ["sh", "-c", 't() { "$PYTHON" -c "$MAIN" "$@"; }; ' + line],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("arguments", ["completion bash", "--help", "completion --help"])
def test_a_reader_that_goes_away_is_no_failure(arguments: str) -> None:
    """``tallymark topics list | head -1`` ended with 1 now and then, under ``set -o pipefail`` an
    error: click takes a broken pipe for a failure, and only ``consume`` was kept from it."""
    told = shell(f"{{ sleep 0.2; t {arguments}; echo code $? >&2; }} | true")
    assert told.stderr == "code 0\n"


def test_a_command_that_waits_for_messages_ends_with_its_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``tallymark consume clicks | head -1`` printed its line and never ended: only a write shows
    that the reader has gone, and no further message came."""
    reading, writing = os.pipe()
    with io.TextIOWrapper(os.fdopen(writing, "wb")) as output:
        monkeypatch.setattr(sys, "stdout", output)

        def messages() -> Iterator[Shown | None]:
            yield Shown("t", 0, 0, 0, None, b"a", ())
            yield None
            assert os.read(reading, 100) == b"a\n"
            os.close(reading)
            yield None
            pytest.fail("it waited for the next message")

        shown = _print(
            messages(), lambda one: bytes(one.value or b"") + b"\n", AvroHint(wanted=False)
        )
    assert shown == 1


def test_the_code_of_a_failure_stays_where_nobody_reads_it() -> None:
    """A wrong command whose message nobody read (``2>&1 | true``) ended with 1 in place of 2."""
    told = shell("{ sleep 0.2; t frobnicate 2>&1; echo code $? >&3; } 3>&2 | true")
    assert told.stderr == "code 2\n"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", ["completion bash", "--help"])
def test_a_full_disk_is_told_and_is_no_bug_of_ours(arguments: str) -> None:
    """Output to a full disk was 'unexpected OSError ... this is a bug', with code 70."""
    told = shell(f"t {arguments} > /dev/full; echo code $? >&2")
    assert "No space left" in told.stderr
    assert told.stderr.endswith("code 1\n")
    assert "bug" not in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_the_null_device(closed: str, tmp_path: Path) -> None:
    """Started with a closed stream (``<&-``) commands failed with an AttributeError of None. Nor
    may a file that a command opens get the stream's number: output would be written into it."""
    probe = (
        "import os, sys; from tallymark.shell.std_streams import open_missing; open_missing();"
        f"opened = os.open({str(tmp_path / 'file')!r}, os.O_CREAT | os.O_WRONLY);"
        "print(sys.stdin.read(), flush=True); print('x', file=sys.stderr, flush=True);"
        "sys.exit(0 if opened > 2 else 5)"
    )
    told = subprocess.run(
        ["sh", "-c", f'"$PYTHON" -c "$PROBE" </dev/null {closed}'],
        capture_output=True,
        env={**os.environ, "PYTHON": sys.executable, "PROBE": probe},
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "file").read_bytes() == b""
