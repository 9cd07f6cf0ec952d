"""What a person reads on a page."""

from __future__ import annotations

import html
import re


def text_of(page: str) -> str:
    """The text of a page or a part of one, without tags, with single spaces."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page.replace("<wbr>", ""))))
