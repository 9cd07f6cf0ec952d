"""One settings file describes a deployment: clusters, mirrors, registry, store, lake.

Every process of Tallymark reads the same file; audit edges are derived from it. Start with
:mod:`tallymark.deployment.model` (the shape; its tables are in the files beside it) and
:func:`load` (where the file is looked for).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tallymark.deployment.load import dump_toml, find_settings, load

if TYPE_CHECKING:
    from tallymark.deployment.audit import AlertSettings, AuditedGroup, AuditSettings
    from tallymark.deployment.clusters import (
        BrokerAddress,
        Cluster,
        ClusterSecurity,
        ZooKeeperSettings,
    )
    from tallymark.deployment.dashboards import DashboardSettings
    from tallymark.deployment.http_security import HttpSecurity
    from tallymark.deployment.lake import LakeSettings
    from tallymark.deployment.mirrors import Mirror
    from tallymark.deployment.model import Deployment
    from tallymark.deployment.registry import RegistrySettings, RegistryTokens

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
    "BrokerAddress": "clusters",
    "Cluster": "clusters",
    "ClusterSecurity": "clusters",
    "DashboardSettings": "dashboards",
    "Deployment": "model",
    "HttpSecurity": "http_security",
    "LakeSettings": "lake",
    "Mirror": "mirrors",
    "RegistrySettings": "registry",
    "RegistryTokens": "registry",
    "ZooKeeperSettings": "clusters",
}

if not TYPE_CHECKING:  # with __getattr__, type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value  # found at once from now on
        return value
