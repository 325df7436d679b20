"""A chat endpoint that answers from a function, with faults on demand. It speaks the wire of a language model's reader.

A call's user message is ``{"questions": [...], "texts": [{"id": "1", "text": "..."}]}``; the reply holds
``{"answers": [{"id": "1", "answers": ["..."]}]}``, or lines such as ``1: answer`` where no JSON was asked for. A call
with ``answers`` asks which of them meet its ``query``, for the one of its ``categories`` that each belongs to, or for
categories of them.
"""

import json
import sys
import time
from dataclasses import dataclass, field

from model_server import ModelHandler, Refusal, ServedModel, serving_by

ANSWERS = {"kettle": "kettle", "lamp": "lamp", "knife": "knife", "toy": "toy", "dog": "dog", "not": "not said"}


def categories_of(call):
    """Make a category of every answer's last word."""
    ids = {}
    for item in call["answers"]:
        ids.setdefault(item["answer"].split()[-1], []).append(item["id"])
    return [{"name": word, "definition": f"It is a {word}.", "ids": of} for word, of in ids.items()]


def places_of(call):
    """Put every answer to the first category whose name it holds."""
    names = [category["name"] for category in call["categories"]]
    return [
        {"id": item["id"], "category": next((name for name in names if name in item["answer"]), "other")}
        for item in call["answers"]
    ]


def grades_of(call):
    """Grade an answer by whether it has a word of the query."""
    words = set(call["query"].split())
    return [
        {"id": item["id"], "grade": "yes" if words & set(item["answer"].split()) else "no"} for item in call["answers"]
    ]


def first_word(text, question):
    """Answer with the first word of the text that is known; a text about nothing says nothing."""
    return next((ANSWERS[word] for word in text.lower().replace(",", " ").split() if word in ANSWERS), "not said")


@dataclass
class Model(ServedModel):
    """The model behind the server and its faults.

    Attributes:
        answer: what it says of a text to a question.
        whole: what it says of a whole call, as a list of items; takes the place of ``answer``.
        categories: the list of categories that it makes of answers, whose call it is given.
        places: the list of places that it gives to answers among categories, whose call it is given.
        grades: the list of grades that it gives to answers, whose call it is given.
        refuses: what it refuses: the forms ``json_schema`` and ``json_object``, the keyword ``minItems`` of a schema,
            ``max_tokens``, ``temperature``, messages of the ``system``.
        models: that it lists.
        piece: bytes that come at a time, twenty times a second; 0 for all at once.
        every: a number n and a fault of every n-th call.
        then: a fault is a `Refusal`, seconds to be late, a function that changes the
            completion or gives a `Refusal`, or None for none.
        always: a function that changes every completion after that, given completion and request.
        seconds: to be late, always.
    """

    answer: object = first_word
    whole: object = None
    categories: object = categories_of
    places: object = places_of
    grades: object = grades_of
    refuses: set = field(default_factory=set)
    models: tuple = ()
    piece: int = 0
    every: tuple = (0, None)
    always: object = None
    seconds: float = 0.0

    def fault(self):
        due = super().fault()
        return self.every[1] if self.every[0] and len(self.requests) % self.every[0] == 0 else due

    @property
    def calls(self):
        """Give the texts of every call."""
        return [[item["text"] for item in asked(request).get("texts", [])] for request in self.requests]

    def refusal(self, request):
        form = request.get("response_format", {}).get("type")
        if form in self.refuses:
            return Refusal(400, f"response_format {form} is not supported")
        if "minItems" in self.refuses and "minItems" in json.dumps(request.get("response_format")):
            return Refusal(400, "Invalid schema for response_format 'answers': 'minItems' is not permitted.")
        if "system" in self.refuses and request["messages"][0]["role"] == "system":
            return Refusal(400, "System role not supported")
        for parameter in ("max_tokens", "temperature"):
            if parameter in self.refuses and parameter in request:
                return Refusal(400, f"Unsupported parameter: '{parameter}' is not supported.", param=parameter)
        return None

    def completion(self, request):
        """Give the completion without faults."""
        call = asked(request)
        if "categories" in call:
            return completion(json.dumps({"answers": self.places(call)}))
        if "query" in call:
            return completion(json.dumps({"grades": self.grades(call)}))
        if "answers" in call:
            return completion(json.dumps({"categories": self.categories(call)}))
        if self.whole is not None:
            items = self.whole(call)
        else:
            items = [
                {"id": item["id"], "answers": [self.answer(item["text"], one) for one in call["questions"]]}
                for item in call["texts"]
            ]
        content = json.dumps({"answers": items}) if "response_format" in request else lines(items)
        return completion(content)


def asked(request):
    """Give the call of a request; instructions can stand before it in the one message."""
    return json.loads(request["messages"][-1]["content"].splitlines()[-1])


def lines(items):
    return "\n".join(f"{item['id']}: {answer}" for item in items for answer in item["answers"])


def completion(content, finish="stop", **message):
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "stand-in",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


class Handler(ModelHandler):
    def look_up(self, model):
        listed = {"data": [{"id": name} for name in model.models]}
        return (200, listed) if self.path == "/v1/models" and listed["data"] else (404, {})

    def respond(self, model, request, fault):
        time.sleep(fault if isinstance(fault, int | float) else model.seconds)
        refusal = fault if isinstance(fault, Refusal) else model.refusal(request)
        if self.path != "/v1/chat/completions":
            refusal = Refusal(404, "no such page")
        if refusal is not None:
            return self.refuse(refusal)
        made = model.completion(request)
        for change in filter(callable, (fault, model.always)):
            made = change(made, request)
        if isinstance(made, Refusal):
            return self.refuse(made)
        return self.write(200, made)

    def send(self, data):
        piece = self.server.model.piece
        for at in range(0, len(data), piece or len(data) or 1):
            self.wfile.write(data[at : at + (piece or len(data))])
            time.sleep(0.05 if piece else 0)


def serving(model):
    """Serve a model and give the address of its endpoint."""
    return serving_by(Handler, model)


def forget_endpoints() -> None:
    """Forget what this process found out about endpoints, as a new process knows nothing."""
    for module, known in (
        ("answers.endpoint", "_endpoints"),
        ("answers.patience", "_paces"),
        ("remote.served", "_served"),
    ):
        if loaded := sys.modules.get(f"retriever.encoders.{module}"):
            getattr(loaded, known).clear()
