"""docs/protocol.md says what the code does, and what a running broker answers."""

from __future__ import annotations

import sys
from pathlib import Path

from project import ROOT

from tallymark.broker.handlers import served
from tallymark.broker.reference.protocol_page import reference
from tallymark.protocol.messages import REQUEST_CLASSES, ApiVersionsRequest
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

PAGE = ROOT / "docs/protocol.md"


def rows() -> dict[int, list[str]]:
    """The table of the page: key to the other cells."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    return {int(first.removeprefix("| ")): rest for first, *rest in cells if first[2:3].isdigit()}


def versions(cell: str) -> tuple[int, int]:
    low, _, high = cell.partition("-")
    return int(low), int(high or low)


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == reference(), (
        "python -m tallymark.broker.reference.protocol_page > docs/protocol.md"
    )


def test_every_api_has_a_row_with_its_purpose() -> None:
    table = rows()
    assert list(table) == sorted(REQUEST_CLASSES)
    for key in served():
        assert table[key][3], f"the first line of the handler of {key} says nothing behind a colon"


def test_what_is_simplified_is_on_the_page_wherever_its_line_breaks() -> None:
    """The text behind "Simplified:" and a line break was lost on the page."""
    table = rows()
    for key, api in served().items():
        about = sys.modules[(api.raw or api.handle).__module__].__doc__ or ""
        assert ("Simplified:" in about) == (len(table[key][4].strip("| ")) > 0), key


def test_a_running_broker_answers_what_the_page_says(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, WireClient(broker.bootstrap_servers) as wire:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        answer = wire.ask(request, 4)
    told = {item.api_key: (item.min_version, item.max_version) for item in answer.api_keys}
    said = {key: versions(cells[2]) for key, cells in rows().items() if cells[2] != "no"}
    assert told == said
