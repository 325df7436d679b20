"""An endpoint for embeddings whose vectors a person can compute, with faults on demand."""

import hashlib
import time
from dataclasses import dataclass, field

from model_server import ModelHandler, Refusal, ServedModel, serving_by

DIM = 512


def vector(text, dim=DIM):
    """Count words, each at the place that its hash gives; the first number is 1."""
    counts = [1.0] + [0.0] * (dim - 1)
    for word in text.lower().replace(".", " ").replace(",", " ").split():
        counts[int(hashlib.md5(word.encode()).hexdigest(), 16) % (dim - 1) + 1] += 2.0
    return counts


@dataclass
class EmbeddingModel(ServedModel):
    """The model behind the server and its faults.

    Attributes:
        vector: gives the vector of a text.
        then: a fault is a `Refusal`, seconds to be late, a function that changes the reply,
            or None for none.
        always: a function that changes every reply or gives a `Refusal`, given reply and request.
        most_texts: of a call; more are refused.
        most_characters: of a text; a longer one is refused.
        own: whether it says that it is a server of this package, which takes instructions.
        answered: the texts that were answered.
    """

    vector: object = vector
    always: object = None
    most_texts: int | None = None
    most_characters: int | None = None
    own: bool = False
    answered: list = field(default_factory=list)
    asked_about: list = field(default_factory=list)

    @property
    def texts(self):
        """Give all texts that came, in their order."""
        return [text for request in self.requests for text in request["input"]]

    def refusal(self, request):
        if self.most_texts is not None and len(request["input"]) > self.most_texts:
            return Refusal(422, f"batch size {len(request['input'])} > maximum allowed batch size {self.most_texts}")
        if self.most_characters is not None and any(len(text) > self.most_characters for text in request["input"]):
            return Refusal(400, "This model's maximum context length is 512 tokens.")
        return None

    def reply(self, request):
        """Give the reply without faults."""
        beside = request.get("instruction", "")
        texts = [f"{beside} {text}" for text in request["input"]]
        dim = request.get("dimensions")
        data = [
            {"object": "embedding", "index": place, "embedding": self.vector(text)[:dim]}
            for place, text in enumerate(texts)
        ]
        tokens = sum(1 + len(text) // 4 for text in texts)
        return {"object": "list", "data": data, "model": request["model"], "usage": {"prompt_tokens": tokens}}


class Handler(ModelHandler):
    def respond(self, model, request, fault):
        made = self.made(model, request, fault)
        if isinstance(made, Refusal):
            return self.refuse(made)
        with self.server.lock:
            model.answered += request["input"]
        return self.write(200, made)

    def made(self, model, request, fault):
        if self.path != "/v1/embeddings":
            return Refusal(404, "no such page")
        if isinstance(fault, int | float):
            time.sleep(fault)
        made = fault if isinstance(fault, Refusal) else model.refusal(request) or model.reply(request)
        for change in filter(callable, (fault, model.always)):
            made = made if isinstance(made, Refusal) else change(made, request)
        return made

    def look_up(self, model):
        model.asked_about.append(self.path)
        if model.own and self.path.startswith("/v1/models/"):
            return 200, {"id": self.path.rpartition("/")[2], "owned_by": "retriever"}
        return 404, {}


def serving_embeddings(model):
    """Serve a model and give the address of its endpoint."""
    return serving_by(Handler, model)
