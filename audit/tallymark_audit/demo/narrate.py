"""What the demo tells on the way: numbered steps with their time, and facts below them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


class Narrator:
    """Prints steps as they begin and how long they took; a failed one is marked before the error
    goes on."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._count = 0
        self._began = time.monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """One step of the story."""
        self._count += 1
        self.console.print(f"[bold]{self._count:>2}. {title}[/]", highlight=False)
        began = time.monotonic()
        try:
            yield
        except BaseException:
            self.say("[red]failed[/]")
            raise
        self.say(f"[dim]{time.monotonic() - began:.1f} s[/]")

    def say(self, text: str) -> None:
        """A fact of the current step."""
        self.console.print(f"    {text}", highlight=False)

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began
