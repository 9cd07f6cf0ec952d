"""Features of a cluster and their levels (KIP-584): what all brokers understand may be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.results import Outcomes, refusal
from tallymark.client.admin.routes import from_controller
from tallymark.net.addresses import Address
from tallymark.net.client.versions import question
from tallymark.protocol import messages


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """``level`` is in force, 0: the feature is not in use. ``supported``: broker -> (lowest,
    highest level) that it supports; (0, 0) for a broker that does not know the feature."""

    level: int
    supported: Mapping[int, tuple[int, int]]

    @property
    def highest(self) -> int:
        """The highest level that all brokers support."""
        return min((highest for _, highest in self.supported.values()), default=0)


@dataclass(frozen=True, slots=True)
class FeaturesDescription:
    """The features of a cluster by name. ``epoch`` counts changes of levels, -1: not known."""

    epoch: int = -1
    features: Mapping[str, FeatureDescription] = field(
        default_factory=dict[str, FeatureDescription]
    )


class FeaturesAdmin(AdminBase):
    """The methods of Admin for features."""

    def describe_features(self) -> FeaturesDescription:
        """What every broker supports, and what is in force as the broker with the newest levels
        reports it. KafkaError or ConnectError where a broker does not answer: whether a level can
        rise depends on all."""

        async def ask(address: Address) -> messages.ApiVersionsResponse:
            return await self._cluster.ask(address, question())

        answers = self._of_brokers(None, ask, "describing features")
        answers.check()
        return _described(answers.done)

    def update_features(self, levels: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raise features to these levels, all or none; with ``validate_only`` only find out whether
        it could be done. KafkaError INVALID_UPDATE_VERSION: a broker does not support a level, or
        it is below the one in force; FEATURE_UPDATE_FAILED: the outcome is not known."""
        request = messages.UpdateFeaturesRequest(
            timeout_ms=int(self._timeout * 1000),
            feature_updates=tuple(
                messages.UpdateFeaturesRequestFeature(feature=name, max_version_level=level)
                for name, level in levels.items()
            ),
            validate_only=validate_only,
        )

        def read(answer: messages.UpdateFeaturesResponse) -> Outcomes[str, None]:
            for code, what, why in (
                (answer.error_code, "features", answer.error_message),
                *((one.error_code, one.feature, one.error_message) for one in answer.results),
            ):
                if code:
                    return {"features": refusal(code, what, why)}
            return {"features": None}

        async def attempt(pending: list[str]) -> Outcomes[str, None]:
            return await from_controller(self._cluster, request, pending, read)

        self._settle(["features"], attempt, "updating features").check()


def _described(answers: Mapping[int, messages.ApiVersionsResponse]) -> FeaturesDescription:
    newest = max(
        answers.values(),
        key=lambda answer: answer.finalized_features_epoch,
        default=messages.ApiVersionsResponse(),
    )
    levels = {one.name: one.max_version_level for one in newest.finalized_features}
    supported = {
        broker: {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
        for broker, answer in sorted(answers.items())
    }
    names = sorted({*levels, *(name for each in supported.values() for name in each)})
    return FeaturesDescription(
        newest.finalized_features_epoch,
        {
            name: FeatureDescription(
                levels.get(name, 0),
                {broker: each.get(name, (0, 0)) for broker, each in supported.items()},
            )
            for name in names
        },
    )
