"""What the demo and the drill print: numbered steps with their time, and facts below them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

BEAT_SECONDS: Final = 15.0
"""How long a step says nothing at most."""


class Narrator:
    """Prints steps as they begin, that they still go on, and how long they took: the same into a
    file as on a terminal. A failed one is marked before the error goes on.

    ``beat``: a step that prints nothing for so many seconds prints that it goes on."""

    def __init__(self, console: Console, beat: float = BEAT_SECONDS) -> None:
        self.console = console
        self._beat = beat
        self._count = 0
        self._began = time.monotonic()
        self._files: list[Console] = []

    @contextmanager
    def written_to(self, path: Path) -> Iterator[None]:
        """Write into the file, too, what is printed meanwhile: each line at once."""
        with path.open("w", encoding="utf-8", buffering=1) as file:
            self._files.append(Console(file=file, soft_wrap=True, no_color=True))
            try:
                yield
            finally:
                self._files.pop()

    @contextmanager
    def step(self, title: str, usual: float = 0.0) -> Iterator[None]:
        """One step of the story. ``usual``: the seconds it takes on two cores that do nothing else,
        said beforehand; 0 for a step that is over at once."""
        self._count += 1
        about = f" [dim](about {usual:.0f} s)[/]" if usual else ""
        self._print(f"[bold]{self._count:>2}. {title}[/]{about}")
        began = time.monotonic()
        over = threading.Event()
        beats = threading.Thread(target=self._tell, args=(began, over), name="demo-progress")
        beats.start()
        try:
            yield
        except BaseException:
            self.say("[red]failed[/]")
            raise
        finally:
            over.set()
            beats.join()
        self.say(f"[dim]{time.monotonic() - began:.1f} s[/]")

    def _tell(self, began: float, over: threading.Event) -> None:
        while not over.wait(self._beat):
            self.say(f"[dim]... {time.monotonic() - began:.0f} s so far[/]")

    def say(self, text: str) -> None:
        """A fact of the current step."""
        self._print(f"    {text}")

    def _print(self, text: str) -> None:
        for console in (self.console, *self._files):
            console.print(text, highlight=False)

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began
