"""The registry over HTTP, with Confluent's paths, bodies and error codes.

``app`` puts the application together, ``routes/`` has the operations. ``middleware`` sees each
request before a route does (``paths``, ``negotiate``, ``body_memory``). A route gets its parameters
from ``params``, the registry and the caller from ``call``, the body from ``requests``; it answers
with ``responses`` (what the profiles say) and ``answers`` (bytes, and what clients may keep).
``described`` and ``documents`` are what ``openapi`` and the page of the API are made from.
"""

from tallymark_schema_registry.web.app import create_app

__all__ = ["create_app"]
