import hmac
import socket

import pytest
from api_fakes import READER, TOKENS, WAIT, WRITER, refused

from retriever.api.settings import ServerSettings, Tokens, read_instructions, read_tokens
from retriever.core.errors import InputError, UsageError

EMBED = "/v1/embeddings"


def test_without_a_token_nothing_is_told_of_what_is_served(serve):
    server = serve(tokens=TOKENS)
    for path in ("/v1/models", "/metrics", "/no-such-path"):
        missing = server.get(path)
        assert refused(missing, 401, "unauthorized", "The token is missing.", "Authorization: Bearer TOKEN")
        assert missing.headers["WWW-Authenticate"] == "Bearer"
        assert refused(server.get(path, token="wrong"), 401, "unauthorized", "The token is wrong.")
    assert refused(server.post(EMBED, {"input": "a"}, token=f"{READER}x"), 401, "unauthorized")
    assert refused(server.http.get("/v1/models", headers={"Authorization": f"Basic {READER}"}), 401, "unauthorized")
    for token in (READER, WRITER):
        assert server.get("/v1/models", token=token).status_code == 200
        assert server.post(EMBED, {"input": "a"}, token=token).status_code == 200
    assert server.lives()
    assert server.get("/docs").status_code == server.get("/openapi.json").status_code == 200


def test_who_has_no_token_cannot_fill_memory(serve):
    server = serve(tokens=TOKENS)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=WAIT) as connection:
        head = f"POST {EMBED} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"
        connection.sendall(head.encode())  # and no body
        assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")


def test_without_a_token_other_names_for_this_machine_are_refused(serve):
    server = serve()
    for host in ("evil.example", "evil.example:8600", "127.0.0.1.evil.example", "", "10.0.0.1"):
        assert refused(server.http.get("/v1/models", headers={"Host": host}), 403, "forbidden", "not this machine")
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:80", "[::1]", "127.9.9.9"):
        assert server.http.get("/v1/models", headers={"Host": host}).status_code == 200


def test_with_a_token_a_proxy_may_call_the_server_what_it_likes(serve):
    headers = {"Host": "vectors.example", "Authorization": f"Bearer {READER}"}
    assert serve(tokens=TOKENS).http.get("/v1/models", headers=headers).status_code == 200


def test_a_body_beyond_the_limit_is_refused_however_it_is_sent(serve):
    server = serve(body_bytes=1000)
    large = b'{"input": "' + b"x" * 5_000_000 + b'"}'
    kind = {"Content-Type": "application/json"}
    assert refused(server.http.post(EMBED, content=large, headers=kind), 413, "body_too_large", "1000 bytes")
    pieces = (large[start : start + 60_000] for start in range(0, len(large), 60_000))
    assert refused(server.http.post(EMBED, content=pieces, headers=kind), 413, "body_too_large")
    assert server.post(EMBED, {"input": "x" * 900}).status_code == 200


def test_browsers_cannot_send_json_without_asking(serve):
    server = serve()
    plain = server.http.post(EMBED, content=b'{"input": "a"}', headers={"Content-Type": "text/plain"})
    assert refused(plain, 400, "invalid_request")
    assert refused(server.http.post(EMBED, content=b'{"input": "a"}'), 400, "invalid_request")  # of no kind at all
    asked = server.http.options(
        EMBED, headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    )
    assert asked.status_code == 405
    assert "access-control-allow-origin" not in asked.headers


def test_what_is_not_there_is_said_as_every_error(serve):
    server = serve()
    for path in ("/", "/v1", "/v1/embeddings/", "/indexes/../etc"):
        assert refused(server.get(path), 404, "not_found")
    found = server.get(EMBED)
    assert found.status_code == 405
    assert found.json()["error"]["message"].startswith("This address takes another method.")
    assert found.headers["Allow"] == "POST"


def test_elsewhere_than_on_this_machine_a_token_is_needed(tmp_path):
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        with pytest.raises(UsageError, match=r"there is no token.*--token-file"):
            ServerSettings(tmp_path, host, tokens=Tokens(writer=WRITER))
        assert not ServerSettings(tmp_path, host, tokens=TOKENS).local
    for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        assert ServerSettings(tmp_path, host).local


@pytest.mark.parametrize("token", ["short", "x" * 15, "with a space in it", "ünicode-unicode-unicode", ""])
def test_a_token_that_cannot_be_one_is_refused(token):
    with pytest.raises(UsageError, match="too short"):
        Tokens(token)


def test_tokens_come_from_files_or_the_environment_and_are_never_shown(tmp_path, monkeypatch):
    (tmp_path / "reader").write_text(f"{READER}\n")
    monkeypatch.setenv("RETRIEVER_WRITER_TOKEN", WRITER)
    monkeypatch.setenv("RETRIEVER_TOKEN", "x" * 20)
    assert read_tokens(tmp_path / "reader", None) == TOKENS
    assert READER not in repr(TOKENS)
    assert WRITER not in repr(TOKENS)
    with pytest.raises(InputError, match="gone cannot be read"):
        read_tokens(tmp_path / "gone", None)


def test_saved_instructions_are_lines_of_toml(tmp_path):
    file = tmp_path / "instructions.toml"
    file.write_text('product = "What is it?"\nmood-2 = "How do they feel?"\n')
    assert read_instructions(file) == {"product": "What is it?", "mood-2": "How do they feel?"}
    for text, said in (
        ("a = 1", "a is no instruction"),
        ('"a@b" = "x"', "cannot be the name"),
        ("a\n", r"instructions\.toml is no TOML.*line 1"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=said):
            read_instructions(file)


def test_tokens_are_compared_whole_and_in_constant_time(monkeypatch):
    compared, real = [], hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: compared.append(one) or real(one, other))
    assert TOKENS.may_read(READER) and TOKENS.may_read(WRITER) and TOKENS.may_write(WRITER)
    assert not (
        TOKENS.may_write(READER) or TOKENS.may_read(READER[:-1]) or TOKENS.may_read("ü") or TOKENS.may_read(None)
    )
    assert compared == [
        one.encode() for one in (READER, WRITER, WRITER, WRITER, READER, READER[:-1], READER[:-1], "ü", "ü")
    ]
    assert not Tokens(READER).may_write(READER)
    assert not Tokens().may_write(None)
