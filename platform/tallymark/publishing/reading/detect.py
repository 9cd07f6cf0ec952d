"""Detects the format of an input from its first lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence

from tallymark.errors import UserError
from tallymark.publishing.reading.access_log import is_access_log
from tallymark.publishing.reading.csv_rows import csv_delimiter, parse_record
from tallymark.publishing.reading.rows import Bad, Line

SAMPLE_LINES = 20


def detect(name: str, sample: Sequence[Line | Bad]) -> str:
    """jsonl, access-log or csv. Raises UserError if it is none of them, or nothing at all."""
    texts = [line.text for line in sample if isinstance(line, Line) and line.text.strip()]
    if not texts:
        if sample and isinstance(sample[0], Bad):
            raise UserError(f"{name} is not text: {sample[0].reason}", "unpack or convert it first")
        raise UserError(f"{name} is empty")
    if any("\0" in text for text in texts):
        raise UserError(f"{name} is not text: it holds NUL bytes", "unpack or convert it first")
    # One odd line among the first must not decide.
    if sum(map(is_access_log, texts)) * 2 > len(texts):
        return "access-log"
    if sum(map(_is_json_object, texts)) * 2 > len(texts):
        return "jsonl"
    if _is_csv(texts):
        return "csv"
    raise UserError(
        f"{name} is neither JSON lines, CSV nor an access log, as far as its first "
        f"{len(texts)} lines tell",
        "name the format with --format jsonl, csv or access-log",
    )


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_csv(texts: list[str]) -> bool:
    """A header of at least two columns, and most lines of the same width."""
    try:
        delimiter = csv_delimiter(texts[0])
        width = len(parse_record([texts[0]], delimiter))
    except csv.Error:
        return False
    same = 0
    for text in texts[1:]:
        try:
            same += len(parse_record([text], delimiter)) == width
        except csv.Error:
            # A cell that goes on in the next line; it says nothing about the width.
            same += 1
    return width > 1 and same * 2 >= len(texts) - 1
