import json
import logging
import signal
import threading
import time
from types import SimpleNamespace

import anyio
import httpx
import pytest
from model_server import Refusal
from replay_server import Model, asked, completion, first_word, forget_endpoints, serving

from retriever.core.errors import EncoderError, UsageError
from retriever.encoders.answers import exchange, patience
from retriever.encoders.answers.answerer import Answer, Unread, Waiting, explained
from retriever.encoders.answers.chat import PROBES, ChatAnswerer
from retriever.encoders.answers.endpoint import Abilities
from retriever.encoders.answers.loading import load_answerer
from retriever.encoders.answers.places import find_place
from retriever.encoders.answers.questions import AnswersCall
from retriever.encoders.answers.refusals import TOKENS_A_MINUTE, unreachable
from retriever.encoders.answers.remembered import FILE
from retriever.encoders.answers.wire import Format, estimated_tokens

KEY = "sk-very-secret-key"
WORDS = ["kettle", "lamp", "knife", "toy", "dog"]
TEXTS = [f"{WORDS[n % 5]} number {n}" for n in range(20)]
RIGHT = [WORDS[n % 5] for n in range(20)]
READY = Abilities(settled=True)
ALONE = Abilities(settled=True, texts_per_call=1)


@pytest.fixture
def model(monkeypatch):
    """Give a model behind a real server, which `OPENAI_BASE_URL` names, and calls that wait for a moment alone."""
    made = Model()
    monkeypatch.setattr(patience, "BACKOFF", (0.001, 0.01))
    with serving(made) as url:
        made.url = url
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield made


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Give the user's own folder."""
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path))
    return tmp_path


@pytest.fixture
def sentences(monkeypatch):
    """Give the list of what a person is told of waiting."""
    heard = []
    monkeypatch.setattr(Waiting, "on_wait", heard.append)
    return heard


def reader(**settings):
    return ChatAnswerer("chat:org/tiny:1b", **settings)


def answers_of(change):
    """Make a fault of a function over the items of a reply."""

    def fault(made, request):
        message = made["choices"][0]["message"]
        message["content"] = json.dumps({"answers": change(json.loads(message["content"])["answers"])})
        return made

    return fault


def always(made):
    return lambda *_: made


def waits_for(event, then=None):
    """Make a fault that comes once an event is set, which no test lets wait for long."""

    def fault(made, request):
        assert event.wait(60)
        return then or made

    return fault


def test_texts_go_in_calls_of_six_and_come_back_in_their_places(model):
    kept = []
    answered = reader().answer(TEXTS, "what?", keep=kept.append)
    assert answered.answers == RIGHT
    assert answered.failures == {}
    assert sorted(map(len, model.calls)) == [2, 6, 6, 6]
    assert sorted(text for call in model.calls for text in call) == sorted(TEXTS)
    assert {each for answers in kept for each in answers} == {Answer(row, answer) for row, answer in enumerate(RIGHT)}
    assert len(kept) == 4
    first = model.requests[0]
    assert first["model"] == "org/tiny:1b" and first["temperature"] == 0
    assert first["response_format"]["json_schema"]["strict"] is True
    assert first["max_tokens"] <= 1000


def test_nothing_to_ask_asks_nothing(model):
    assert reader().answer([], "what?").answers == []
    assert model.requests == []
    with pytest.raises(UsageError, match="blank"):
        reader().answer(TEXTS, " ")
    with pytest.raises(UsageError, match="not one string"):
        reader().answer("text", "what?")


def test_the_first_call_goes_alone_and_eight_more_at_once(model):
    one = reader()
    one.answer(TEXTS[:12], "what?")
    assert model.most_in_flight == 1
    full = threading.Event()

    def fault(made, request):
        if model.in_flight == 8:
            full.set()
        return waits_for(full)(made, request)

    model.always = fault
    one.answer([f"{WORDS[n % 5]} item {n}" for n in range(120)], "what?")
    assert model.most_in_flight == 8


@pytest.mark.parametrize(
    ("refused", "learned"),
    [
        ([], {}),
        (["minItems"], {"form": Format.SCHEMA}),
        (["json_schema"], {"form": Format.OBJECT}),
        (["json_schema", "json_object"], {"form": Format.LINES}),
        (["max_tokens"], {"token_limit": "max_completion_tokens"}),
        (["system"], {"system": False}),
        (
            ["temperature", "json_schema", "max_tokens"],
            {"form": Format.OBJECT, "token_limit": "max_completion_tokens", "temperature": False},
        ),
    ],
    ids=str,
)
def test_the_ladder_is_tried_once_and_remembered_by_the_next_command(model, own_folder, refused, learned):
    model.refuses = set(refused)
    one = reader()
    assert one.answer(TEXTS, "what?").answers == RIGHT
    assert one.abilities == Abilities(settled=True, **learned)
    assert len(model.requests) == 4 + len(refused)
    forget_endpoints()  # as another process begins
    assert reader().answer(TEXTS, "what?").answers == RIGHT
    assert len(model.requests) == 8 + len(refused)
    if "system" in refused:
        (only,) = model.requests[-1]["messages"]
        assert only["role"] == "user" and only["content"].startswith("You read texts")


def test_all_objects_of_a_process_share_what_is_learned(model):
    model.refuses = {"json_schema"}
    reader().answer(TEXTS[:5], "what?")
    assert reader().answer(TEXTS[:5], "who?").answers == RIGHT[:5]
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    "written", ["{", "[]", '{"URL#org/tiny:1b": {"abilities": {"form": "rhyme"}, "on": "2999-01-01"}}']
)
def test_a_damaged_memory_of_endpoints_is_ignored(model, own_folder, written):
    (own_folder / FILE).write_text(written.replace("URL", model.url))
    assert reader().answer(TEXTS[:5], "what?").answers == RIGHT[:5]
    assert json.loads((own_folder / FILE).read_text()).keys() >= {f"{model.url}#org/tiny:1b"}


def test_a_memory_that_is_wrong_heals(model, own_folder):
    model.refuses = {"json_schema", "max_tokens"}
    assert reader().answer(TEXTS[:5], "what?").answers == RIGHT[:5]
    model.refuses = {"json_object", "max_completion_tokens"}
    forget_endpoints()
    one = reader()
    assert one.abilities.form is Format.OBJECT
    assert one.answer(TEXTS[:5], "what?").answers == RIGHT[:5]
    assert one.abilities == READY


@pytest.mark.parametrize(
    "made",
    [completion("Sure! " * 9), completion(" \n" * 500, finish="length"), completion("")],
    ids=["prose", "whitespace", "empty"],
)
def test_a_server_that_accepts_a_form_and_does_not_keep_it_is_asked_a_rung_lower(model, made):
    model.always = lambda good, request: made if "response_format" in request else good
    one = reader()
    assert one.answer(TEXTS, "what?").answers == RIGHT
    assert one.abilities.form is Format.LINES
    assert len(model.requests) == 7


def test_a_cut_reply_costs_no_rung_and_two_do(model):
    cut = completion('{"answers": [{"id": "1", "ans', finish="length")
    model.then.append(always(cut))
    one = reader()
    assert one.answer(TEXTS, "what?").answers == RIGHT
    assert one.abilities == READY
    forget_endpoints()
    model.always = lambda good, request: cut if "json_schema" in str(request) else good
    one = reader()
    assert one.answer(TEXTS, "what?").answers == RIGHT
    assert one.abilities.form is Format.OBJECT


def test_a_server_that_breaks_over_a_form_is_asked_a_rung_lower(model):
    model.then.extend([Refusal(500)] * (1 + patience.FIRST_RETRIES))
    one = reader()
    assert one.answer(TEXTS[:5], "what?").answers == RIGHT[:5]
    assert one.abilities.form is Format.SCHEMA


def test_a_server_that_is_starting_is_waited_for_without_a_step_down_the_ladder(model, sentences):
    model.then.extend([Refusal(503, "Loading model")] * 20)
    one = reader()
    assert one.answer(TEXTS[:5], "what?").answers == RIGHT[:5]
    assert one.abilities == READY
    assert "is asked again in 0 s: status 503, Loading model" in sentences[0]
    assert patience.PATIENCE[503] >= 60


def test_a_server_that_does_not_come_up_is_given_up(model, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE", {503: 0.01})
    model.then.extend([Refusal(503, "Loading model")] * 200)
    with pytest.raises(EncoderError, match=r"org/tiny:1b\) failed with status 503: Loading model"):
        reader().answer(TEXTS[:5], "what?")


def test_a_model_that_thinks_gets_more_room(model):
    def short(made, request):
        if request["max_tokens"] < 4000:
            return completion("", finish="length", reasoning_content="hm " * 50)
        return completion(f"<think>hm</think>{made['choices'][0]['message']['content']}")

    model.always = short
    one = reader()
    assert one.answer(TEXTS, "what?").answers == RIGHT
    assert (one.abilities.thinks, one.abilities.form, len(model.requests)) == (True, Format.LIMITED, 5)


def test_left_out_texts_are_asked_again_alone_and_calls_get_smaller_from_the_second_time_on(model):
    one = reader()
    for calls, most in ((1, 6), (2, 3), (3, 1)):
        model.then.append(answers_of(lambda items: items[:-1]))
        assert one.answer(TEXTS[:6], "what?").answers == RIGHT[:6]
        assert one.abilities.texts_per_call == most, calls
    sizes = list(map(len, model.calls))
    assert (sizes[:4], sorted(sizes[4:])) == ([6, 1, 6, 1], [1, 3, 3])  # the last two calls are made at a time
    assert one.abilities.form is Format.LIMITED


@pytest.mark.parametrize(
    "change",
    [
        lambda items: [{**item, "id": str(int(item["id"]) - 1)} for item in items],
        lambda items: [*items, items[0]],
        lambda items: [{**item, "id": "1"} for item in items],
        lambda items: [*items, {"id": "99", "answers": ["x"]}],
    ],
    ids=["from zero", "twice", "all one", "unknown"],
)
def test_mixed_ids_are_believed_in_nothing(model, change):
    model.always = lambda made, request: answers_of(change)(made, request) if len(asked(request)["texts"]) > 1 else made
    one = reader()
    assert one.answer(TEXTS, "what?").answers == RIGHT
    assert one.abilities.texts_per_call == 1
    assert one.abilities.form is Format.LIMITED


def test_answers_swapped_within_a_call_cannot_be_told_but_alone_they_cannot_be_swapped(model):
    def swapped(items):
        answers = [item["answers"] for item in items]
        return [{**item, "answers": answers[(at + 1) % len(items)]} for at, item in enumerate(items)]

    model.always = answers_of(swapped)
    assert reader().answer(TEXTS, "what?").answers != RIGHT
    assert reader(abilities=ALONE).answer(TEXTS, "what?").answers == RIGHT


def test_a_text_without_an_answer_is_asked_again_once_alone_and_then_kept_with_its_reason(model):
    model.answer = lambda text, question: "word " * 13 if "lamp" in text else first_word(text, question)
    kept = []
    answered = reader().answer(TEXTS[:5], "how?", keep=kept.extend)
    assert answered.answers == ["kettle", None, "knife", "toy", "dog"]
    assert answered.failures == {Unread.LONG: 1}
    assert kept[-1] == Answer(1, Unread.LONG)
    assert list(map(len, model.calls)) == [5, 1]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (completion("no", finish="length"), Unread.CUT),
        (completion("  "), Unread.EMPTY),
        (completion(None, refusal="I cannot."), Unread.REFUSED),
        (completion("x", finish="content_filter"), Unread.REFUSED),
        (completion("<think>and then"), Unread.THINKING),
        (completion("", reasoning_content='{"answers": []}'), Unread.REASONING),
        (completion("<html>"), Unread.BROKEN),
        (Refusal(400, "filtered", code="content_filter"), Unread.BLOCKED),
        (Refusal(403, "this is not allowed"), Unread.BLOCKED),
        (b"<html>Bad gateway</html>", Unread.ODD),
        (Refusal(500, "the model runner has stopped"), Unread.ODD),
    ],
    ids=str,
)
def test_a_text_that_no_reply_can_be_had_for_is_asked_about_twice_alone_and_then_counted(model, made, reason):
    model.always = lambda good, request: made if "lamp" in request["messages"][1]["content"] else good
    answered = reader(abilities=ALONE).answer(TEXTS[:5], "what?")
    assert answered.answers == ["kettle", None, "knife", "toy", "dog"]
    assert answered.failures == {reason: 1}
    assert explained(answered.failures) == f"{reason.sentence} (1)"
    calls = sum("lamp" in call[0] for call in model.calls)
    retries = 2 * patience.RETRIES if "runner" in str(made) else 0
    assert calls == 2 + retries + (reason in (Unread.THINKING, Unread.REASONING))


@pytest.mark.parametrize("made", [Refusal(400, "The prompt was flagged"), Refusal(422, "Input could not be processed")])
def test_a_blocked_text_in_the_first_call_of_all_costs_no_other_its_answer(model, made):
    model.always = lambda good, request: made if "lamp number 6" in str(request) else good
    kept = []
    answered = reader().answer(TEXTS, "what?", keep=kept.extend)
    assert [row for row, answer in enumerate(answered.answers) if answer is None] == [6]
    assert answered.failures == {Unread.BLOCKED: 1}
    assert len(kept) == 20 and Answer(6, Unread.BLOCKED) in kept


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Refusal(403, "Your region is not supported"), "refused access with status 403: Your region is not supported"),
        (Refusal(400, "Tenant is locked"), "failed with status 400: Tenant is locked"),
        ({"error": {"message": "Upstream is gone", "code": 500}}, "failed with status 500: Upstream is gone"),
        (b"<!doctype html><p>Sign in", "sent no chat completion for org/tiny:1b. That is a web page, as a proxy"),
        (completion(None, refusal="I will not."), "refused to answer. I will not."),
    ],
    ids=str,
)
def test_several_failures_in_a_row_end_the_reading_with_the_providers_own_words(model, made, words):
    kept = []
    first = [f"{WORDS[n % 5]} item {n}" for n in range(12)]
    model.always = lambda good, request: good if asked(request)["texts"][0]["text"] in first else made
    with pytest.raises(EncoderError, match=words) as raised:
        reader(abilities=READY).answer([f"{WORDS[n % 5]} item {n}" for n in range(180)], "what?", keep=kept.extend)
    assert raised.value.hint
    assert len(kept) == 12 and all(each.answer in WORDS for each in kept)
    assert len(model.requests) <= 2 + 12 * (1 + patience.RETRIES)


def test_a_model_without_one_usable_answer_is_given_up_soon(model):
    model.always = always(completion("I am a teapot."))
    with pytest.raises(EncoderError, match=r"org/tiny:1b at 127.0.0.1:\d+ gave no usable answer. The reply does not"):
        reader().answer(TEXTS * 9, "what?")
    assert len(model.requests) <= 6
    model.always = None
    assert reader().answer(TEXTS, "what?").answers == RIGHT  # and nothing of it is held against it


def test_a_busy_server_is_asked_again_when_it_says(model, sentences):
    model.then.extend([None, Refusal(429, headers={"retry-after": "1"}), Refusal(503, headers={"retry-after-ms": "5"})])
    begun = time.monotonic()
    assert reader().answer(TEXTS, "what?").answers == RIGHT
    assert time.monotonic() - begun >= 1
    assert len(model.requests) == 6
    assert any("asked again in 1 s" in sentence for sentence in sentences)


def test_a_call_that_is_late_is_taken_apart_and_gets_more_time(model, monkeypatch, sentences):
    monkeypatch.setattr(patience, "SECONDS", 0.4)
    monkeypatch.setattr("retriever.encoders.answers.calls.NOTICE_SECONDS", 0.1)
    over = threading.Event()
    model.then.append(waits_for(over))
    one = reader()
    assert one.answer(TEXTS[:3], "what?").answers == RIGHT[:3]
    over.set()
    assert list(map(len, model.calls))[:2] == [3, 1]
    assert any("waiting for the first answer of org/tiny:1b at 127" in sentence for sentence in sentences)


@pytest.mark.parametrize("piece", [0, 3], ids=["silent", "dripping"])
def test_a_server_that_never_ends_its_reply_is_given_up_at_the_second_limit(model, monkeypatch, piece):
    monkeypatch.setattr(patience, "SECONDS", 1.0)  # a busy machine takes a while to send even the first call
    over = threading.Event()
    model.piece = piece
    model.always = None if piece else waits_for(over)
    with pytest.raises(
        EncoderError, match=r"took longer than \d+ s to answer with org/tiny:1b.*RETRIEVER_CALL_SECONDS"
    ):
        reader().answer(TEXTS, "what?")
    over.set()
    assert list(map(len, model.calls)) == [6, 1]


def test_the_seconds_of_a_call_are_a_number_in_the_environment(model, monkeypatch):
    monkeypatch.setenv("RETRIEVER_CALL_SECONDS", "300")
    assert reader()._endpoint.limit == 300
    monkeypatch.setenv("RETRIEVER_CALL_SECONDS", "soon")
    with pytest.raises(EncoderError, match="RETRIEVER_CALL_SECONDS is 'soon'"):
        reader().answer(TEXTS, "what?")


def test_calls_of_all_models_at_an_address_keep_to_one_limit_of_tokens_a_minute(model, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(patience, "anyio", SimpleNamespace(sleep=sleep, fail_after=anyio.fail_after))
    monkeypatch.setenv(TOKENS_A_MINUTE, "60000")
    for name in ("one", "another", "one"):
        ChatAnswerer(f"chat:{name}", abilities=READY).answer(TEXTS[:6], "what?")
    call = AnswersCall(TEXTS[:6], "what?")
    tokens = sum(estimated_tokens(part["content"]) for part in call.messages(Format.LIMITED)) + call.reply_tokens
    assert len(slept) == 3 and slept[0] == 0
    assert max(slept) <= 2 * tokens / 1000 and slept[2] > tokens / 1000 - 1  # a second passes between them at most
    monkeypatch.setenv(TOKENS_A_MINUTE, "many")
    with pytest.raises(EncoderError, match="RETRIEVER_TOKENS_A_MINUTE is 'many'"):
        reader(abilities=READY).answer(TEXTS, "what?")


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (
            Refusal(401, f"Incorrect API key: {KEY}"),
            r"refused access with status 401: .* Check the key in OPENAI_API_KEY",
        ),
        (Refusal(403, f"{KEY} may not"), r"refused access with status 403: \*\*\* may not"),
        (Refusal(402, "Insufficient credits"), r"wants to be paid .*: Insufficient credits. Look at the credits"),
        (Refusal(404, f"no model for {KEY}"), "has no such model, or there is no chat endpoint at http://127"),
        (Refusal(400, "too long", code="context_length_exceeded"), "A call is too long for .*4,096 tokens or more"),
        (Refusal(400, "exceeds the available context size"), "A call is too long for"),
        (Refusal(400, "Invalid model name"), "failed with status 400: Invalid model name. Check the model's name"),
        (Refusal(418, f"teapot {KEY}"), "failed with status 418: teapot"),
        (Refusal(307, headers={"location": "http://127.0.0.1:1/v1"}), "another address, and texts are not sent on"),
        (
            Refusal(429, "slow", headers={"retry-after": "300"}),
            "no more answers for 300 s: slow.*RETRIEVER_TOKENS_A_MIN",
        ),
        (Refusal(429, "You exceeded your current quota", code="insufficient_quota"), "for now: You exceeded your"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Refusal) else "",
)
def test_an_error_names_host_and_model_and_the_next_step_and_never_the_key(model, caplog, refusal, message):
    caplog.set_level(logging.INFO)
    model.always = always(refusal)
    model.then.extend([refusal] * 30)
    one = reader()
    with pytest.raises(EncoderError, match=message) as raised:
        one.answer(TEXTS, "what?")
    error = raised.value
    assert "org/tiny:1b" in str(error) and "127.0.0.1:" in str(error) and error.hint
    shown = f"{error}{error!r}{error.__cause__!r}{one!r}{vars(one)}{vars(one._endpoint)}{one.spec}{caplog.text}"
    assert KEY not in shown
    assert error.__cause__ is None and error.__suppress_context__
    assert len(model.requests) <= 8


def test_a_name_that_the_endpoint_does_not_have_is_answered_with_those_it_has(model):
    model.models = ("org/small:1b", "other", "org/tiny:7b")
    model.then.append(Refusal(404, "model not found"))
    with pytest.raises(EncoderError, match=r"It has org/tiny:7b, org/small:1b\. Check the model's name"):
        reader().answer(TEXTS, "what?")


def test_a_server_that_is_not_there_is_told_soon(monkeypatch):
    monkeypatch.setattr(patience, "BACKOFF", (0.001, 0.01))
    with pytest.raises(EncoderError, match=r"127.0.0.1:9, which should have m, cannot be reached.*Start its server"):
        ChatAnswerer("chat:http://127.0.0.1:9/v1#m").answer(["kettle"], "what?")


def test_a_server_without_https_and_a_certificate_that_nobody_trusts_are_told_apart(model):
    with pytest.raises(EncoderError, match=r"127.0.0.1:\d+ speaks no https.*say http://"):
        ChatAnswerer(f"chat:{model.url.replace('http', 'https')}#m").answer(["kettle"], "what?")
    refused = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")
    error = unreachable(refused, find_place("chat:https://h/v1#m"))
    assert "The certificate of h is not trusted" in str(error) and "SSL_CERT_FILE" in error.hint


@pytest.mark.parametrize(
    ("variable", "said", "message"),
    [
        ("SSL_CERT_FILE", "/nowhere/ca.pem", "SSL_CERT_FILE is '/nowhere/ca.pem', which cannot be read: No such file"),
        ("SSL_CERT_FILE", __file__, "SSL_CERT_FILE is .*, which cannot be read"),
        ("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem", "REQUESTS_CA_BUNDLE is '/nowhere/ca.pem', which cannot be read: No"),
        ("ALL_PROXY", "socks5://127.0.0.1:1", r"ALL_PROXY names a SOCKS proxy.*pip install 'httpx\[socks\]'"),
        ("HTTPS_PROXY", "http://h:port", "HTTPS_PROXY is no address of a proxy"),
        ("NO_PROXY", "[::1]", "NO_PROXY holds something that is no host"),
        ("no_proxy", "localhost,fd00::/8", "no_proxy holds something that is no host"),
    ],
)
def test_a_variable_that_the_connection_cannot_use_is_named_and_leaves_this_machine_alone(
    model, monkeypatch, variable, said, message
):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv(variable, said)
    with pytest.raises(EncoderError, match=message) as raised:
        ChatAnswerer("chat:https://models.invalid/v1#m").answer(["kettle"], "what?")
    assert raised.value.hint
    assert reader().answer(TEXTS[:2], "what?").answers == RIGHT[:2]


def test_a_page_that_is_no_endpoint_is_told(model):
    model.always = always(b"<html>welcome</html>")
    with pytest.raises(EncoderError, match="must be that of an OpenAI-compatible endpoint") as raised:
        reader().answer(TEXTS, "what?")
    assert "<html>" not in str(raised.value)
    model.always = always({"choices": []})
    with pytest.raises(EncoderError, match="sent no chat completion"):
        reader().answer(TEXTS, "what?")


def test_a_reply_without_an_end_is_not_read_to_its_end(model, monkeypatch):
    monkeypatch.setattr(exchange, "MOST_BYTES", 100_000)
    model.always = lambda good, request: completion("x" * 200_000) if "lamp" in str(request) else good
    answered = reader(abilities=ALONE).answer(TEXTS[:5], "what?")
    assert answered.failures == {Unread.ODD: 1}


def test_one_bad_call_loses_no_answers_of_others(model):
    refused = threading.Event()

    def refuses(made, request):
        refused.set()
        return Refusal(404)

    model.then.extend([waits_for(refused), refuses, waits_for(refused), waits_for(refused)])
    kept = []
    with pytest.raises(EncoderError, match="has no such model"):
        reader(abilities=READY).answer(TEXTS, "what?", keep=kept.extend)
    assert len(kept) == 20 - len(model.calls[1])
    assert all(each.answer == RIGHT[each.row] for each in kept)


def test_what_keep_raises_ends_the_work_at_once(model):
    texts = [f"{WORDS[n % 5]} item {n}" for n in range(600)]
    threads, over = [], threading.Event()
    model.then.append(None)
    model.always = lambda made, request: made if len(model.requests) == 1 else waits_for(over)(made, request)

    def full(answers):
        threads.append(threading.current_thread())
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        reader().answer(texts, "what?", keep=full)
    over.set()
    assert threads == [threading.current_thread()]
    assert len(model.requests) <= 9


class Purse:
    """Writes down what is counted, and is empty after so many counts."""

    def __init__(self, allowed=1000):
        self.allowed, self.sent, self.came = allowed, [], []

    def before(self, tokens):
        if len(self.sent) + len(self.came) >= self.allowed:
            raise LookupError("empty")
        self.sent.append(tokens)

    def after(self, tokens):
        self.came.append(tokens)


def test_what_is_spent_is_what_was_sent_and_what_came_back(model):
    purse = Purse()
    reader().answer(TEXTS[:5], "what?", spend=purse)
    sent = sum(estimated_tokens(message["content"]) for message in model.requests[0]["messages"])
    assert (purse.sent, purse.came) == (
        [sent],
        [10 + 100 - sent],
    )  # the server counts 100 of messages and 10 of the reply
    model.always = lambda made, request: {**made, "usage": None}
    purse = Purse()
    reader().answer(TEXTS[:5], "what?", spend=purse)
    assert purse.sent == [sent] and 10 < purse.came[0] < 100
    model.then.append(Refusal(500))
    purse = Purse()
    reader().answer(TEXTS[:5], "what?", spend=purse)
    assert purse.sent == [sent, sent]  # each request is counted


@pytest.mark.parametrize("allowed", [2, 3])
def test_a_purse_that_is_empty_sends_no_further_request_and_keeps_what_came(model, allowed):
    kept, purse = [], Purse(allowed)
    with pytest.raises(LookupError, match="empty"):
        reader(abilities=Abilities(texts_per_call=1)).answer(TEXTS, "what?", keep=kept.extend, spend=purse)
    assert len(kept) >= 1
    assert all(each.answer == RIGHT[each.row] for each in kept)
    assert len(model.requests) == len(kept) == len(purse.sent)
    assert reader().send(AnswersCall(TEXTS[:1], "what?"), spend=Purse()).cells == RIGHT[:1]


def test_when_time_is_up_calls_are_cancelled_and_what_came_is_given(model):
    over = threading.Event()
    model.then.append(None)
    model.always = lambda made, request: made if len(model.requests) == 1 else waits_for(over)(made, request)
    answered = reader().answer(TEXTS, "what?", until=time.monotonic() + 1)
    over.set()
    assert answered.answers == [*RIGHT[:6], *[None] * 14]
    assert answered.failures == {}
    calls = len(model.requests)
    assert reader().answer(TEXTS, "who?", until=time.monotonic() - 1).answers == [None] * 20
    assert len(model.requests) == calls


@pytest.fixture
def interruptible():
    """Take an interrupt as Python does; a worker process of the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_cancels_calls_and_keeps_what_was_answered(model, interruptible):
    kept, over = [], threading.Event()

    def third(made, request):
        if len(model.requests) < 4:
            return made
        if not over.is_set():
            over.set()
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(20)
        return made

    model.always = third
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        reader(abilities=Abilities(texts_per_call=1)).answer(TEXTS, "what?", keep=kept.extend)
    assert time.monotonic() - begun < 15
    assert 1 <= len(kept) <= 3


def test_the_key_goes_to_its_own_endpoint_alone(model, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    reader().answer(TEXTS[:2], "what?")
    assert model.headers[-1]["Authorization"] == f"Bearer {KEY}"
    assert model.headers[-1]["OpenAI-Organization"] == "org-secret"
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.example/v1")
    ChatAnswerer(f"chat:{model.url}#org/tiny:1b").answer(TEXTS[:2], "what?")
    assert "secret" not in str(model.headers[-1])
    assert "authorization" not in set(map(str.lower, model.headers[-1]))
    model.then.append(Refusal(401))
    with pytest.raises(EncoderError, match="is sent to OPENAI_BASE_URL alone; set that to http://127"):
        ChatAnswerer(f"chat:{model.url}#m").answer(TEXTS[:2], "what?")


def test_texts_for_this_machine_go_past_a_proxy(model, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert reader().answer(TEXTS[:2], "what?").answers == RIGHT[:2]


def test_a_probe_is_of_model_prompt_and_the_answers_to_the_probes(model):
    model.answer = lambda text, question: text.split()[1]
    purse = Purse()
    print_ = reader().probe(spend=purse)
    assert len(print_) == 64 and len(purse.sent) == len(purse.came) == len(model.requests)
    assert print_ == reader().probe()
    assert sum(map(len, model.calls)) == 2 * len(PROBES)
    assert ChatAnswerer("chat:other").probe() != print_
    model.answer = lambda text, question: text.split()[0] + text.split()[2]
    assert reader().probe() != print_
    model.answer = lambda text, question: "word " * 20
    with pytest.raises(EncoderError, match="has no answer to 8 of 8 probes"):
        reader().probe()


def test_the_spec_says_where_texts_go(model):
    spec = load_answerer("chat:org/tiny:1b").spec
    assert (spec.name, spec.loopback, spec.url, spec.model) == ("chat:org/tiny:1b", True, model.url, "org/tiny:1b")
    assert spec.host == model.url.split("/")[2]
    far = ChatAnswerer("chat:https://api.example.com/v1#m").spec
    assert (far.host, far.loopback) == ("api.example.com", False)
    with pytest.raises(
        UsageError, match=r"'st:x' writes no answers\. Name chat:MODEL, chat:URL#MODEL, given or default"
    ):
        load_answerer("st:x")
