"""Pages that are written as files: templates of this folder, which need no network."""

from pathlib import Path
from typing import Any

from retriever.core.text import printable, readable_markdown


def page(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template shows
    """Return a filled template: one of HTML escapes every value, one of Markdown what goes through ``plain``."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=template.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False}
    environment.filters |= {
        "plain": lambda text: readable_markdown(printable(str(text))),
        "shown": lambda text: printable(str(text)),
    }
    return environment.get_template(template).render(**values) + "\n"
