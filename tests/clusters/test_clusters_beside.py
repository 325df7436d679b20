from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from retriever.clusters import beside
from retriever.clusters.arithmetic.joining import ALIKE, CONTENT, TOPIC, base_weight, joined
from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.clusters.beside import clustered_by
from retriever.clusters.material import Material
from retriever.core.similarity import normalise
from retriever.core.types import Document

GROUPS = np.repeat(np.arange(4), 25)


def view(groups, noise, seed, dim=24):
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(groups.max() + 1, dim))
    return normalise(centres[groups] + noise * draw.normal(size=(len(groups), dim))).astype(np.float32)


def test_views_that_group_texts_alike_are_joined_and_others_are_not():
    question, base, other = view(GROUPS, 0.9, 0), view(GROUPS, 0.9, 1), view(np.tile(np.arange(4), 25), 0.9, 2)
    assert base_weight(question, base, asks_topic=False) == CONTENT
    assert base_weight(question, base, asks_topic=True) == TOPIC
    assert base_weight(question, other, asks_topic=True) == 0
    assert 0 < ALIKE < 1


def test_two_noisy_views_of_the_same_groups_part_them_better_together():
    question, base = view(GROUPS, 2.2, 0), view(GROUPS, 2.2, 1)
    alone, together = spherical_kmeans(question, 4), spherical_kmeans(joined(question, base, 1.5), 4)
    assert adjusted_rand_score(GROUPS, together.labels) > adjusted_rand_score(GROUPS, alone.labels) + 0.1


@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0])
def test_squared_distances_count_each_view_in_units_of_its_spread(weight):
    question, base = view(GROUPS, 0.3, 0), view(GROUPS, 2.0, 1, dim=9)
    rows = joined(question, base, weight)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    spreads = [np.square(part - part.mean(axis=0)).sum(axis=1).mean() for part in np.split(rows, [24], axis=1)]
    assert spreads[1] / spreads[0] == pytest.approx(weight**2, rel=1e-4)


class Shown:
    evidence, view_id = True, 1

    def __init__(self, *, reads):
        self.reads = reads


def test_only_what_an_encoder_reads_under_a_question_is_joined_where_the_base_view_has_every_row(monkeypatch):
    rows, base = view(GROUPS, 0.9, 0), view(GROUPS, 0.9, 1)
    material = Material([], rows, [[] for _ in rows])
    monkeypatch.setattr(beside, "stored_judgement", lambda *_: None)
    monkeypatch.setattr(beside, "_base", lambda *_: base)
    assert np.array_equal(clustered_by(None, Shown(reads=True), material), joined(rows, base, CONTENT))
    assert clustered_by(None, Shown(reads=False), material) is rows
    monkeypatch.setattr(beside, "_base", lambda *_: None)
    assert clustered_by(None, Shown(reads=True), material) is rows


def test_the_base_view_is_read_row_by_row_and_not_at_all_where_it_lacks_one(index):
    index.add([Document(f"d{row}", text) for row, text in enumerate(("kettle good", "toy bad", "kettle good"))])
    material = index.cluster(k=1).material
    found = beside._base(index._opened.store, material)
    assert np.array_equal(found, material.vectors)
    assert material.contents[0] == material.contents[2] != material.contents[1]
    assert beside._base(index._opened.store, replace(material, contents=[*material.contents[:2], 10**9])) is None
