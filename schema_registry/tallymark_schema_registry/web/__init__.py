"""The registry over HTTP."""

from tallymark_schema_registry.web.app import create_app

__all__ = ["create_app"]
