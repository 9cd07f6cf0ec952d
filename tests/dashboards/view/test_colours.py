"""The colours of the pages can be told from each other: WCAG 1.4.3 (4.5 : 1 for text) and 1.4.11
(3 : 1 for what text does not say), in the light and in the dark."""

from __future__ import annotations

import re

import pytest
from project import ROOT

STATIC = ROOT / "dashboards/tallymark_dashboards/static"
TOKENS = dict(
    re.findall(
        r"--([\w-]+): light-dark\((#[0-9a-f]{6}, #[0-9a-f]{6})\)",
        (STATIC / "css/base.css").read_text(),
    )
)
TEXT = [
    *((ink, "paper") for ink in ("ink", "soft", "link", "bad-text")),
    *((ink, "panel") for ink in ("ink", "soft", "link", "bad-text")),
    *((ink, "raised") for ink in ("ink", "soft", "link", "bad-text")),
    ("good-ink", "good"),
    ("wait-ink", "wait"),
    ("ink", "wait"),
    ("warn-ink", "warn"),
    ("bad-ink", "bad"),
    ("bad-text", "bad-tint"),
    ("soft", "bad-tint"),
    ("ink", "bad-tint"),
]  # fmt: skip
SHAPES = [
    ("bad", "paper"),
    ("warn-edge", "paper"),
    ("edge", "paper"),
    ("link", "paper"),
    ("bad", "good"),
]


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str, theme: int) -> float:
    high, low = sorted(
        (luminance(TOKENS[name].split(", ")[theme]) for name in (one, other)), reverse=True
    )
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "paper"), TEXT)
def test_text_can_be_read(ink: str, paper: str, theme: int) -> None:
    """In the legend, ✓ and ≈ were as pale as their ground."""
    assert contrast(ink, paper, theme) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("shape", "paper"), SHAPES)
def test_shapes_can_be_seen(shape: str, paper: str, theme: int) -> None:
    assert contrast(shape, paper, theme) >= 3
