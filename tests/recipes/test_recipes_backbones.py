import json
from dataclasses import replace
from pathlib import Path

import finetune_fakes as fakes
import numpy as np
import pytest
from backbone_costs import SHAPES

from retriever import load_encoder
from retriever.evaluation.general import GeneralScore
from retriever.evaluation.scores import mean_score
from retriever.training.config import read_config
from retriever.training.run import finetuning
from retriever.training.run.finetuning import FinetuneRequest, finetune

RECIPES = Path(__file__).parents[2] / "recipes"
TINY = {"smollm2-360m": "llama", "smollm2-1.7b": "llama", "qwen3-0.6b": "qwen3", "modernbert-base": "modernbert"}
STEPS = 3


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No general set and no picture, whose tests stand elsewhere."""
    found = mean_score("general", "mean", np.full(9, 70.0), seed=0)
    monkeypatch.setattr(finetuning, "general_score", lambda encoder, *, seed=0: GeneralScore(found, found, found))
    monkeypatch.setattr(finetuning, "draw_curves", lambda path, *data: path.write_text(""))


def recipe(name):
    return read_config(RECIPES / f"{name}.toml", None, rows=50_000)


def test_every_backbone_that_is_costed_has_a_recipe():
    assert {shape.name for shape in SHAPES} == {"default", *TINY}
    for name in TINY:
        recipe(name)


@pytest.mark.parametrize("name", TINY)
def test_a_recipe_names_its_backbone(name):
    [hub] = [shape.hub for shape in SHAPES if shape.name == name]
    method = recipe(name).method.name
    assert (
        f"--config recipes/{name}.toml --output models/{name} \\\n#     --base {method}:{hub}\n"
        in (RECIPES / f"{name}.toml").read_text()
    )


@pytest.mark.parametrize("name", TINY)
def test_a_recipe_trains_a_model_of_its_architecture(name, tiny, tmp_path):
    config = recipe(name)
    config = replace(config, loop=replace(config.loop, max_steps=STEPS), data=replace(config.data, held_out=0.3))
    if config.similarity is not None:
        config = replace(config, similarity=replace(config.similarity, teacher=f"plain:{tiny('llama')}"))
    (tmp_path / "tune.toml").write_text(config.to_toml())
    base = f"{config.method.name}:{tiny(TINY[name])}"
    request = FinetuneRequest(
        [fakes.write(tmp_path / "qa.jsonl", fakes.rows(54))], tmp_path / "out", base=base,
        config=tmp_path / "tune.toml", promote=False, device="cpu", dtype="float32", epochs=4,
    )  # fmt: skip
    report = finetune(request)
    assert (report.status, report.step) == ("finished", STEPS)
    assert report.judgement.proof.to_base > 10 * report.judgement.proof.to_trained
    losses = (tmp_path / "out" / f"{config.method.name}-losses.jsonl").read_text().splitlines()
    assert all(np.isfinite(json.loads(line)["loss"]) for line in losses)

    encoder = load_encoder(str(tmp_path / "out"), device="cpu", dtype="float32")
    encoded = encoder.encode_with_words(["the red kettle broke", "a blue lamp"], instruction=fakes.PRODUCT)
    assert np.linalg.norm(encoded.embeddings, axis=1) == pytest.approx(1, abs=1e-5)
    alone = encoder.encode(["a blue lamp"], instruction=fakes.PRODUCT)
    assert alone[0] == pytest.approx(encoded.embeddings[1], abs=1e-5)
    assert np.abs(encoded.embeddings[0] - encoded.embeddings[1]).max() > 1e-3
