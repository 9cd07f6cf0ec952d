"""Links between the pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")


def test_every_linked_file_and_heading_is_there() -> None:
    lost = []
    for page in PAGES:
        for file, anchor in LINK.findall(_without_code(page.read_text())):
            target = page.parent / file if file else page
            if not target.exists() or (anchor and anchor[1:] not in _anchors(target)):
                lost.append(f"{page.relative_to(ROOT)}: {file}{anchor}")
    assert len(PAGES) > 20
    assert lost == []


def _anchors(page: Path) -> set[str]:
    """The headings of a page, spelt as GitHub links to them."""
    headings = re.findall(r"(?m)^#+ +(.*)$", _without_code(page.read_text()))
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


def _without_code(text: str) -> str:
    return re.sub(r"(?ms)^```.*?^```", "", text)


def test_every_file_that_the_pages_for_developers_name_is_there() -> None:
    pages = [ROOT / "CONTRIBUTING.md", *(ROOT / "docs/decisions").glob("*.md")]
    tops = [ROOT, *ROOT.glob("*/"), *ROOT.glob("*/tallymark*/")]
    named = {
        path
        for page in pages
        for path in re.findall(r"`([\w./-]+/[\w.-]*)`", page.read_text())
        if not path.startswith("application/")
    }
    assert len(named) > 30
    assert [each for each in sorted(named) if not any((top / each).exists() for top in tops)] == []
