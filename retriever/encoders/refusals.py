"""Folders that are refused as sentence encoders: bare language models, and models that need code of their own."""

from retriever.core.errors import EncoderError
from retriever.encoders.families import read_json
from retriever.encoders.sources import MODULES, ModelSource

_ENGLISH, _LANGUAGES, _INSTRUCTED = (
    "st:Alibaba-NLP/gte-modernbert-base",
    "st:intfloat/multilingual-e5-base",
    "st:Qwen/Qwen3-Embedding-0.6B",
)
_NEAREST = {"gte": _ENGLISH, "new": _ENGLISH, "jina": _LANGUAGES, "nomic": "st:nomic-ai/nomic-embed-text-v1.5"}
"""The nearest model that needs no code, by a part of a name or architecture."""


def refuse_what_is_none(source: ModelSource) -> None:
    """Refuse a folder that holds no sentence encoder, or one that only its own code can compute.

    Raises:
        EncoderError: it does.
    """
    _refuse_language_model(source)
    _refuse_code(source)


def _refuse_language_model(source: ModelSource) -> None:
    """Refuse a language model, which would be pooled without ever having been taught to be."""
    config = read_json(source.folder / "config.json")
    if (source.folder / MODULES).is_file():
        return
    kinds = [str(kind) for kind in config.get("architectures") or []]
    if "num_key_value_heads" in config or any(kind.endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds):
        raise EncoderError(
            f"{source.name} holds a {kinds[0] if kinds else 'model'}, a language model, and no sentence-transformers "
            "model.",
            hint=f"An embedding model has modules.json and 1_Pooling beside it: fetch them too. Any other is "
            f"--encoder METHOD:{source.name}.",
        )


def _refuse_code(source: ModelSource) -> None:
    """Refuse a model whose modules or architecture come as code with it, which is never run."""
    modules = read_json(source.folder / MODULES, [])
    foreign = [str(module.get("type")) for module in modules]
    foreign = [kind for kind in foreign if not kind.startswith("sentence_transformers.")]
    config = read_json(source.folder / "config.json")
    kind = str(config.get("model_type"))
    if config.get("auto_map") and (not _is_known(kind) or config.get("num_experts")):
        foreign.append(str(next(iter(config["auto_map"].values()))))
    if not foreign:
        return
    name = f"{source.name} {kind}".lower()
    nearest = next((model for part, model in _NEAREST.items() if part in name), _INSTRUCTED)
    raise EncoderError(
        f"{source.name} needs code that comes with it ({foreign[0]}), which is never run.",
        hint=f"The nearest that works without: {nearest}.",
    )


def _is_known(kind: str) -> bool:
    """Whether transformers itself computes an architecture."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return kind in CONFIG_MAPPING
