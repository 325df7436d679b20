"""A line in the log and an id for every request, and whether the server is ready."""

import logging
import re
import shutil

import pytest
from api_fakes import READER, TOKENS, WRITER, refused
from index_fakes import PRODUCT
from test_api_connections import until

from retriever.api.service import Service

EMBED = "/v1/embeddings"
LINE = re.compile(r"^([A-Za-z0-9._-]+) ([A-Z]+) (\S+) (\d{3}|-) \d+\.\d ms (\d+) bytes$")


@pytest.fixture
def logged(caplog):
    """The lines of the access log so far, taken apart."""
    caplog.set_level(logging.INFO, "retriever.access")

    def read():
        lines = [record.getMessage() for record in caplog.records if record.name == "retriever.access"]
        return [LINE.match(line).groups() for line in lines]

    return read


def until_logged(logged, count):
    """The lines, once there are so many: a line is written when its answer is already on its way."""
    until(lambda: len(logged()) >= count)
    return logged()


def test_a_request_has_an_id_in_its_answer_and_a_line_in_the_log(serve, make, logged):
    make()
    server = serve()
    found = server.post(EMBED, {"input": "a kettle"})
    id = found.headers["X-Request-ID"]
    assert re.fullmatch(r"[0-9a-f]{16}", id)
    assert until_logged(logged, 1) == [(id, "POST", EMBED, "200", str(len(found.content)))]
    assert server.get("/v1/models").headers["X-Request-ID"] != id


def test_a_plain_id_of_the_client_is_taken_and_no_other(serve, logged):
    server = serve()
    plain = ("5f2c-9a7e", "a.b_c", "x" * 64)
    odd = ("", "x" * 65, "two words", "a\tb", "a;b", "<b>", "é".encode().decode("latin-1"))
    for given in (*plain, *odd):
        found = server.http.get("/health", headers={"X-Request-ID": given.encode("latin-1")})
        assert (found.headers["X-Request-ID"] == given) is (given in plain)
    assert [line[0] for line in until_logged(logged, len(plain + odd))][: len(plain)] == list(plain)


def test_an_error_names_the_request_as_the_log_does(serve, logged, caplog, monkeypatch):
    server = serve()
    for response in (server.get("/indexes/none"), server.get("/none"), server.post(EMBED, {}), server.http.put(EMBED)):
        assert response.status_code >= 400
        assert response.json()["error"]["request_id"] == response.headers["X-Request-ID"]

    def fail(_):
        raise OSError("no room")

    monkeypatch.setattr(Service, "names", fail)
    failed = server.get("/indexes")
    assert refused(failed, 500, "unexpected")
    assert f"Request {failed.headers['X-Request-ID']} failed" in caplog.text


def test_requests_that_the_gate_refuses_are_logged_too(serve, logged):
    server = serve(tokens=TOKENS)
    refusal = server.get("/v1/models")
    assert refusal.json()["error"]["request_id"] == refusal.headers["X-Request-ID"]
    assert until_logged(logged, 1)[0][1:4] == ("GET", "/v1/models", "401")


def test_the_log_holds_no_query_no_text_and_no_token(serve, make, logged, caplog):
    make()
    server = serve(tokens=TOKENS)
    secret = "secretkettle"
    server.post("/indexes/reviews/search", {"query": secret}, token=READER, params={"wait": 1, "x": secret})
    server.get("/indexes/reviews/documents", token=WRITER, params={"id": secret})
    server.get("/indexes/reviews/answers", token=READER, params={"instruction": f"{secret}?"})
    server.post(EMBED, {"input": secret, "instruction": PRODUCT}, token=READER)
    lines = until_logged(logged, 4)
    assert [line[2] for line in lines] == [
        *(f"/indexes/reviews/{part}" for part in ("search", "documents", "answers")),
        EMBED,
    ]
    for word in (secret, READER, WRITER, "product", "?"):
        assert word not in "\n".join(" ".join(line) for line in lines)
    assert secret not in caplog.text


def test_no_path_breaks_a_line_or_fills_the_log(serve, logged):
    server = serve()
    server.get("/a%0AINFO%20forged%1b[31m")
    server.get(f"/{'x' * 5000}")
    forged, long = until_logged(logged, 2)
    assert forged[2] == "/a%0AINFO%20forged%1b[31m"
    assert len(long[2]) == 200


def test_answers_that_come_in_pieces_are_logged_whole(serve, make, logged):
    make()
    body = {"query": "kettle", "stream": True}
    found = serve().post("/indexes/reviews/search", body)
    assert until_logged(logged, 1)[0][3:] == ("200", str(len(found.content)))


def test_a_server_is_ready_while_its_folder_can_be_read(serve, make, indexes):
    server = serve(tokens=TOKENS)
    assert server.get("/ready").json() == {"status": "ready"}  # without a token, and without an index
    make()
    assert server.get("/ready").status_code == 200
    shutil.rmtree(indexes)
    response = server.get("/ready")
    assert refused(response, 503, "not_ready", "not there, or cannot be read")
    assert str(indexes) not in response.text
    assert server.lives()
    indexes.mkdir()
    assert server.get("/ready").status_code == 200


def test_a_server_of_one_index_is_ready_while_that_is_there(serve, make):
    folder = make()
    server = serve(index=folder)
    assert server.get("/ready").status_code == 200
    shutil.rmtree(folder)
    assert refused(server.get("/ready"), 503, "not_ready", "The index is not there any more.")


def test_a_server_that_stops_lives_and_is_not_ready(serve):
    server = serve()
    server.service.close()
    assert refused(server.get("/ready"), 503, "not_ready", "is stopping")
    assert server.lives()
