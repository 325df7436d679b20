r"""The options behind a sentence encoder's name: ``st:NAME,query=TEXT,document=TEXT,dim=NUMBER``."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from retriever.core.errors import UsageError

_OPTION = re.compile(r",(query|document|dim)=")


@dataclass(frozen=True, slots=True)
class NamedModel:
    r"""A model's name and the options behind it.

    Attributes:
        name: a known wheel, a folder or a hub name.
        query: prompt before queries, in which ``{instruction}`` may stand; None for what is recognised.
        document: prompt before documents; None for what is recognised.
        dim: how many numbers of a vector are kept, for models trained for it (Matryoshka); None for all.
    """

    name: str
    query: str | None = None
    document: str | None = None
    dim: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        r"""Read a name with options; ``\n`` in a prompt is a line break.

        >>> NamedModel.parse("intfloat/e5-small,query=query: ,dim=256")
        NamedModel(name='intfloat/e5-small', query='query: ', document=None, dim=256)

        Raises:
            UsageError: an option stands there twice, or a dimension is no whole number above 0.
        """
        name, *rest = _OPTION.split(text)
        keys = rest[::2]
        if len(set(keys)) < len(keys):
            raise UsageError(f"{text} names an option twice.", hint="Say each of query, document and dim once.")
        given = dict(zip(keys, rest[1::2], strict=True))
        dim = given.pop("dim", None)
        if dim is not None and not (dim.isascii() and dim.isdigit() and int(dim)):
            raise UsageError(f"dim={dim} is no number of dimensions.", hint="Say a whole number, such as dim=256.")
        prompts = {key: value.replace("\\n", "\n") for key, value in given.items()}
        return cls(name, prompts.get("query"), prompts.get("document"), None if dim is None else int(dim))


def with_absolute_folder(text: str) -> str:
    """Return a model's name, options included, with its folder made absolute where it is one that is there."""
    match = _OPTION.search(text)
    end = match.start() if match else len(text)
    folder = Path(text[:end]).expanduser()
    return f"{folder.resolve()}{text[end:]}" if folder.is_dir() else text
