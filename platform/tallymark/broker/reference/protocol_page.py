"""Prints docs/protocol.md from the code: run it with ``python -m``."""

from __future__ import annotations

import sys

from tallymark.broker import handlers
from tallymark.broker.handlers import served
from tallymark.broker.requests.registry import Api
from tallymark.protocol.messages import REQUEST_CLASSES

HEAD = """# The protocol

The broker speaks the Apache Kafka protocol. *Known* are the versions whose messages the code can
read and write, as a client too; *served* is what the broker answers to ApiVersions, both ends
included. What an API does in each version stands at the top of its file in
`platform/tallymark/broker/handlers/`, its messages are declared in
`platform/tallymark/protocol/messages/`; both are named by the key. What is not there at all:
[limits.md](limits.md).

This page is made from the code:
`python -m tallymark.broker.reference.protocol_page > docs/protocol.md`.
"""

COLUMNS = (
    "\n| key | API | known | served | what it does | simplified |\n|---|---|---|---|---|---|\n"
)


def reference() -> str:
    """The whole page."""
    apis = {int(key): api for key, api in served().items()}
    return HEAD + COLUMNS + "".join(_row(key, apis.get(key)) for key in sorted(REQUEST_CLASSES))


def _row(key: int, api: Api | None) -> str:
    request = REQUEST_CLASSES[key]
    name = request.__name__.removesuffix("Request")
    known = _range(*request.valid_versions)
    if api is None:
        return f"| {key} | {name} | {known} | no | | |\n"
    module = f"{handlers.__name__}.k{key:02d}_{api.key.name.lower()}"
    about = sys.modules[module].__doc__ or ""
    return (
        f"| {key} | {name} | {known} | {_range(api.low, api.high)}"
        f" | {_purpose(about)} | {_simplified(about)} |\n"
    )


def _range(low: int, high: int) -> str:
    return f"{low}-{high}" if low < high else f"{low}"


def _purpose(about: str) -> str:
    """The text after the colon in the first line."""
    return _text(about.strip().partition("\n")[0].partition(": ")[2])


def _simplified(about: str) -> str:
    """From "Simplified:" to the end of its paragraph."""
    paragraphs = (" ".join(lines.split()) for lines in about.split("\n\n"))
    parts = (paragraph.partition("Simplified: ")[2] for paragraph in paragraphs)
    return _text(" ".join(part for part in parts if part))


def _text(text: str) -> str:
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201  (it is what this module does)
