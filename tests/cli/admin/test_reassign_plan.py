"""A plan of moves: what is read of a file, and what is refused with a way out."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
from click.testing import CliRunner

from tallymark.cli.admin import reassign
from tallymark.cli.admin.reassign import read_plan
from tallymark.errors import UserError


def test_a_plan_of_kafkas_tool_is_read() -> None:
    content = json.dumps(
        {
            "version": 1,
            "partitions": [
                {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]},
                {"topic": "u", "partition": 7, "replicas": [3]},
            ],
        }
    )
    assert read_plan(content.encode()) == {("t", 0): (1, 2), ("u", 7): (3,)}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"partitions": 5}',
        b'{"partitions": [5]}',
        b'{"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}',
        b'{"partitions": [{"topic": "t", "partition": 0, "replicas": [true]}]}',
        b'{"partitions": [{"topic": "t", "partition": 0, "replicas": [-1]}]}',
        b'{"partitions": [{"topic": 9, "partition": 0, "replicas": [1]}]}',
        b'{"partitions": [{"topic": "t", "partition": [], "replicas": [1]}]}',
        (
            b'{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
            b'{"topic": "t", "partition": 0, "replicas": [2]}]}'
        ),
        b"[" * 200_000,
    ],
)
def test_what_is_no_plan_is_refused_with_an_example(content: bytes) -> None:
    with pytest.raises(UserError, match="this is no plan") as refused:
        read_plan(content)
    assert '"replicas"' in refused.value.do


@pytest.mark.parametrize(("moves", "said"), [(1, "1 partition would"), (2, "2 partitions would")])
def test_one_partition_is_not_partitions(
    moves: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic of one partition it said "1 partitions would move"."""
    monkeypatch.setattr(reassign, "Admin", lambda **_: nullcontext())
    plan = {("t", number): (2,) for number in range(moves)}
    monkeypatch.setattr(reassign, "planned", lambda *_, **__: plan)
    done = CliRunner().invoke(reassign.command, ["plan", "-b", "127.0.0.1:1"])
    assert done.exit_code == 0, done.output
    assert f"{said} move; save this" in done.stderr
