"""The registry over HTTP, with Confluent's paths, bodies and error codes.

``app`` puts the application together; ``*_routes`` are the paths, one file for each kind;
``requests`` and ``negotiate`` read a request, ``answers`` writes the answer. ``edge``,
``body_room`` and ``lanes`` stand before the routes: limits on bodies, answers from memory, threads
for costly requests.
"""

from tallymark_schema_registry.web.app import create_app

__all__ = ["create_app"]
