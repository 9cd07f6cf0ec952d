"""docs/settings.md, written from the model itself: ``python -m tallymark.deployment.reference``."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tallymark.deployment.model import Deployment

HEAD = """# Settings

One TOML file describes a deployment. Every command looks for it in this order: `--settings FILE`,
`$TALLYMARK_SETTINGS`, `.tallymark/deployment.toml` (which `tallymark up` writes with every port
filled in), `tallymark.toml`; without any, the defaults below hold. Times are milliseconds.

```toml
[audit]
window_ms = 10000

[[clusters]]
name = "dc1"
brokers = [{ id = 0, port = 9092 }]
broker_settings = { "log.retention.ms" = 86400000 }
```

This page is made from the code: `python -m tallymark.deployment.reference > docs/settings.md`.
"""


def reference() -> str:
    """The whole page."""
    return HEAD + "".join(_section("the top of the file", Deployment))


def _section(title: str, model: type[BaseModel], above: str = "") -> Iterator[str]:
    yield f"\n## {title}\n\n{_line(model.__doc__)}\n\n| setting | default | |\n|---|---|---|\n"
    below: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        part = _part(field)
        if part is not None:
            below.append((name, part))
        yield f"| `{name}` | {_default(field, part)} | {_line(field.description)} |\n"
    for name, part in below:
        yield from _section(f"[{above}{name}]", part, f"{above}{name}.")


def _part(field: FieldInfo) -> type[BaseModel] | None:
    for kind in (field.annotation, *typing.get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def _default(field: FieldInfo, part: type[BaseModel] | None) -> str:
    if part is not None:
        return "see below"
    if field.is_required():
        return "(required)"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        return f"`{json.dumps(value)}`"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text and value != {} else "(empty)"


def _line(text: str | None) -> str:
    return " ".join((text or "").replace("``", "`").split()).replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201  (it is what this module does)
