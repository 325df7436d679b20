"""A reranker's endpoint in both dialects. The score of a text is the number of its characters, or what a test says."""

import time
from contextlib import contextmanager
from dataclasses import dataclass, field

from model_server import ModelHandler, ServedModel, serving_by


@dataclass
class Scorer(ServedModel):
    """The model behind the server.

    Attributes:
        dialect: ``documents`` (Jina, Cohere, vLLM, infinity) or ``texts`` (TEI).
        score: what it gives for a query and a text.
        reply: takes the place of the reply, given the usual one: an object, or bytes to send as they are.
        status: of the reply.
        seconds: to be late.
        dies: whether it ends the connection without a reply.
    """

    dialect: str = "documents"
    score: object = lambda query, text: len(text)
    reply: object = None
    status: int = 200
    seconds: float = 0.0
    dies: bool = False
    paths: list = field(default_factory=list)

    @property
    def read(self):
        """Give the texts of every request that it understood."""
        return [request[self.dialect] for request in self.requests if self.dialect in request]

    def made(self, request):
        if self.dialect not in request:
            return 422, {"error": f"missing field `{self.dialect}`", "error_type": "Validation"}
        name = "relevance_score" if self.dialect == "documents" else "score"
        scores = [self.score(request["query"], text) for text in request[self.dialect]]
        rows = [{"index": place, name: score} for place, score in enumerate(scores)]
        rows.sort(key=lambda row: -row[name])  # servers give the best first
        usual = {"id": "1", "results": rows} if self.dialect == "documents" else rows
        return self.status, usual if self.reply is None else self.reply(usual)


class Handler(ModelHandler):
    def respond(self, model, request, fault):
        model.paths.append(self.path)
        if model.dies:
            self.close_connection = True
            return
        time.sleep(model.seconds)
        self.write(*model.made(request))


@contextmanager
def reranking(scorer):
    """Serve a reranker and give the name by which a search asks for it."""
    with serving_by(Handler, scorer) as url:
        yield f"http:{url}#tiny"
