"""What the report and the page of `explore` share: their templates' environment, `page/`."""

from __future__ import annotations

import jinja2


def templates(package: str) -> jinja2.Environment:
    """Return the templates in the folder `page` of a package, and those that all pages share.

    What is put into them is escaped; a name that is missing is an error.

    >>> templates("isospace.report").from_string("{{ text }}").render(text="<script>")
    '&lt;script&gt;'
    """
    folders = [
        jinja2.PackageLoader(package, "page"),
        jinja2.PackageLoader("isospace.report", "shared"),
    ]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
