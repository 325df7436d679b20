"""The kinds of source, by name; a new kind is a file of this room and a row here."""

from collections.abc import Mapping

from retriever.index.sources.answers import Answers
from retriever.index.sources.read import Plain, Question
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught, Tuned

KINDS: Mapping[str, type[Source]] = {source.kind: source for source in (Plain, Question, Answers, Tuned, Taught)}
