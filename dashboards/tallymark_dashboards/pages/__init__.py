"""The pages, one module a page, each a function from a request to what its template shows.

A page reads the audit store, never a broker (``messages`` is the one exception).
Its template is in ``templates/pages`` and has its name. A module here is a page; no list names it.
"""

from importlib import import_module
from pkgutil import iter_modules


def load_pages() -> None:
    """Import every page, so that it is registered."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
