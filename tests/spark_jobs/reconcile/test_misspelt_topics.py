"""A reconciliation of a topic that does not exist.

``tallymark reconcile --topic nosuch`` counted nothing, wrote "nothing was published or seen, and
every reporter says so", and ended with 0: a cron job with a misspelt pattern would never have
judged anything, and never have complained.
"""

from __future__ import annotations

import pytest

from tallymark.errors import UserError
from tallymark_spark_jobs.reconcile.look import check_known
from tallymark_spark_jobs.reconcile.reading.claims import Claims


def claims(*topics: str) -> Claims:
    """What reporters of dc1 have reported on, in any window."""
    return Claims(publishing={"dc1": {topic: {"a-1"} for topic in topics}, "dc2": {}})


def test_a_pattern_that_no_topic_ever_matched_is_an_error() -> None:
    with pytest.raises(UserError, match="no topic that is audited matches 'nosuch' as a whole"):
        check_known("nosuch", set(), claims("clicks"))
    with pytest.raises(UserError, match="'click'"):
        check_known("click", set(), claims("clicks"))


def test_a_topic_that_is_there_or_was_claimed_is_none() -> None:
    """One that all clusters lost is a loss, not a misspelt name; a day without its messages is
    complete."""
    check_known("clicks", {"clicks"}, claims())
    check_known("clicks", set(), claims("clicks"))
    check_known("cl.*", set(), claims("clicks"))
    check_known(None, set(), claims())
