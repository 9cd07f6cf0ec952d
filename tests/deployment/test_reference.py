"""docs/settings.md says what the code does."""

from project import ROOT
from pydantic import BaseModel

from tallymark.deployment import Deployment
from tallymark.deployment.reference import _part, reference


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert page == reference(), "python -m tallymark.deployment.reference > docs/settings.md"


def test_every_setting_is_explained() -> None:
    def silent(model: type[BaseModel]) -> list[str]:
        found = [
            f"{model.__name__}.{n}" for n, f in model.model_fields.items() if not f.description
        ]
        parts = [part for field in model.model_fields.values() if (part := _part(field))]
        return found + [name for part in parts for name in silent(part)]

    assert silent(Deployment) == []
