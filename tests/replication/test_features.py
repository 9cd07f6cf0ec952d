"""Which levels of features may be used."""

from __future__ import annotations

import pytest

from tallymark.errors import KafkaError
from tallymark.replication.features import (
    REPLICATION,
    Finalized,
    Levels,
    Supported,
    all_raised,
    check_factor,
    highest,
    raised,
    refusal,
    served,
)

NONE = Finalized()
ON = Finalized({REPLICATION: 1}, 3)
OLD: Supported = {}
OURS: Supported = {REPLICATION: Levels(0, 1)}


def test_a_level_rises_when_all_live_brokers_support_it() -> None:
    assert raised(NONE, REPLICATION, 1, {1: OURS, 2: OURS}).level(REPLICATION) == 1
    assert raised(ON, REPLICATION, 1, {1: OURS}) is ON
    assert highest(REPLICATION, {1: OURS, 2: OURS}) == 1
    assert highest(REPLICATION, {1: OURS, 2: OLD}) == highest(REPLICATION, {}) == 0


@pytest.mark.parametrize("brokers", [{1: OURS, 2: OLD, 3: OLD}, {}])
def test_a_level_does_not_rise_above_a_live_broker(brokers: dict[int, Supported]) -> None:
    with pytest.raises(KafkaError) as error:
        raised(NONE, REPLICATION, 1, brokers)
    assert error.value.name == "INVALID_UPDATE_VERSION"
    why = "brokers [2, 3] do not support level 1" if brokers else "no broker knows the feature"
    assert why in str(error.value)


def test_several_levels_rise_together_or_none() -> None:
    support = {**OURS, "other.version": Levels(0, 2)}
    wanted = {REPLICATION: 1, "other.version": 2}
    assert all_raised(NONE, wanted, {1: support}).levels == wanted
    assert all_raised(ON, {REPLICATION: 1}, {1: support}) is ON
    with pytest.raises(KafkaError, match=r"brokers \[2\] do not support level 2 of other"):
        all_raised(NONE, wanted, {1: support, 2: OURS})


def test_a_level_never_falls() -> None:
    with pytest.raises(KafkaError) as error:
        raised(ON, REPLICATION, 0, {1: OURS})
    assert error.value.name == "INVALID_UPDATE_VERSION"


def test_an_older_broker_is_refused_with_the_reason() -> None:
    assert refusal(OURS, ON) is None
    assert refusal(OLD, NONE) is None
    assert refusal(OLD, Finalized({REPLICATION: 0})) is None
    told = refusal(OLD, ON)
    assert told is not None
    assert told.startswith("the cluster uses replication.version at level 1")
    assert "supports 0-1" in str(refusal(OURS, Finalized({REPLICATION: 2})))


def test_several_replicas_need_the_level() -> None:
    """Without ZooKeeper the reason was "brokers [0] are of a release that cannot"."""
    check_factor(1, NONE, {1: OLD})
    check_factor(3, ON, {1: OURS})
    for brokers, text in [
        ({1: OURS, 2: OLD}, r"brokers \[2\].* or no Zoo"),
        ({1: OURS}, "not raised"),
    ]:
        with pytest.raises(KafkaError, match=text) as error:
            check_factor(2, NONE, brokers)
        assert error.value.name == "INVALID_REPLICATION_FACTOR"


def test_a_feature_with_minimum_0_is_left_out_below_version_4() -> None:
    """KAFKA-17011: clients that asked with v3 failed on such a feature."""
    support = {**OURS, "other.version": Levels(1, 2)}
    assert served(support, ON, 3).supported == {"other.version": Levels(1, 2)}
    assert served(support, ON, 4).supported == support
    assert served(support, ON, 3).finalized == {REPLICATION: 1}
    assert served(support, ON, 3).epoch == 3
    assert served(support, Finalized({REPLICATION: 0}, 1), 4).finalized == {}
