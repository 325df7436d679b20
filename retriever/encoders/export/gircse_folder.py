"""A GIRCSE encoder as a folder of merged weights with a loader beside them that needs no package of ours.

No stock module feeds a model its own expectations, so the loop is a short Python file, `gircse_loader`, in the folder.
"""

import json
import shutil
from pathlib import Path

import torch

from retriever.encoders.behind_prompt import GircseEncoder
from retriever.encoders.export import Written, card_facts, check_probes, gircse_loader
from retriever.encoders.tokenize import pretrained_tokenizer

LOADER = "loader.py"
_CARD = """# {name}, with a loader

Made from {spec} by `retriever models export`. GIRCSE feeds the model its own expectations step by step, which no stock
module of sentence-transformers does; `loader.py` in this folder does it with torch and transformers alone.

```python
from loader import Gircse

encoder = Gircse("PATH/OF/THIS/FOLDER")
vectors = encoder.encode(["The kettle broke."], instruction="What kind of product is this about?", steps={steps})
```

Without an instruction a text is read under the default one: {instruction}

The vectors are those of `retriever.load_encoder` in float32; this was checked to 1e-3 when the folder was made. Texts
are cut after {text} tokens. The words of the soft tokens need retriever.
"""


def write(encoder: GircseEncoder, folder: Path, name: str) -> Written:
    """Write the model, the tokenizer, the settings and the loader, and compare what it gives with the encoder.

    The encoder is one in float32, the folder, which gets the name, empty or not there yet.

    Raises:
        EncoderError: the written model gives other vectors.
    """
    backbone = encoder.backbone
    backbone.pretrained().save_pretrained(folder)
    pretrained_tokenizer(backbone.source.folder).save_pretrained(folder)
    settings = {
        "before": encoder.template.before,
        "after": encoder.template.after,
        "instruction": encoder.options.default_instruction,
        "steps": encoder.steps,
        "max_text_tokens": encoder.max_text_tokens,
        "start": backbone.tokenizer.start,
    }
    (folder / "gircse.json").write_text(json.dumps(settings, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    shutil.copyfile(gircse_loader.__file__, folder / LOADER)
    with torch.random.fork_rng():  # making a model draws its weights before they are read
        loaded = gircse_loader.Gircse(folder, str(backbone.device))
    check_probes(encoder, lambda texts, instruction: loaded.encode(texts, instruction).cpu().numpy())
    return Written(LOADER, _CARD.format(**card_facts(encoder, name), steps=encoder.steps))
