"""Configure a fine-tuning: one settings object a section, defaults by method, a TOML file for what differs.

The file that is written beside a trained model can be given to the next run as it is.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

from retriever.core.errors import UsageError
from retriever.core.files import read_toml
from retriever.core.registry import nearest, resolve
from retriever.encoders.tokenize import MAX_TEXT_TOKENS
from retriever.training.adapters import AdapterSettings
from retriever.training.loop import LoopSettings
from retriever.training.methods import DEFAULT, METHODS, TrainingMethod, find_method
from retriever.training.negatives import MINING_MARGIN, Margin
from retriever.training.objectives.base import BatchSettings, ObjectiveSettings
from retriever.training.objectives.distillation import FusionSettings, SimilaritySettings
from retriever.training.settings import Count, Settings, problem

_T = TypeVar("_T")

LEAST_HELD_OUT = 40  # texts, where that is at most a quarter
MOST_HELD_OUT = 1000  # texts
_TENTH, _QUARTER = 0.1, 0.25
_VISITS = 1500  # rows read at least, over all epochs
_MOST_EPOCHS = 4

_MOST_BYTES = 32_768  # of a file of settings: brackets nested by the hundred thousand take minutes to refuse
_OPTIONAL = {"similarity": SimilaritySettings, "fusion": FusionSettings}


@dataclass(frozen=True, slots=True)
class DataSettings(Settings):
    """Settings of how rows are held out, cut and mined for negatives.

    Attributes:
        held_out: share of the texts kept out to measure with; None for a tenth, at least 40 texts where that is no
            more than a quarter of them, at most 1,000.
        seed: of everything that is drawn.
        max_text_tokens: texts are cut to this many tokens in training.
        margin: share of the positive's similarity above which a document of an index is taken for right, and is no
            hard negative.
    """

    held_out: Annotated[float, Field(gt=0, lt=1)] | None = None
    seed: Count = 0
    max_text_tokens: Annotated[int, Field(ge=1, le=MAX_TEXT_TOKENS)] = MAX_TEXT_TOKENS
    margin: Margin = MINING_MARGIN

    def share(self, texts: int) -> float:
        """Return the share of so many texts to keep out."""
        if self.held_out is not None:
            return self.held_out
        wanted = max(_TENTH, min(_QUARTER, LEAST_HELD_OUT / max(1, texts)))
        return min(wanted, MOST_HELD_OUT / max(1, texts))


@dataclass(frozen=True, slots=True)
class FinetuneConfig:
    """All that a fine-tuning is told.

    Attributes:
        adapter: what of the model is trained; a base that is trained already keeps its own.
        similarity: a general encoder's similarities, kept under the default instruction beside; None for none.
        fusion: a second stage that keeps the student between the new and the base model; None for none.
    """

    method: TrainingMethod
    objective: ObjectiveSettings
    adapter: AdapterSettings = field(default_factory=AdapterSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    data: DataSettings = field(default_factory=DataSettings)
    similarity: SimilaritySettings | None = None
    fusion: FusionSettings | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the settings by section, sections that are off left out."""
        names = [setting.name for setting in fields(self) if setting.name != "method"]
        given = {name: asdict(getattr(self, name)) for name in names if getattr(self, name) is not None}
        sections: dict[str, Any] = json.loads(json.dumps(given))
        return {"method": self.method.name, **sections}

    def to_toml(self) -> str:
        """Return the text of a file that `read_config` reads back as this very object."""
        sections = self.to_json()
        lines = [f"method = {json.dumps(sections.pop('method'))}"]
        for name, values in sections.items():
            lines += ["", f"[{name}]"]
            given = {key: value for key, value in values.items() if value is not None}
            lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in given.items()]
        return "\n".join(lines) + "\n"


def default_config(method: TrainingMethod, *, rows: int, continued: bool = False) -> FinetuneConfig:
    """Give a method's settings for so many training rows, or those for a base that is trained already.

    The learning rates are for LoRA; with ``kind = "layers"`` the papers' 5e-6 to 2e-5 fit better.
    """
    loop = LoopSettings(epochs=max(1, min(_MOST_EPOCHS, math.ceil(_VISITS / max(1, rows)))))
    config = FinetuneConfig(method, resolve(method.settings)(), loop=loop)
    for changes in (method.defaults, method.continued if continued else {}):
        for section, values in changes.items():
            default = getattr(config, section) or _OPTIONAL[section]()
            config = replace(config, **{section: replace(default, **values)})
    return config


def read_config(
    path: Path | None,
    method: str | None,
    *,
    rows: int,
    usual: str = DEFAULT,
    continued: Callable[[TrainingMethod], bool] = lambda _: False,
) -> FinetuneConfig:
    """Return the settings of a TOML file over the method's defaults.

    Args:
        path: sections ``[adapter] [loop] [batch] [objective] [data] [similarity] [fusion]`` and, above them,
            ``method``; None for the defaults alone.
        method: the name of how to train; None takes the file's, or the usual.
        rows: how many rows there are; small data gets more epochs by default.
        usual: the method where none is named.
        continued: whether what a method trains on is trained already.

    Raises:
        InputError: the file cannot be read, or is no TOML.
        UsageError: it names another method, or holds an unknown section or key or a value of the wrong type; file,
            section, key and the nearest known name are said.
    """
    given = {} if path is None else read_toml(path, "Write sections such as [loop].", largest=_MOST_BYTES)
    named = given.pop("method", None)
    if named is not None and str(named) not in METHODS:
        raise UsageError(f"{path}: the method {named!r} is not known.", hint=nearest(str(named), METHODS))
    if named is not None and method is not None and named != method:
        raise UsageError(f"{path} is for the method {named}, not {method}.", hint="Leave --method out, or the file's.")
    chosen = find_method(method or named or usual)
    config = default_config(chosen, rows=rows, continued=continued(chosen))
    known = [setting.name for setting in fields(config) if setting.name != "method"]
    for section, values in given.items():
        if section not in known:
            raise UsageError(f"{path}: there is no section [{section}].", hint=nearest(section, known))
        if not isinstance(values, Mapping):
            raise UsageError(f"{path}: {section} is a section, not a value.", hint=f"Write [{section}] above its keys.")
        default = getattr(config, section)
        kind = _OPTIONAL[section] if default is None else type(default)
        config = replace(config, **{section: _section(kind, default, values, f"{path}, [{section}]")})
    return config


def _section(kind: type[_T], default: _T | None, values: Mapping[str, Any], place: str) -> _T:
    """Return settings of a kind: the default's, or the kind's own, with some fields changed."""
    known = [setting.name for setting in fields(cast("Any", kind))]
    for key in values:
        if key not in known:
            raise UsageError(f"{place}: there is no key {key!r}.", hint=nearest(key, known))
    merged = {} if default is None else {name: getattr(default, name) for name in known}
    try:
        text = json.dumps({**merged, **values}, default=str)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists of thousands of levels
        raise UsageError(f"{place}: a value cannot be used: {error}.", hint="Correct the file.") from error
    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        key = str(next(iter(error.errors()[0]["loc"]), ""))
        raise UsageError(f"{place}: {problem(key, values.get(key), error)}", hint="Correct the file.") from error
    except UsageError as error:
        raise UsageError(f"{place}: {error.message}", hint=error.hint) from error
