"""Where the dashboards show a thing: the addresses that alerts and the demo link to. Pure."""

from __future__ import annotations

from urllib.parse import urlencode


def window_page(console: str, edge: str, topic: str, window: int) -> str:
    """The evidence of one window (its start, ms). ``console``: where the dashboards answer, as in
    ``http://127.0.0.1:8080``."""
    return f"{console}/window?{urlencode({'edge': edge, 'topic': topic, 'window': window})}"


def topic_page(console: str, topic: str = "") -> str:
    """The overview, of that topic only if one is given."""
    return f"{console}/?{urlencode({'q': topic})}" if topic else f"{console}/"
