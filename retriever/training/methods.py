"""The training methods, a record each: a new one is a file with its settings and its objective, and a row here.

Importing this module loads no model code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from retriever.core.errors import UsageError
from retriever.core.registry import nearest, resolve

if TYPE_CHECKING:
    from retriever.core.protocols import Encoder
    from retriever.training.objectives.base import BatchSettings, Learner, Objective, ObjectiveSettings
    from retriever.training.pairs import HardNegatives
    from retriever.training.rows import TrainingRow
    from retriever.training.sentence import SentenceLearner

DEFAULT = "instructor"
"""The method where neither a method nor a base is named."""

LANGUAGE = "instemb"
"""The method where the base that is named is a language model."""

MinedRows = Literal["none", "all", "positives"]
"""Which rows learn from hard negatives of an index: none, all, or those with positives."""

Sections = Mapping[str, Mapping[str, Any]]
"""Settings by section and key, as a file of settings has them."""


@dataclass(frozen=True, slots=True)
class TrainingMethod:
    """All that a fine-tuning knows of how an encoder is trained.

    Attributes:
        objective: ``module:attribute`` of what is learned, made as `make_objective` does.
        settings: ``module:attribute`` of the objective's `ObjectiveSettings`.
        encoder: method of the encoder that comes out; None for the one that reads as the base does, which is InstEmb
            with look-ahead tokens and InBedder without.
        base: what is trained on unless the user says.
        look_ahead: whether look-ahead tokens are trained, as many as the settings or the base have.
        sentence: whether a sentence encoder is trained, and no language model.
        mined: which rows take hard negatives from an index.
        defaults: settings that differ from the sections' own.
        continued: those that differ beside where the base is trained already.
    """

    name: str
    objective: str
    settings: str
    encoder: str | None
    base: str = "default"
    look_ahead: bool = False
    masked: bool = False
    sentence: bool = False
    mined: MinedRows = "none"
    defaults: Sections = field(default_factory=dict, repr=False, hash=False)
    continued: Sections = field(default_factory=dict, repr=False, hash=False)

    def make_objective(
        self,
        learner: "Learner | SentenceLearner",
        rows: "Sequence[TrainingRow]",
        settings: "ObjectiveSettings",
        batch: "BatchSettings",
        *,
        mined: "Sequence[HardNegatives] | None" = None,
        teacher: "Encoder | None" = None,
    ) -> "Objective":
        """Make the method's objective over rows to learn from.

        ``mined`` are hard negatives of every row, ``teacher`` is the encoder that the settings name, where they name
        one.

        Raises:
            UsageError: the method has no use for this model.
        """
        beside = {"mined": mined, "teacher": teacher}
        given = {name: value for name, value in beside.items() if value is not None}
        made: Objective = resolve(self.objective)(learner, rows, settings, batch, **given)
        return made


_OBJECTIVES = "retriever.training.objectives"

_ROWS = (
    TrainingMethod(
        "instructor",
        objective=f"{_OBJECTIVES}.instructor:InstructorObjective",
        settings=f"{_OBJECTIVES}.instructor:InstructorSettings",
        encoder="instructor",
        sentence=True,
        defaults={
            "adapter": {"rank": 32, "alpha": 32},
            "batch": {"texts": 56, "held_tokens": 16384},
            "loop": {"learning_rate": 1.5e-3, "warmup": 0.05},
        },
        continued={"loop": {"learning_rate": 5e-4}},
    ),
    TrainingMethod(
        "instemb",
        objective=f"{_OBJECTIVES}.instemb:InstEmbObjective",
        settings=f"{_OBJECTIVES}.instemb:InstEmbSettings",
        encoder="instemb",
        base="instemb",
        look_ahead=True,
        # Two passes a row fewer than the paper's, and contrast over the vectors that inference gives.
        defaults={
            "objective": {"distillation": ("ce",), "views": ("answer",), "compared": "daap", "form": "outside"},
            "adapter": {"look_ahead": 2},
            "loop": {"learning_rate": 5e-4},
        },
        # A trained model learns more slowly and keeps its own similarities beside, so that plain search stays good.
        continued={
            "loop": {"learning_rate": 2e-4},
            "similarity": {"teacher": "base", "weight": 100.0, "texts": 16},
        },
    ),
    TrainingMethod(
        "gircse",
        objective=f"{_OBJECTIVES}.gircse:GircseObjective",
        settings=f"{_OBJECTIVES}.gircse:GircseSettings",
        encoder="gircse",
        base="gircse",
        mined="all",
        defaults={"batch": {"texts": 8}},
    ),
    TrainingMethod(
        "inbedder",
        objective=f"{_OBJECTIVES}.inbedder:InBedderObjective",
        settings=f"{_OBJECTIVES}.inbedder:InBedderSettings",
        encoder="inbedder",
        base="inbedder",
        masked=True,
        defaults={"loop": {"learning_rate": 2e-4}},
    ),
    TrainingMethod(
        "dicl",
        objective=f"{_OBJECTIVES}.dicl:DiclObjective",
        settings=f"{_OBJECTIVES}.dicl:DiclSettings",
        encoder=None,
        base="instemb",
        look_ahead=True,
        mined="positives",
        defaults={"batch": {"texts": 8}},
    ),
)

METHODS: Mapping[str, TrainingMethod] = {method.name: method for method in _ROWS}


def find_method(name: str) -> TrainingMethod:
    """Look a method up by its name.

    Raises:
        UsageError: there is no such method; the nearest known one is named.
    """
    if name not in METHODS:
        raise UsageError(f"The method {name!r} is not known.", hint=nearest(name, METHODS))
    return METHODS[name]
