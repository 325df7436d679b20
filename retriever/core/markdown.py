"""Anybody's words in Markdown that shows them as they are."""

import re

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@^=])")
_INLINE = re.compile(r"([\\`*_{}\[\]<>|~$&]|(?<!\w)[@#:](?=\w))")
_LEADING = re.compile(r"^([-+=:#!]|\d+(?=[.)](?:\s|$)))")
_ADDRESS = re.compile(r"(?<=http)(?=://)|(?<=https)(?=://)|(?<=www)(?=\.)|(?<=[\w.+-])(?=@[\w-])", re.IGNORECASE)
_JOINER = "\u2060"  # has no width, and stands in no address


def escape_markdown(text: str) -> str:
    """Return Markdown that shows the text as it is, on one line: no links, images, colours, formulas or HTML.

    Addresses get a character without width where they would be taken for links, escaped or not.
    """
    return _MARKDOWN.sub(r"\\\1", _ADDRESS.sub(_JOINER, " ".join(text.split())))


def readable_markdown(text: str) -> str:
    """Return Markdown that shows the text as it is, as `escape_markdown`, and reads well where it is not rendered.

    It may stand behind a list's or a quote's mark, in a heading or in the cell of a table.
    """
    line = _INLINE.sub(r"\\\1", _ADDRESS.sub(_JOINER, " ".join(text.split())))
    return _LEADING.sub(lambda found: f"{found[1]}\\" if found[1].isdecimal() else f"\\{found[1]}", line)
