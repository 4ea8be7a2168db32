"""Name and licence of a base model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from isospace.encoders.places import MINILM_HUB_NAME, folder_of, pinned, run_model, wheel_minilm
from isospace.system.endpoints import Address, is_address
from isospace.system.files import expanded


@dataclass(frozen=True)
class Origin:
    """The base model as a model card describes it, when the model was made.

    Attributes:
        name: its name, without parent folders, which are private.
        hub_name: its name on the Hub; `None` for a folder.
        licence: the licence in its own card; `None` if no card on this machine names one.
    """

    name: str
    hub_name: str | None
    licence: str | None

    @classmethod
    def from_model(cls, model: str) -> Origin:
        """Describe minilm, a folder or a Hub name, without contacting the Hub."""
        if is_address(model):
            return cls(Address.parse("model", model).model, None, None)
        folder = folder_of(model)
        if folder is None and re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?(@\S+)?", model):
            hub_name, revision = pinned(MINILM_HUB_NAME if model == "minilm" else model)
            card = _hub_card(model, hub_name, revision)
            return cls(model, hub_name, _stated_licence(card))
        path = folder or expanded(model)
        card = (run_model(path) or path) / "README.md"
        return cls(path.resolve().name, None, _stated_licence(card))

    @property
    def licence_text(self) -> str:
        """The licence in words."""
        return self.licence or "unknown: see the base model"


def _stated_licence(card: Path | None) -> str | None:
    if card is None or not card.is_file():
        return None
    text = card.read_text(encoding="utf-8", errors="replace")
    block = re.match(r"---\r?\n(.*?)\n---", text, re.DOTALL)
    stated = re.search(r"^license:[ \t]*(\S.*?)\s*$", block[1] if block else "", re.MULTILINE)
    return stated[1].strip("\"'") if stated else None


def _hub_card(model: str, hub_name: str, revision: str | None) -> Path | None:
    wheel = wheel_minilm() if model == "minilm" else None
    if wheel is not None:
        return wheel / "README.md"
    try:
        path = try_to_load_from_cache(hub_name, "README.md", revision=revision)
    except ValueError:  # no name that the Hub could have
        return None
    return Path(path) if isinstance(path, str) else None
