"""Levels over real schemas: what refuses, and what is a warning."""

from __future__ import annotations

import pytest

from tallymark_schema_registry.levels import Level, differences, findings
from tallymark_schema_registry.schemas import parse_schema

INT = '{"type": "record", "name": "R", "fields": [{"name": "f", "type": "int"}]}'
LONG = INT.replace('"int"', '"long"')
MILLIS = INT.replace('"int"', '{"type": "long", "logicalType": "timestamp-millis"}')
MICROS = MILLIS.replace("millis", "micros")


@pytest.mark.parametrize(
    ("level", "old_reads_new", "new_reads_old"),
    [
        (Level.NONE, False, False),
        (Level.BACKWARD, False, True),
        (Level.BACKWARD_TRANSITIVE, False, True),
        (Level.FORWARD, True, False),
        (Level.FORWARD_TRANSITIVE, True, False),
        (Level.FULL, True, True),
        (Level.FULL_TRANSITIVE, True, True),
    ],
)
def test_a_level_asks_in_its_direction(
    level: Level, old_reads_new: bool, new_reads_old: bool
) -> None:
    int_, long_ = parse_schema(INT), parse_schema(LONG)
    assert bool(differences(level, long_, int_)) is old_reads_new
    assert bool(differences(level, int_, long_)) is new_reads_old
    assert differences(level, int_, int_) == []


def test_a_changed_unit_of_time_is_a_warning_or_refused() -> None:
    """Avro's rules take it, and every value is read 1,000 times as large."""
    old, new = parse_schema(MILLIS), parse_schema(MICROS)
    assert differences(Level.FULL, new, old) == []
    assert differences(Level.NONE, new, old, logical=True) == []
    assert len(differences(Level.BACKWARD, new, old, logical=True)) == 1
    assert [found.refuses for found in findings(Level.BACKWARD, new, old)] == [False]
    assert findings(Level.BACKWARD, new, old, warn=False) == []
