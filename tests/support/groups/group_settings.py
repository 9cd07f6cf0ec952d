"""A consumer's settings as the public class makes them."""

from __future__ import annotations

from typing import Any

from tallymark.client.consuming.settings import ConsumerSettings


def consumer_settings(**changes: Any) -> ConsumerSettings:
    """Settings with the defaults of the public class."""
    options: dict[str, Any] = {"group": "g", "bootstrap_servers": "h:1"}
    return ConsumerSettings(**(options | changes))
