import json
import re
from dataclasses import replace

import pytest
from index_fakes import PRODUCT

from retriever.clusters.map import map_places, write_map
from retriever.core.errors import OutputError
from retriever.core.types import Document
from retriever.core.verdicts import Verdict

HOSTILE = "</script><script>alert(1)</script> <!-- {{ script }} & \u2028 toy $x_1^2$"


@pytest.fixture
def clustered(index):
    plain = [Document(f"{word}-{number}", f"{word} {'x' * number}") for word in ("toy", "lamp") for number in range(6)]
    index.add([*plain, Document("bad", HOSTILE, {"who": "<img src=x onerror=alert(2)>", "n": 1})])
    return index.cluster(PRODUCT, k=2)


def page_data(page):
    (found,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def test_the_page_holds_every_document_and_cluster(clustered, tmp_path):
    write_map(tmp_path / "map.html", clustered, map_places(clustered))
    data = page_data((tmp_path / "map.html").read_text())
    assert data["title"] == PRODUCT
    assert [(one["label"], one["size"]) for one in data["clusters"]] == [("1 toy", 7), ("2 lamp", 6)]
    points = {one["id"]: one for one in data["points"]}
    assert {id: one["cluster"] for id, one in points.items()} == clustered.assignments
    assert points["toy-3"]["words"] == ["toy"]
    assert points["bad"]["fields"] == {"who": "<img src=x onerror=alert(2)>", "n": "1"}
    assert points["bad"]["text"] == HOSTILE
    assert all(abs(one["x"]) <= 1 and abs(one["y"]) <= 1 for one in data["points"])


def test_a_map_of_a_question_that_is_not_followed_says_what_its_clusters_are(clustered, tmp_path):
    write_map(tmp_path / "map.html", clustered, map_places(clustered))
    assert page_data((tmp_path / "map.html").read_text())["caution"] == ""
    unfollowed = replace(clustered, verdict=Verdict(PRODUCT, "not followed", 0.1, 40, [], True))
    write_map(tmp_path / "map.html", unfollowed, map_places(unfollowed))
    page = (tmp_path / "map.html").read_text()
    said = page_data(page)["caution"]
    assert said.startswith("This model")
    assert said.endswith("These are groups of similar texts; they need not answer the question.")
    assert '<p id="caution" role="note" hidden>' in page
    assert 'find("caution").textContent = data.caution' in page


def test_what_the_page_leaves_out_is_marked(index, tmp_path):
    whole, long = "toy" + 997 * "x", "toy" + 998 * "x"
    fields = {f"field {number}": number for number in range(11)}
    index.add([Document("whole", whole, {"field 0": 0}), Document("long", long, fields), Document("lamp", "lamp")])
    found = index.cluster(PRODUCT, k=2)
    write_map(tmp_path / "map.html", found, map_places(found))
    page = (tmp_path / "map.html").read_text()
    points = {one["id"]: one for one in page_data(page)["points"]}
    assert points["whole"]["text"] == whole
    assert points["long"]["text"] == f"{whole}…"
    assert {id: (len(one["fields"]), one["left_out"]) for id, one in points.items()} == {
        "whole": (1, 0),
        "long": (8, 3),
        "lamp": (0, 0),
    }
    assert "`${point.left_out} more fields`" in page


def test_hostile_text_ends_no_element_and_only_the_one_script_may_run(clustered, tmp_path):
    write_map(tmp_path / "map.html", clustered, map_places(clustered))
    page = (tmp_path / "map.html").read_text()
    assert page.count("<script") == page.count("</script") == 2
    assert "<img" not in page
    assert re.search(r"default-src 'none'; script-src 'sha256-[\w+/=]{44}'; style-src 'unsafe-inline'\"", page)
    assert "http" not in page.replace("http-equiv", "")
    assert not re.search("innerHTML|insertAdjacentHTML|document.write|eval", page)


def test_the_same_clustering_gives_the_same_page(clustered, tmp_path):
    write_map(tmp_path / "a.html", clustered, map_places(clustered))
    write_map(tmp_path / "b.html", clustered, map_places(clustered))
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_file_that_cannot_be_written_says_so(clustered, tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        write_map(tmp_path / "gone" / "map.html", clustered, map_places(clustered))
