"""Names that strangers chose (topics, servers, groups), as they stand in a cell. Pure.

They break only after a separator (short ones never). What is longer than :data:`MOST` characters is
cut in its middle, with the whole of it as a tool tip.
"""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup, escape

from tallymark.untrusted import escaped

MOST: Final = 32
ENDING: Final = 10
"""Characters of the end of a name that stay: names often differ there."""
RUN: Final = 24
"""So many characters never break."""
_PIECES: Final = re.compile(r"(?=[\s\S])[._\-:/,…]*[^._\-:/, …]*[._\-:/,…]* *")
"""Between two of them a line may break: behind separators, unless they begin a word."""


def short(name: str, most: int = MOST) -> str:
    """``name``, or its begin and its end with ``…`` between."""
    return name if len(name) <= most else f"{name[: most - ENDING - 1]}…{name[-ENDING:]}"


def name_html(name: object, most: int = MOST) -> Markup:
    """A name in a cell. Characters that do not print are escaped as Python writes them, so a name
    cannot turn the direction of the text around it; ``<bdi>`` keeps letters that are written from
    right to left to themselves."""
    text = escaped(str(name))
    shown = short(text, most)
    title = Markup(' title="{}"').format(text) if shown != text else Markup("")
    if len(shown) <= RUN:
        return Markup('<bdi class="name nowrap"{}>{}</bdi>').format(title, shown)
    pieces = Markup("<wbr>").join(_PIECES.findall(shown))
    return Markup('<bdi class="name"{}>{}</bdi>').format(title, pieces)


def breakable(text: object) -> Markup:
    """A text of any length, whole, that may break after each separator: for headings."""
    return Markup("<wbr>").join(map(escape, _PIECES.findall(escaped(str(text)))))
