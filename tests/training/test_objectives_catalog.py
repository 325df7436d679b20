import pytest
from objective_checks import BATCH, ROWS, learner

from retriever.core.errors import UsageError
from retriever.training.objectives.catalog import make_objective
from retriever.training.objectives.dicl import DiclObjective, DiclSettings
from retriever.training.objectives.gircse import GircseObjective, GircseSettings
from retriever.training.objectives.inbedder import InBedderObjective, InBedderSettings
from retriever.training.objectives.instemb import InstEmbObjective, InstEmbSettings
from retriever.training.pairs import HardNegatives

MINED = [HardNegatives(("a dull lamp",), ("a lamp",))] * len(ROWS)
METHODS = [
    (InstEmbSettings(), InstEmbObjective),
    (InBedderSettings(), InBedderObjective),
    (GircseSettings(steps=2), GircseObjective),
    (DiclSettings(), DiclObjective),
]


@pytest.mark.parametrize(("settings", "kind"), METHODS)
def test_settings_find_their_objective(tiny, settings, kind):
    one = learner(tiny("llama"), look_ahead=2)
    found, plain = make_objective(one, ROWS, settings, BATCH), kind(one, ROWS, settings, BATCH)
    assert type(found) is kind
    assert found.batches(1) == plain.batches(1)


@pytest.mark.parametrize("settings", [GircseSettings(steps=2), DiclSettings()])
def test_mined_negatives_are_handed_on(tiny, settings):
    one = learner(tiny("llama"))
    apart = [
        make_objective(one, ROWS, settings, BATCH, mined=mined).backward([0, 1])["loss"] for mined in (None, MINED)
    ]
    assert abs(apart[0] - apart[1]) > 1e-3


@pytest.mark.parametrize("settings", [InstEmbSettings(), InBedderSettings()])
def test_mined_negatives_are_refused_where_nothing_uses_them(tiny, settings):
    with pytest.raises(UsageError, match="no hard negatives"):
        make_objective(learner(tiny("llama"), look_ahead=2), ROWS, settings, BATCH, mined=MINED)
