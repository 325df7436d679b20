"""A trained sentence encoder as a sentence-transformers folder: its own modules with the change in their weights."""

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from retriever.encoders.bert.arrays import linear_weights
from retriever.encoders.bert.layout import WEIGHTS
from retriever.encoders.export import Written, card_facts, check_probes
from retriever.encoders.instructor import SEPARATOR, InstructorEncoder

_CARD = """# {name}, for sentence-transformers

Made from {spec} by `retriever models export`: sentence-transformers loads this folder without remote code.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("PATH/OF/THIS/FOLDER")
vectors = model.encode(["The kettle broke."], prompt="What kind of product is this about?{separator}")
```

The prompt is the instruction with `{separator}` behind it. {without}

The vectors are those of `retriever.load_encoder` in float32; this was checked to 1e-3 when the folder was made.

## Limits

- Text and instruction together have {most} tokens; what is longer loses the end of the text.
- No words: the model's answers in words need retriever.
"""

_DEFAULT = "Without one the model reads every text under its default instruction: {instruction}"
_PUBLISHED = "Texts without an instruction are read by the model as it was published ({source}), not by this folder."


def write(encoder: InstructorEncoder, folder: Path, name: str) -> Written:
    """Write an encoder as a sentence-transformers folder, and compare what it gives with the encoder.

    Raises:
        EncoderError: the written model gives other vectors.
    """
    from sentence_transformers import SentenceTransformer

    source, layout = encoder.source.folder, encoder.published.layout
    shutil.copytree(
        source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.bin", "onnx", "openvino", ".*")
    )
    weights = load_file(source / WEIGHTS)
    changed = linear_weights(encoder.weights)
    save_file({**weights, **{layout.prefix + key: values for key, values in changed.items()}}, folder / WEIGHTS)
    default = encoder.options.default_instruction
    prompts = {"default": f"{default}{SEPARATOR}"} if default else {}
    _edit(folder / "sentence_bert_config.json", max_seq_length=layout.positions)
    _edit(folder / "tokenizer_config.json", model_max_length=layout.positions)
    _edit(folder / "config_sentence_transformers.json", prompts=prompts, default_prompt_name=next(iter(prompts), None))
    loaded: Any = SentenceTransformer(str(folder), device="cpu", local_files_only=True)

    def theirs(texts: list[str], instruction: str) -> Any:  # noqa: ANN401 - an array of theirs
        prompt = f"{instruction.strip()}{SEPARATOR}" if instruction.strip() else None
        return loaded.encode(texts, prompt=prompt, show_progress_bar=False, normalize_embeddings=True)

    check_probes(encoder, theirs, plain=bool(default))
    facts = {**card_facts(encoder, name), "separator": SEPARATOR, "most": layout.positions}
    without = _DEFAULT if default else _PUBLISHED
    return Written(
        "sentence-transformers", _CARD.format(**facts, without=without.format(**facts, source=encoder.source.name))
    )


def _edit(path: Path, **values: object) -> None:
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**stored, **values}, indent=2) + "\n", encoding="utf-8")
