"""Draw the tables of docs/results/reproduce.md from the recipes."""

from __future__ import annotations

import re
from pathlib import Path

from isospace.recipes import RECIPES, Recipe
from isospace.recipes.base import WIKI
from isospace.system.files import write_text
from isospace.system.tables import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "results" / "reproduce.md"
_DRAWN = re.compile(r"(?<=<!-- rows -->\n).*?(?=<!-- end rows -->)", re.DOTALL)


def drawn(page: str) -> str:
    """Return the text of the page with new tables: one for each corpus that rows are trained on."""
    rows: dict[str, list[dict[str, str]]] = {WIKI: []}
    reruns = []
    for name, recipe in RECIPES.items():
        if "base" in recipe.config.model and recipe.target is not None:
            rows.setdefault(recipe.corpus, []).append(_row(name, recipe))
            if own := recipe.reruns:
                low, high = recipe.reproduced or (0.0, 0.0)
                link, span = f"[{own.words}]({own.source})", f"{low:.2f} to {high:.2f}"
                reruns.append(
                    {"recipe": f"`{name}`", "other runs": link, "counts as reproduced": span}
                )
    tables = [f"`FILE`: {corpus}\n\n{markdown_table(own)}\n" for corpus, own in rows.items()]
    tables.append(f"Recipes with other runs:\n\n{markdown_table(reruns)}\n")
    return _DRAWN.sub(lambda _: "\n".join(tables), page)


def _row(name: str, recipe: Recipe) -> dict[str, str]:
    assert recipe.target is not None
    measure, published = recipe.target
    return {
        "recipe": f"`{name}`",
        "from": recipe.table,
        "published": f"{published:.2f}" + ("" if measure == "STS" else f" {measure}"),
    }


def main() -> None:
    """Draw the page."""
    write_text(PAGE, drawn(PAGE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
