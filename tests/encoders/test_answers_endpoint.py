import json
import logging
import re
import signal
import threading
import time

import pytest
from replay_server import Model, Refusal, asked, completion, first_word, serving

from retriever.core.errors import EncoderError, UsageError
from retriever.encoders.answers import endpoint
from retriever.encoders.answers.answerer import Answer, Unread, explained
from retriever.encoders.answers.chat import PROBES, ChatAnswerer
from retriever.encoders.answers.endpoint import TOKENS_A_MINUTE, Abilities
from retriever.encoders.answers.wire import Format

KEY = "sk-very-secret-key"
WORDS = ["kettle", "lamp", "knife", "toy", "dog"]
TEXTS = [f"{WORDS[n % 5]} number {n}" for n in range(20)]
RIGHT = [WORDS[n % 5] for n in range(20)]
READY = Abilities(settled=True)
ALONE = Abilities(settled=True, texts_per_call=1)


@pytest.fixture
def model(monkeypatch):
    """Give a model behind a real server, which `OPENAI_BASE_URL` names."""
    made = Model()
    with serving(made) as url:
        made.url = url
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield made


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


def test_texts_go_in_calls_of_six_with_all_questions_and_come_back_in_their_places(model):
    kept = []
    answered = reader().answer(TEXTS, ["what?", "which?"], keep=kept.append)
    assert answered.answers == [RIGHT] * 2
    assert answered.failures == {}
    assert sorted(map(len, model.calls)) == [2, 6, 6, 6]
    assert sorted(text for call in model.calls for text in call) == sorted(TEXTS)
    rows = [one for answers in kept for one in answers]
    assert set(rows) == {
        Answer(row, question, answer)
        for question, column in enumerate(answered.answers)
        for row, answer in enumerate(column)
    }
    assert len(rows) == 40 and len(kept) == 4
    first = model.requests[0]
    assert first["model"] == "org/tiny:1b" and first["temperature"] == 0
    assert first["response_format"]["json_schema"]["strict"] is True
    assert first["max_tokens"] <= 1000


def test_nothing_to_ask_asks_nothing(model):
    assert reader().answer([], ["what?"]).answers == [[]]
    assert reader().answer(TEXTS, []).answers == []
    assert model.requests == []
    with pytest.raises(UsageError, match="blank"):
        reader().answer(TEXTS, [" "])
    with pytest.raises(UsageError, match="not one string"):
        reader().answer("text", ["what?"])


def test_the_first_call_goes_alone_and_eight_more_at_once(model):
    model.seconds = 0.1
    one = reader()
    one.answer(TEXTS[:6], ["what?"])
    assert model.most_in_flight == 1
    model.seconds = 0.5  # a busy machine begins eight calls in that time
    one.answer([f"{WORDS[n % 5]} item {n}" for n in range(120)], ["what?"])
    assert model.most_in_flight == 8


@pytest.mark.parametrize(
    ("refused", "form", "token_limit", "temperature"),
    [
        (set(), Format.SCHEMA, "max_tokens", True),
        ({"json_schema"}, Format.OBJECT, "max_tokens", True),
        ({"json_schema", "json_object"}, Format.LINES, "max_tokens", True),
        ({"max_tokens"}, Format.SCHEMA, "max_completion_tokens", True),
        ({"temperature", "json_schema", "max_tokens"}, Format.OBJECT, "max_completion_tokens", False),
    ],
)
def test_the_ladder_is_tried_once_and_remembered(model, refused, form, token_limit, temperature):
    model.refuses = refused
    one = reader()
    assert one.answer(TEXTS, ["what?", "who?"]).answers == [RIGHT, RIGHT]
    assert one.abilities == Abilities(form, True, token_limit, temperature)
    assert len(model.requests) == 4 + len(refused)
    again = reader(abilities=one.abilities)
    assert again.answer(TEXTS, ["what?"]).answers == [RIGHT]
    assert len(model.requests) == 8 + len(refused)


@pytest.mark.parametrize(
    "made",
    [
        completion("Sure! " * 9),
        completion(" \n" * 500, finish="length"),
        completion('{"answers": [{"id": "1", "ans', finish="length"),
        completion(""),
    ],
    ids=["prose", "whitespace", "cut", "empty"],
)
def test_a_server_that_accepts_a_form_and_does_not_keep_it_is_asked_a_rung_lower(model, made):
    model.always = lambda good, request: made if "response_format" in request else good
    one = reader()
    assert one.answer(TEXTS, ["what?"]).answers == [RIGHT]
    assert one.abilities.form is Format.LINES
    assert len(model.requests) == 6


def test_a_server_that_breaks_over_a_form_is_asked_a_rung_lower(model):
    model.then.extend([Refusal(500, headers={"retry-after-ms": "1"})] * (1 + endpoint.FIRST_RETRIES))
    one = reader()
    assert one.answer(TEXTS[:5], ["what?"]).answers == [RIGHT[:5]]
    assert one.abilities.form is Format.OBJECT


def test_a_model_that_thinks_gets_more_room(model):
    def short(made, request):
        if request["max_tokens"] < 4000:
            return completion("", finish="length", reasoning_content="hm " * 50)
        return completion(f"<think>hm</think>{made['choices'][0]['message']['content']}")

    model.always = short
    one = reader()
    assert one.answer(TEXTS, ["what?"]).answers == [RIGHT]
    assert (one.abilities.thinks, one.abilities.form, len(model.requests)) == (True, Format.SCHEMA, 5)


def test_left_out_texts_are_asked_again_alone_and_then_every_text_is(model):
    model.then.append(answers_of(lambda items: items[:4]))
    one = reader()
    assert one.answer(TEXTS, ["what?"]).answers == [RIGHT]
    assert one.abilities.texts_per_call == 1
    assert sorted(map(len, model.calls)) == [1] * 16 + [6]


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
    assert one.answer(TEXTS, ["what?"]).answers == [RIGHT]
    assert one.abilities.texts_per_call == 1
    assert one.abilities.form is Format.SCHEMA


def test_answers_swapped_within_a_call_cannot_be_told_but_alone_they_cannot_be_swapped(model):
    def swapped(items):
        answers = [item["answers"] for item in items]
        return [{**item, "answers": answers[(at + 1) % len(items)]} for at, item in enumerate(items)]

    model.always = answers_of(swapped)
    assert reader().answer(TEXTS, ["what?"]).answers != [RIGHT]
    assert reader(abilities=ALONE).answer(TEXTS, ["what?"]).answers == [RIGHT]


def test_only_the_question_without_an_answer_is_asked_again_and_once(model):
    model.answer = lambda text, question: (
        "word " * 13 if "lamp" in text and question == "how?" else first_word(text, question)
    )
    answered = reader().answer(TEXTS[:5], ["what?", "how?"])
    assert answered.answers == [RIGHT[:5], ["kettle", None, "knife", "toy", "dog"]]
    assert answered.failures == {Unread.LONG: 1}
    assert re.search(r"more than 12 words.* \(1\)", explained(answered.failures))
    assert [(len(asked(one)["texts"]), asked(one)["questions"]) for one in model.requests] == [
        (5, ["what?", "how?"]),
        (1, ["how?"]),
    ]


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
    ],
    ids=str,
)
def test_a_reply_that_is_no_answer_is_asked_again_once_and_then_counted(model, made, reason):
    model.always = lambda good, request: made if "lamp" in request["messages"][1]["content"] else good
    answered = reader(abilities=ALONE).answer(TEXTS[:5], ["what?"])
    assert answered.answers == [["kettle", None, "knife", "toy", "dog"]]
    assert answered.failures == {reason: 1}
    assert explained(answered.failures) == f"{reason.sentence} (1)"
    assert sum("lamp" in call[0] for call in model.calls) == 2 + (reason in (Unread.THINKING, Unread.REASONING))


def test_a_model_without_one_usable_answer_is_given_up_soon(model):
    model.always = always(completion("I am a teapot."))
    with pytest.raises(EncoderError, match=r"org/tiny:1b at 127.0.0.1:\d+ gave no usable answer. The reply does not"):
        reader().answer(TEXTS * 9, ["what?"])
    assert len(model.requests) <= 6


def test_a_busy_server_is_asked_again_when_it_says(model):
    model.then.extend([None, Refusal(429, headers={"retry-after": "1"}), Refusal(503, headers={"retry-after-ms": "5"})])
    begun = time.monotonic()
    answered = reader().answer(TEXTS, ["what?"])
    assert answered.answers == [RIGHT]
    assert time.monotonic() - begun >= 1
    assert len(model.requests) == 6


def test_a_late_reply_is_asked_for_again(model):
    model.then.append(2.0)
    assert reader(seconds=0.3, abilities=READY).answer(TEXTS[:3], ["what?"]).answers == [RIGHT[:3]]
    assert len(model.requests) == 2


def test_calls_keep_to_a_limit_of_tokens_a_minute(model, monkeypatch):
    seconds = []
    for limit in ("120000", "60000"):
        monkeypatch.setenv(TOKENS_A_MINUTE, limit)
        begun = time.monotonic()
        reader(abilities=READY).answer(TEXTS, ["what?"])
        seconds.append(time.monotonic() - begun)
    assert seconds[1] > 1.5  # 3 calls before the last, of 700 to 900 tokens, at 1,000 a second
    assert seconds[0] < seconds[1]
    monkeypatch.setenv(TOKENS_A_MINUTE, "many")
    with pytest.raises(EncoderError, match="RETRIEVER_TOKENS_A_MINUTE is 'many'"):
        reader(abilities=READY)


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (
            Refusal(401, f"Incorrect API key provided: {KEY}"),
            "refused access with status 401. Check the key in OPENAI_API_KEY",
        ),
        (Refusal(403, f"{KEY} may not"), "refused access with status 403"),
        (Refusal(404, f"model not known to {KEY}"), "has no model org/tiny:1b, or no chat endpoint at http://127"),
        (Refusal(400, "too long", code="context_length_exceeded"), "A call is too long for .*4,096 tokens or more"),
        (Refusal(400, "exceeds the available context size"), "A call is too long for"),
        (Refusal(418, f"teapot {KEY}"), "failed with status 418: teapot"),
        (Refusal(307, headers={"location": "http://127.0.0.1:1/v1"}), "another address, and texts are not sent on"),
        (Refusal(429, "quota", headers={"retry-after": "3600"}), "gives no more answers for now"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Refusal) else "",
)
def test_an_error_names_host_and_model_and_the_next_step_and_never_the_key(model, caplog, refusal, message):
    caplog.set_level(logging.INFO)
    model.then.extend([refusal] * 3)
    one = reader()
    with pytest.raises(EncoderError, match=message) as raised:
        one.answer(TEXTS, ["what?"])
    error = raised.value
    assert "org/tiny:1b" in str(error) and "127.0.0.1:" in str(error) and error.hint
    shown = f"{error}{error!r}{error.__cause__!r}{one!r}{vars(one)}{vars(one._endpoint)}{one.spec}{caplog.text}"
    assert KEY not in shown
    assert error.__cause__ is None and error.__suppress_context__


def test_a_server_that_is_not_there_is_told_soon(monkeypatch):
    begun = time.monotonic()
    with pytest.raises(EncoderError, match=r"127.0.0.1:9, which should have m, cannot be reached. Start its server"):
        ChatAnswerer("chat:http://127.0.0.1:9/v1#m").answer(["kettle"], ["what?"])
    assert time.monotonic() - begun < 10


def test_a_page_that_is_no_endpoint_is_told(model):
    model.always = always(b"<html>welcome</html>")
    with pytest.raises(EncoderError, match="must be that of an OpenAI-compatible endpoint"):
        reader().answer(TEXTS, ["what?"])
    model.always = always({"choices": []})
    with pytest.raises(EncoderError, match="sent no chat completion"):
        reader().answer(TEXTS, ["what?"])


def test_one_bad_call_loses_no_answers_of_others(model):
    model.seconds = 0.1
    model.then.extend([0.5, Refusal(404), None])
    kept = []
    with pytest.raises(EncoderError, match="has no model"):
        reader(abilities=READY).answer(TEXTS, ["what?"], keep=kept.extend)
    assert len(kept) == 14
    assert all(one.answer == RIGHT[one.row] for one in kept)


def test_what_keep_raises_ends_the_work_at_once(model):
    model.seconds = 0.3
    texts = [f"{WORDS[n % 5]} item {n}" for n in range(600)]
    threads = []

    def full(answers):
        threads.append(threading.current_thread())
        raise OSError("disk full")

    begun = time.monotonic()
    with pytest.raises(OSError, match="disk full"):
        reader(abilities=READY).answer(texts, ["what?"], keep=full)
    assert time.monotonic() - begun < 3
    assert threads == [threading.current_thread()]
    assert len(model.requests) <= 9


@pytest.fixture
def interruptible():
    """Take an interrupt as Python does; a worker process of the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_cancels_calls_and_keeps_what_was_answered(model, interruptible):
    kept = []
    model.then.extend([None] * 4)
    model.always = lambda made, request: (time.sleep(20), made)[1] if len(model.requests) > 4 else made
    texts = [f"{WORDS[n % 5]} item {n}" for n in range(120)]
    timer = threading.Timer(1.5, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    begun = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        reader(abilities=ALONE).answer(texts, ["what?"], keep=kept.extend)
    assert time.monotonic() - begun < 6
    assert 1 <= len(kept) <= 4


def test_the_key_goes_to_its_own_endpoint_alone(model, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: custom-secret")
    reader().answer(TEXTS[:2], ["what?"])
    assert model.headers[-1]["Authorization"] == f"Bearer {KEY}"
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.example/v1")
    ChatAnswerer(f"chat:{model.url}#m").answer(TEXTS[:2], ["what?"])
    assert "secret" not in str(model.headers[-1])
    assert set(map(str.lower, model.headers[-1])) <= endpoint._PLAIN_HEADERS
    model.then.append(Refusal(401))
    with pytest.raises(EncoderError, match="is sent to OPENAI_BASE_URL alone; set that to http://127"):
        ChatAnswerer(f"chat:{model.url}#m").answer(TEXTS[:2], ["what?"])


def test_texts_for_this_machine_go_past_a_proxy(model, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert reader().answer(TEXTS[:2], ["what?"]).answers == [RIGHT[:2]]


def test_the_fingerprint_is_of_model_prompt_and_probes_and_is_asked_for_once(model):
    model.answer = lambda text, question: text.split()[1]
    one = reader()
    assert model.requests == []
    print_ = one.fingerprint
    assert print_ == one.fingerprint == reader().fingerprint
    assert len(model.requests) == 4 and sum(map(len, model.calls)) == 2 * len(PROBES)
    assert ChatAnswerer("chat:other").fingerprint != print_
    model.answer = lambda text, question: text.split()[0] + text.split()[2]
    assert reader().fingerprint != print_
    before = len(model.requests)
    assert reader(fingerprint=print_).fingerprint == print_
    assert len(model.requests) == before
    model.answer = lambda text, question: "word " * 20
    with pytest.raises(EncoderError, match="has no answer to 8 of 8 probes"):
        _ = reader().fingerprint


def test_the_spec_says_where_texts_go(model):
    spec = reader().spec
    assert (spec.name, spec.loopback) == ("chat:org/tiny:1b", True)
    assert spec.host == model.url.split("/")[2]
    far = ChatAnswerer("chat:https://api.example.com/v1#m").spec
    assert (far.host, far.loopback) == ("api.example.com", False)
