import threading
from dataclasses import replace

import numpy as np
import pytest
from app_fakes import MOOD, PRODUCT, REVIEWS, documents, load_encoder

from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app.clusterings import MOST_KEPT, ClusteringCache
from retriever_app.view_models.grouping import UNIT, Ask, Part


@pytest.fixture
def index(make):
    with Index(make(instructions=[PRODUCT]), encoder=load_encoder()) as opened:
        yield opened


@pytest.fixture
def kept():
    return ClusteringCache()


def run(kept, index, *asks, mapped=True):
    job = Job("Clustering")
    job.run(kept.work(index, asks, mapped=mapped))
    return job.snapshot()


def ids(drawn, part):
    return sorted(drawn.ids(part))


def test_what_was_worked_out_is_found_until_its_documents_change(kept, index):
    ask = Ask(PRODUCT, 3)
    assert kept.find(index, ask, mapped=True) is None
    assert run(kept, index, ask).status == "done"
    drawn = kept.find(index, ask, mapped=True)
    assert drawn.places.shape == (len(REVIEWS), 2)
    index.complete([MOOD])
    assert kept.find(index, ask, mapped=True) is drawn
    index.delete(["r1"])
    assert kept.find(index, ask, mapped=True) is None
    run(kept, index, ask)
    assert len(kept.find(index, ask, mapped=True).places) == len(REVIEWS) - 1


def test_a_clustering_without_its_map_gets_it_later(kept, index):
    ask = Ask(PRODUCT, 3)
    run(kept, index, ask, mapped=False)
    plain = kept.find(index, ask, mapped=False)
    assert plain.places is None
    assert kept.find(index, ask, mapped=True) is None
    run(kept, index, ask)
    assert kept.find(index, ask, mapped=True).found.assignments == plain.found.assignments


def test_a_part_is_clustered_alone(kept, index):
    part = Part(PRODUCT, 3, clusters=(0, 2))
    ask = Ask(MOOD, 2, within=(part,))
    run(kept, index, ask)
    outer, inner = kept.find(index, ask.parent, mapped=False), kept.find(index, ask, mapped=True)
    assert ids(outer, part) == ["r1", "r2", "r5", "r6"] == sorted(inner.found.assignments)
    assert len(index.lacking([MOOD])) == 2
    assert ids(inner, Part(clusters=(0,))) != ids(inner, Part(clusters=(1,)))


def test_a_part_goes_with_the_clustering_it_is_of(kept, index):
    ask = Ask("", 2, within=(Part(PRODUCT, 3, clusters=(0,)),))
    run(kept, index, ask)
    index.add(documents([{"id": "r0", "text": "Another kettle, another love."}]))
    assert kept.find(index, ask, mapped=True) is None
    run(kept, index, ask)
    assert sorted(kept.find(index, ask, mapped=True).found.assignments) == ["r0", "r1", "r2"]


def test_an_area_and_clusters_together_choose_what_is_in_both(kept, index):
    ask = Ask(PRODUCT, 3)
    run(kept, index, ask)
    drawn = kept.find(index, ask, mapped=True)
    assert len(drawn.rows(Part(area=(-11_000, -11_000, -11_000, 11_000, 11_000, 11_000, 11_000, -11_000)))) == len(
        REVIEWS
    )
    x, y = (round(float(one) * UNIT) for one in drawn.places[0])
    around = (x - 30, y - 30, x, y + 50, x + 30, y - 30)
    assert "r1" in ids(drawn, Part(area=around))
    assert "r1" in ids(drawn, Part(clusters=(0,), area=around))
    assert ids(drawn, Part(clusters=(1,), area=around)) == []


def test_what_a_dent_in_an_area_leaves_out_is_not_in_it(kept, index):
    ask = Ask(PRODUCT, 3)
    run(kept, index, ask)
    drawn = kept.find(index, ask, mapped=True)
    corner, dent, above, beside = [-0.9, -0.9], [0.0, 0.0], [-0.8, 0.3], [0.3, -0.8]
    placed = replace(drawn, places=np.array([corner, dent, above, beside, [2, 2], [0.9, 0.9]], np.float32))
    arrow = (-10_000, -10_000, -10_000, 10_000, -2000, -2000, 10_000, -10_000)
    assert sorted(placed.rows(Part(area=arrow)).tolist()) == [0, 2, 3]


def test_what_must_be_read_is_that_of_the_first_clustering_that_is_not_known(kept, index):
    part = Part(MOOD, 2, clusters=(0,))
    assert len(kept.lacking(index, [Ask("new", 2, within=(part,))])) == len(REVIEWS)
    assert len(kept.lacking(index, [Ask(PRODUCT), Ask(MOOD)])) == len(REVIEWS)
    assert len(kept.lacking(index, [Ask(MOOD, where="stars = 1")])) == 2
    run(kept, index, Ask(MOOD, 2))
    chosen = kept.find(index, Ask(MOOD, 2), mapped=True).ids(part)
    assert 0 < len(kept.lacking(index, [Ask("new", 2, within=(part,))])) == len(chosen) < len(REVIEWS)


def test_under_a_filter(kept, index):
    run(kept, index, Ask(PRODUCT, 1, "category = 'toys'"))
    assert sorted(kept.find(index, Ask(PRODUCT, 1, "category = 'toys'"), mapped=True).found.assignments) == ["r5", "r6"]


def test_only_the_last_ones_are_kept(kept, index):
    asks = [Ask(PRODUCT, groups, where) for groups in (1, 2, 3) for where in (None, "stars <= 3", "stars >= 1")]
    assert run(kept, index, *asks[:1]).error is None
    for ask in asks:
        run(kept, index, ask, mapped=False)
    assert len(asks) > MOST_KEPT
    assert kept.find(index, asks[0], mapped=False) is None
    assert kept.find(index, asks[-1], mapped=False) is not None


def test_progress_is_told_and_a_stopped_job_ends(make, kept):
    with Index(make(), encoder=load_encoder()) as index:
        job, told = Job("Clustering"), []
        tell = job.tell

        def note(progress):
            told.append(progress)
            tell(progress)
            if progress.share:
                job.stop()

        job.tell = note
        job.run(kept.work(index, [Ask(MOOD, 2)], mapped=True))
        assert job.snapshot().status == "stopped"
        assert 0 < told[-1].share < 1
        assert len(index.lacking([MOOD])) == len(REVIEWS)
        assert run(kept, index, Ask(MOOD, 2)).status == "done"


def test_a_second_clustering_waits_for_the_first_and_can_be_stopped_meanwhile(kept, index):
    kept._turn.acquire()
    job = Job("Clustering")
    thread = threading.Thread(target=job.run, args=(kept.work(index, [Ask(PRODUCT, 2)], mapped=True),))
    thread.start()
    assert job.wait_told(120).progress.doing == "Waiting for another clustering"
    assert not job.wait(0.3).over
    job.stop()
    assert job.wait(120).status == "stopped"
    thread.join()


def test_an_index_in_the_place_of_another_has_clusterings_of_its_own(kept, index, tmp_path):
    ask = Ask(PRODUCT, 3)
    run(kept, index, ask)
    with Index(tmp_path / "copied", encoder=load_encoder()) as other:
        other.add(documents(REVIEWS), instructions=[PRODUCT])
        assert kept.find(index, ask, mapped=True) is not None
        other.path = index.path
        assert kept.find(other, ask, mapped=True) is None
