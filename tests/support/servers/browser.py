"""A real browser, without a window: Chromium as Debian has it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium (deploy/ensure-chromium)"
)


def _command(profile: str, *options: str) -> list[str]:
    return [
        CHROMIUM or "chromium",
        "--headless",
        # As root its own sandbox does not start; nothing but our own pages is opened.
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        # Names of others that stand for this machine, as after a rebinding.
        "--host-resolver-rules=MAP *.example 127.0.0.1",
        f"--user-data-dir={profile}",
        *options,
    ]


@contextmanager
def open_page(url: str) -> Iterator[None]:
    """The page stays open, and its scripts run, until the end of the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            _command(profile, "--remote-debugging-port=0", url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def text_of_page(url: str) -> str:
    """The document as the browser has it once it is loaded."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            _command(profile, "--dump-dom", url), capture_output=True, timeout=120, check=True
        )
    return done.stdout.decode("utf-8", "replace")


def screenshot(url: str, path: Path, width: int = 1280, height: int = 1400) -> None:
    """What the page looks like, as a PNG."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        size = f"--window-size={width},{height}"
        subprocess.run(
            _command(profile, f"--screenshot={path}", size, "--hide-scrollbars", url),
            capture_output=True,
            timeout=120,
            check=True,
        )
