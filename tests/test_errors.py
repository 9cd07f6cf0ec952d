"""Errors travel between processes and read well."""

from __future__ import annotations

import copy
import pickle

import pytest

from tallymark import errors as e

ERRORS = [
    e.UserError("w", "d", 4),
    e.KafkaError(6, "t-0"),
    e.LogTruncatedError("t", 0, 5, 3),
    e.CorruptMessageError("t", 0, 5, "reason"),
    e.OffsetOutOfRangeError("t", 0, None, 1, 4),
    e.CommitFailedError(22, "g"),
    e.ConnectError("a:1", "tls", "why"),
    e.AuthenticationError("a:1", "sasl", "no"),
    e.WrongClusterError("a:1", "x", "y"),
    e.TimedOutError("late"),
    e.BufferFullError("full"),
    e.ClientFailedError("c", "work", ValueError("x")),
    e.RecordDroppedError("gone"),
    e.ClosedError("closed"),
    e.CorruptRecordError("crc"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_a_pool_of_processes(error: e.TallymarkError) -> None:
    """A KafkaError came out of a ProcessPoolExecutor as another one ("ERROR_t-0: ... unknown
    code"), and a ConnectError broke the pool: its pickle could not be read."""
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert other.args == error.args
        assert other.__dict__ == error.__dict__
        with pytest.raises(type(error)):
            raise other


def test_a_note_that_was_added_stays() -> None:
    error = e.ConnectError("broker:1", "connect", "refused")
    error.add("is it running?", ("192.0.2.1",))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "broker:1 (192.0.2.1): connect failed: refused; is it running?" in str(error)


def test_a_question_is_not_followed_by_a_semicolon() -> None:
    assert str(e.UserError("which messages?", "give one")) == "which messages? give one"
