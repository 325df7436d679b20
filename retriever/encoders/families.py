"""Which prompts a sentence encoder wants: those that its folder registers, else those of its family.

A family is known by what its files say (pooling, architecture) where they say it, else by its name: the one it was
asked for by, that of its folder or repository, the one in its config.json or in its model card.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.core.errors import EncoderError
from retriever.core.roles import INSTRUCTION, RolePrompts
from retriever.encoders.model_options import NamedModel
from retriever.encoders.sources import MODULES, ModelSource

SEARCH_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
"""Instruction of a query where none is given, that instructed models were trained with most."""

_REGISTERED = "config_sentence_transformers.json"
_LEGACY = "pooling_mode_"  # before the names of poolings in older files
_DOCUMENT_NAMES = ("document", "passage", "corpus")
_INSTRUCTED = re.compile(r"(Instruct: )(.+?)(\nQuery: ?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Family:
    """Models that register no prompts and want some.

    Attributes:
        name: for people.
        pattern: regular expression that the beginning of a model's name, or of a part of it, fits.
        query: prompt before queries.
        document: prompt before documents.
    """

    name: str
    pattern: str
    query: str
    document: str = ""


_INSTRUCT = "Instruct: {instruction}\nQuery: "
_SEARCHED = "Represent this sentence for searching relevant passages: "
_LAST_TOKEN = Family("models that pool the last token", "", _INSTRUCT)
_NOMIC = Family("Nomic Embed", r"nomic-embed-text", "search_query: ", "search_document: ")

FAMILIES = (
    Family("E5 instruct", r"multilingual-e5-\w+-instruct|e5-mistral", _INSTRUCT),
    Family("E5", r"(multilingual-)?e5-(small|base|large)", "query: ", "passage: "),
    Family("English BGE", r"bge-(small|base|large)-en", _SEARCHED),
    _NOMIC,
    Family("F2LLM", r"f2llm", _INSTRUCT),
    Family("Harrier", r"harrier", _INSTRUCT),
)
"""Families known by name, the more special ones first."""

SERVED = (
    Family("Qwen3 Embedding", r"qwen3-embedding", "Instruct: {instruction}\nQuery:"),
    Family("GTE Qwen2", r"gte-qwen2", _INSTRUCT),
    Family("EmbeddingGemma", r"embedding-?gemma", "task: search result | query: ", "title: none | text: "),
    Family("mxbai Embed", r"mxbai-embed", _SEARCHED),
    Family("Snowflake Arctic Embed 2", r"snowflake-arctic-embed-?\w*-v2|snowflake-arctic-embed2", "query: "),
    Family("Snowflake Arctic Embed", r"snowflake-arctic-embed", _SEARCHED),
)
"""Families whose folders register their prompts, known by name where the folder is elsewhere."""

_BY_ARCHITECTURE = {"nomic_bert": _NOMIC}


def role_prompts(source: ModelSource, given: NamedModel) -> RolePrompts:
    """Return the prompts of a sentence encoder: as given, as its folder registers them, or as its family wants them."""
    return _as_given(_registered(source.folder) or _of_family(source), given)


def prompts_by_name(model: str, given: NamedModel) -> RolePrompts:
    """Return the prompts of a model that is elsewhere, where its files cannot be read: as given, or by its name."""
    return _as_given(_by_name([model.rpartition("/")[2].lower()], (*FAMILIES, *SERVED)), given)


def _as_given(known: RolePrompts, given: NamedModel) -> RolePrompts:
    if given.query is None and given.document is None:
        return known
    query = known.query if given.query is None else given.query
    document = known.document if given.document is None else given.document
    return _prompts(query, document, "as given with its name", known.default_instruction)


def _prompts(query: str, document: str, origin: str, instruction: str = "") -> RolePrompts:
    default = instruction or SEARCH_INSTRUCTION if INSTRUCTION in query else ""
    return RolePrompts(query, document, default, origin) if query or document else RolePrompts()


def _registered(folder: Path) -> RolePrompts | None:
    """Return the prompts that a folder registers by role, or for all texts; None where it registers none.

    A model that registers instructions and no role follows them in its queries.
    """
    config = read_json(folder / _REGISTERED)
    prompts = {str(name): str(text) for name, text in (config.get("prompts") or {}).items() if text}
    origin = f"registered in its {_REGISTERED}"
    document = next((prompts[name] for name in _DOCUMENT_NAMES if name in prompts), "")
    if query := prompts.get("query", ""):
        match = _INSTRUCTED.fullmatch(query)
        if match is None:
            return _prompts(query, document, origin)
        return _prompts(f"{match[1]}{INSTRUCTION}{match[3]}", document, origin, match[2])
    for name in sorted(prompts, key=lambda name: name != "web_search_query"):
        if match := _INSTRUCTED.fullmatch(prompts[name]):
            return _prompts(f"{match[1]}{INSTRUCTION}{match[3]}", document, origin, match[2])
    default = "" if document else prompts.get(str(config.get("default_prompt_name")), "")
    return _prompts(default, document or default, origin) if document or default else None


def _of_family(source: ModelSource) -> RolePrompts:
    config = read_json(source.folder / "config.json")
    if family := _BY_ARCHITECTURE.get(str(config.get("model_type"))):
        return _prompts(family.query, family.document, f"{family.name}, by its architecture")
    if known := _by_name(list(_names(source, config)), FAMILIES):
        return known
    if "lasttoken" in poolings(source.folder):
        return _prompts(_LAST_TOKEN.query, "", f"{_LAST_TOKEN.name}, by its pooling")
    return RolePrompts()


def _by_name(names: Sequence[str], families: Sequence[Family]) -> RolePrompts:
    """Return the prompts of the first family that one of some names fits; none where none does."""
    for family in families:
        if any(re.search(rf"(?<![a-z0-9])(?:{family.pattern})", name) for name in names):
            return _prompts(family.query, family.document, f"{family.name}, by its name")
    return RolePrompts()


def _names(source: ModelSource, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a model is called, in small letters, each without the folders before it."""
    card = source.folder / "README.md"
    with suppress(OSError, UnicodeError):
        text = card.read_text(encoding="utf-8")
        yield from re.findall(r"^model-index:\s*\n\s*- name: *(\S+)", text.lower(), re.MULTILINE)
    repository = [part for part in source.folder.resolve().parts if part.startswith("models--")]  # of the hub's cache
    for name in (source.name, str(config.get("_name_or_path") or ""), *repository):
        yield Path(name.rpartition("--")[2]).name.lower()
    yield source.folder.resolve().name.lower()


def poolings(folder: Path) -> list[str]:
    """Return how a sentence-transformers folder pools tokens; empty where it does not say."""
    modules = read_json(folder / MODULES, [])
    paths = [module["path"] for module in modules if str(module.get("type")).endswith(".Pooling")]
    modes: list[str] = []
    for path in paths:
        config = read_json(folder / path / "config.json")
        mode = config.get("pooling_mode")
        modes += [mode] if isinstance(mode, str) else list(mode or [])
        modes += [key.removeprefix(_LEGACY) for key, on in config.items() if key.startswith(_LEGACY) and on]
    return modes


def read_json(path: Path, missing: Any = None) -> Any:  # noqa: ANN401 - whatever the file holds
    """Return what a JSON file holds; an empty table, or ``missing``, where there is no such file.

    Raises:
        EncoderError: it cannot be read.
    """
    if not path.exists():
        return {} if missing is None else missing
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"{path} cannot be read: {error}.", hint="Fetch the model again.") from error
