"""Rows of JSON lines: one object a line."""

from __future__ import annotations

import json

from tallymark.publishing.reading.rows import Bad, Line, Lines, Row, Rows


def json_rows(lines: Lines) -> Rows:
    """Blank lines are skipped; a line that is no JSON object is Bad."""
    for line in lines:
        if isinstance(line, Line):
            if line.text.strip():
                yield _row(line)
        else:
            yield line


def _row(line: Line) -> Row | Bad:
    try:
        value = json.loads(line.text, parse_constant=_refuse)
    except RecursionError:
        return Bad(line.number, "the JSON is nested too deeply", line.text)
    except ValueError as error:
        return Bad(line.number, f"the line is not JSON: {error}", line.text)
    if not isinstance(value, dict):
        return Bad(line.number, f"a {type(value).__name__} and not a JSON object", line.text)
    return Row(line.number, None, value, line.text)


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")
