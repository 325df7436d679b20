"""Filling the views of sources: texts are read in one pass an encoder, then vectors are made of those stored."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from retriever.core.types import Embeddings, Encoded, Ids
from retriever.index.encoding import WORDS, with_steps
from retriever.index.sources.catalog import Sources
from retriever.index.sources.source import Source
from retriever.store.views import View, ViewKey

READ_AT_ONCE = 250
"""Texts that are read before they are stored."""

_BATCH = 4096  # vectors made at once

OnTokens = Callable[[int], None]
"""Called with numbers of text tokens as they are read."""


def of_one_encoder(*sources: Source) -> bool:
    """Whether one encoder reads texts for all of some sources."""
    return len(by_encoder(sources)) == 1


def by_encoder(sources: Iterable[Source]) -> list[list[Source]]:
    """Return the sources that encoders read texts for, those of one encoder together; none is loaded."""
    groups: dict[ViewKey, list[Source]] = {}
    for source in sources:
        if source.reads:
            groups.setdefault(replace(source.key, instruction=""), []).append(source)
    return list(groups.values())


def read(sources: Sequence[Source], texts: Sequence[str], on_tokens: OnTokens | None = None) -> list[Encoded]:
    """Read texts for sources of one encoder, in one pass: embeddings and words for each."""
    instructions = [source.instruction for source in sources]
    return sources[0].encoder.encode_views(texts, instructions, words=WORDS, on_tokens=on_tokens)


def encode_texts(sources: Sequence[Source], texts: Sequence[str]) -> list[Embeddings]:
    """Embed texts that are not of the index as each of some sources has them, in one pass an encoder: (n, dim) each.

    A source of answers takes them as answers.
    """
    known: dict[Source, Embeddings] = {}
    for group in by_encoder(_with_needs(sources)):
        vectors = group[0].encoder.encode_many(texts, [source.instruction for source in group])
        known.update(zip(group, vectors, strict=True))
    return [_combined(source, known) for source in sources]


def encode_queries(
    sources: Sequence[Source], queries: Sequence[str], steps: int | None = None, *, documents: bool = False
) -> list[Embeddings]:
    """Embed queries for each of some sources, in one pass an encoder where it can: (n, dim) each.

    ``steps`` is K for the encoder that reads for the last source; None for its own. An encoder that has prompts reads
    queries that are ``documents`` as such.

    Raises:
        EncoderError: it has no steps.
    """
    known: dict[Source, Embeddings] = {}
    last = sources[-1].root
    for group in by_encoder(_with_needs(sources)):
        encoder = with_steps(group[0].encoder, steps) if last in group else group[0].encoder
        instructions = [source.query_instruction for source in group]
        if len(group) > 1 and not encoder.spec.prompts:  # queries are read as texts are
            vectors = encoder.encode_many(queries, instructions)
        else:
            read = encoder.encode if documents and encoder.spec.prompts else encoder.encode_queries
            vectors = [read(queries, instruction=instruction) for instruction in instructions]
        known.update(zip(group, vectors, strict=True))
    return [_combined(source, known) for source in sources]


def fill(
    index: Sources,
    sources: Sequence[Source],
    ids: Ids | Sequence[int],
    on_tokens: OnTokens | None = None,
    *,
    makes: bool = True,
) -> None:
    """Give the views of sources, needed ones first, what they lack of some contents; of the first, tokens are counted.

    All is stored in one transaction, or the caller's, once all is read. Views that are not there are made, or left out
    (``makes``).

    Raises:
        RetrieverError: a view was dropped while texts were read for it.
    """
    store = index.context.store
    views: dict[Source, View] = {}
    for source in sources:
        if source.reads:
            view = store.views.ensure(source.key, lazy=True) if makes else store.views.find(source.key)
            views |= {} if view is None else {source: view}
    done: list[tuple[View, Sequence[int], Encoded]] = []
    for group in by_encoder(views):
        lacking = {content_id for source in group for content_id in store.vectors.missing(views[source].view_id, ids)}
        texts = store.documents.texts([content_id for content_id in np.asarray(ids).tolist() if content_id in lacking])
        if texts:
            every = read(group, list(texts.values()), on_tokens)
            done += [(views[source], list(texts), encoded) for source, encoded in zip(group, every, strict=True)]
        on_tokens = None
    with store.writing():
        for view, contents, encoded in done:
            store.vectors.put(view.view_id, contents, encoded.embeddings, encoded.words)
        derive(index, [source for source in sources if not source.in_words], ids)


def derive(index: Sources, sources: Iterable[Source], ids: Ids | Sequence[int]) -> dict[int, int]:
    """Make the vectors that made sources, needed ones first, lack of some contents.

    Within the caller's transaction, if there is one; but what takes an encoder is not to be made in it.

    Returns:
        How many were made, by view.
    """
    store, counts = index.context.store, dict[int, int]()
    for source in sources:
        view = None if source.reads else index.view(source)
        lacking = [] if view is None else store.vectors.missing(view.view_id, ids)
        size = READ_AT_ONCE if source.in_words else _BATCH
        for start in range(0, len(lacking), size):
            made = source.derive(index.stored, np.array(lacking[start : start + size], dtype=np.int64))
            if view is not None and made is not None and len(made.content_ids):
                with store.writing():
                    made = source.confirmed(made)
                    store.vectors.put(view.view_id, made.content_ids, made.embeddings, made.words)
                counts[view.view_id] = counts.get(view.view_id, 0) + len(made.content_ids)
    return counts


def catch_up(index: Sources, source: Source) -> None:
    """Give the view of a made source what it lacks of the contents that it can have."""
    contents, view = source.contents(index.held), index.view(source)
    if contents is None or view is None:
        return
    if not source.reads:
        derive(index, [source], contents)
        return
    lacking = index.context.store.vectors.missing(view.view_id, contents)
    for start in range(0, len(lacking), READ_AT_ONCE):
        fill(index, [source], lacking[start : start + READ_AT_ONCE])


def _with_needs(sources: Iterable[Source]) -> list[Source]:
    """Return sources and all that they need, each once, needed ones first."""
    ordered: dict[Source, None] = {}
    for source in sources:
        ordered.update(dict.fromkeys([*_with_needs(source.needs), source]))
    return list(ordered)


def _combined(source: Source, known: Mapping[Source, Embeddings]) -> Embeddings:
    """Return the vectors of a source, given those that encoders made for the sources they read for."""
    return known[source] if source.reads else source.combine([_combined(need, known) for need in source.needs])
