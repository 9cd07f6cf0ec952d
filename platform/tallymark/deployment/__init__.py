"""One settings file describes a deployment: clusters, mirrors, registry, store, lake.

Every process of Tallymark reads the same file; audit edges are derived from it. Start with
:mod:`tallymark.deployment.model` (the shape) and :func:`load` (where the file is looked for).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tallymark.deployment.load import dump_toml, find_settings, load

if TYPE_CHECKING:
    from tallymark.deployment.audit import AlertSettings, AuditedGroup, AuditSettings
    from tallymark.deployment.dashboards import DashboardSettings
    from tallymark.deployment.lake import LakeSettings
    from tallymark.deployment.model import (
        BrokerAddress,
        Cluster,
        ClusterSecurity,
        Deployment,
        HttpSecurity,
        Mirror,
        RegistrySettings,
        RegistryTokens,
        ZooKeeperSettings,
    )

__all__ = [
    "AlertSettings",
    "AuditSettings",
    "AuditedGroup",
    "BrokerAddress",
    "Cluster",
    "ClusterSecurity",
    "DashboardSettings",
    "Deployment",
    "HttpSecurity",
    "LakeSettings",
    "Mirror",
    "RegistrySettings",
    "RegistryTokens",
    "ZooKeeperSettings",
    "dump_toml",
    "find_settings",
    "load",
]

# Loaded at first use: code that needs only addresses (.places) does not wait for pydantic's import.
_HOMES: Final = {
    "AlertSettings": "audit",
    "AuditSettings": "audit",
    "AuditedGroup": "audit",
    "BrokerAddress": "model",
    "Cluster": "model",
    "ClusterSecurity": "model",
    "DashboardSettings": "dashboards",
    "Deployment": "model",
    "HttpSecurity": "model",
    "LakeSettings": "lake",
    "Mirror": "model",
    "RegistrySettings": "model",
    "RegistryTokens": "model",
    "ZooKeeperSettings": "model",
}

if not TYPE_CHECKING:  # with __getattr__, type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value  # found at once from now on
        return value
