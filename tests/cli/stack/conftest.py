"""The whole stack, as ``tallymark up`` starts it, with short windows and on free ports."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_stack import Stack, stack_in


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with stack_in(tmp_path, tmp_path / "data") as running:
        yield running
