"""The end of a command that sends: deliver what is pending, within bounds."""

from __future__ import annotations

from typing import Final

import click

from tallymark.cli.messages.reading.reader import Stopped
from tallymark.client.producing.producer import Producer
from tallymark.errors import TimedOutError

_CLOSE_S: Final = 130.0
"""The delivery time-out (120 s) and a little."""
_SIGNALLED_CLOSE_S: Final = 30.0


def close_producer(producer: Producer, stop: Stopped) -> None:
    """Deliver what is pending. A user that stops the command waits a shorter time. What is given up
    is said, and counted as failed by its callbacks."""
    try:
        producer.close(_SIGNALLED_CLOSE_S if stop.is_set() else _CLOSE_S)
    except TimedOutError as error:
        click.echo(str(error), err=True)
