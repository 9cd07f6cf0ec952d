"""The registry over HTTP, with Confluent's paths, bodies and error codes.

``app`` puts the application together. ``routes/`` has the paths;
``requests`` and ``negotiate`` read a request, ``responses`` writes the answer. ``middleware`` sees
each request before a route does, ``body_memory`` bounds what all bodies take, ``worker_threads``
runs the work on schemas.
"""

from tallymark_schema_registry.web.app import create_app

__all__ = ["create_app"]
