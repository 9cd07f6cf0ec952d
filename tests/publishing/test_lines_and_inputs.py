"""Bytes to lines: files, pipes, and files that grow, rotate and shrink."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eventually import eventually
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark.publishing.reading.inputs import PipeInput, open_input
from tallymark.publishing.reading.lines import MAX_LINE, split_lines
from tallymark.publishing.reading.rows import Bad, Line, StopAfter


def never() -> StopAfter:
    return StopAfter(threading.Event())


def split(*chunks: bytes | None) -> list[Line | Bad | None]:
    return list(split_lines(iter(chunks)))


def test_lines() -> None:
    assert split(b"\xef\xbb\xbfa\r\nb", None, b"c\n\nlast") == [
        Line(1, "a"),
        None,
        Line(2, "bc"),
        Line(3, ""),
        Line(4, "last"),
    ]
    assert split() == split(b"") == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=8))
def test_chunks_do_not_matter(chunks: list[bytes]) -> None:
    assert split(*chunks) == split(b"".join(chunks))


def test_what_is_no_line() -> None:
    (wrong, line) = split(b"caf\xe9\nok")
    assert wrong == Bad(1, "the line is not UTF-8: byte 0xe9 at 3", "caf\\xe9")
    assert line == Line(2, "ok")
    long = b"x" * (MAX_LINE + 1)
    overlong, line = split(long[:500_000], long[500_000:], b"\nok")
    assert isinstance(overlong, Bad)
    assert "longer than" in overlong.reason
    assert len(overlong.raw) == 2000
    assert line == Line(2, "ok")


def test_an_input_without_any_end_of_line_is_given_up() -> None:
    """/dev/zero was read for ever."""
    with pytest.raises(UserError, match="has no end within 64 MiB"):
        split(*[b"\0" * 1_000_000] * 100)


def read_all(path: Path) -> list[bytes | None]:
    opened = open_input(str(path), False, never())
    try:
        return list(opened.chunks())
    finally:
        opened.close()


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 300_000)
    assert [len(chunk or b"") for chunk in read_all(path)] == [262_144, 37_856]


def test_inputs_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*No such file"):
        open_input(str(tmp_path / "none"), False, never())
    with pytest.raises(UserError, match="is a folder"):
        open_input(str(tmp_path), False, never())
    with pytest.raises(UserError, match="--follow needs a file"):
        open_input("-", True, never())


def test_a_pipe_pauses_and_can_be_stopped() -> None:
    reader, writer = os.pipe()
    event = threading.Event()
    pipe = PipeInput(reader, "pipe", StopAfter(event))
    chunks = pipe.chunks()
    os.write(writer, b"a\n")
    assert next(chunks) == b"a\n"
    assert next(chunks) is None
    event.set()
    assert list(chunks) == []
    os.close(writer)
    pipe.close()


class Following:
    """A follower in a thread; ``lines`` is what it has seen."""

    def __init__(self, path: Path) -> None:
        self.lines: list[str] = []
        self._stop = threading.Event()
        self._input = open_input(str(path), True, StopAfter(self._stop))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for line in split_lines(self._input.chunks()):
            if isinstance(line, Line):
                self.lines.append(line.text)

    def wait_for(self, *lines: str) -> None:
        eventually(lambda: self.lines == list(lines), what=f"{lines} are read", every=0.005)

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
            self._input.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    path.write_text("one\n")
    return path


@pytest.fixture
def follow(log: Path) -> Iterator[Callable[[], Following]]:
    started: list[Following] = []

    def start() -> Following:
        started.append(Following(log))
        return started[-1]

    yield start
    for one in started:
        one.close()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_growing_file(log: Path, follow: Callable[[], Following]) -> None:
    following = follow()
    append(log, "two\nhal")
    following.wait_for("one", "two")
    append(log, "f\n")
    following.wait_for("one", "two", "half")


def test_rotation_loses_nothing(log: Path, follow: Callable[[], Following]) -> None:
    """What is written to the old file until its writer notices the rename is read, too."""
    following = follow()
    following.wait_for("one")
    old = log.with_suffix(".1")
    with log.open("a") as writer:
        log.rename(old)
        time.sleep(0.15)  # the name is gone: the follower stays with the file it has
        writer.write("late\nunfinished")
    log.write_text("new\n")
    following.wait_for("one", "late", "unfinished", "new")


def test_truncation_starts_again(log: Path, follow: Callable[[], Following]) -> None:
    append(log, "half of a line that goes")
    following = follow()
    following.wait_for("one")
    log.write_text("")
    time.sleep(0.15)
    append(log, "again\n")
    following.wait_for("one", "again")


def test_an_unfinished_line_is_left_alone_at_the_end(
    log: Path, follow: Callable[[], Following]
) -> None:
    following = follow()
    append(log, "unfin")
    following.wait_for("one")
    following.close()
    assert following.lines == ["one"]


def test_a_duration_ends_waiting() -> None:
    stop = StopAfter(threading.Event(), 0.05)
    assert not stop.is_set()
    assert stop.wait(600) is True
    assert not stop.signalled
