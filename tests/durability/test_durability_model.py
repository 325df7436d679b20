"""An index beside a dictionary: whatever is done to it, in whatever order, both hold and find the same."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from index_fakes import FAULT, KEYWORDS, MOOD, PRODUCT, FakeEncoder, gives

from retriever.core.errors import InputError
from retriever.core.types import Document
from retriever.index.generations import IndexType
from retriever.index.indexing import IndexingOptions
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.verify import verify
from retriever.workspace import Index

VOCABULARY = [word for words in KEYWORDS.values() for word in words[:4]]
IDS = st.sampled_from("abcdefghij")
TEXTS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=3, unique=True).map(" ".join)
BATCH = st.dictionaries(IDS, st.tuples(TEXTS, st.integers(0, 4)), min_size=1, max_size=6)
VIEWED = st.sampled_from([MOOD, FAULT])
FEW = st.integers(1, 12)


def score(query, text, instruction):
    asked, held = set(query.split()), set(text.split())
    return 1 - len((asked ^ held) & set(KEYWORDS[instruction or PRODUCT])) / 8


class IndexMachine(RuleBasedStateMachine):
    """`documents` holds text and stars by id; `read` the texts with a vector by instruction, deleted ones included;
    `whole` the instructions whose views somebody asked for."""

    runs = 0  # of all machines

    def __init__(self):
        super().__init__()
        self.root = tempfile.TemporaryDirectory()
        self.moves = 0
        self.documents, self.read, self.whole, self.saved = {}, {"": set()}, {""}, {}

    @initialize(batch=BATCH)
    def make(self, batch):
        self.open()
        self.add(batch, [])
        self.reader = Index(self.path, encoder=FakeEncoder())

    @property
    def path(self):
        return Path(self.root.name) / str(self.moves)

    @property
    def live(self):
        return {text for text, _ in self.documents.values()}

    def open(self):
        self.index = Index(self.path, encoder=FakeEncoder())

    def close(self):
        self.index.close()
        self.reader.close()

    @rule(batch=BATCH, instructions=st.lists(VIEWED, unique=True, max_size=2))
    def add(self, batch, instructions):
        rows = [Document(id, text, {"stars": stars}) for id, (text, stars) in batch.items()]
        new = batch.keys() - self.documents.keys()
        same = [id for id in batch if self.documents.get(id) == batch[id]]
        report = self.index.add(rows, instructions=instructions, options=IndexingOptions(batch=4))
        assert (report.added, report.unchanged) == (len(new), len(same))
        self.documents.update(batch)
        self.whole.update(instructions)
        assert set(report.instructions) == self.whole
        for instruction in self.whole:
            self.read.setdefault(instruction, set()).update(self.live)

    @rule(ids=st.lists(IDS, unique=True, max_size=5))
    def delete(self, ids):
        assert self.index.delete(ids) == [id for id in ids if self.documents.pop(id, None)]

    @rule(factory=st.sampled_from(["auto", "IVF2,SQfp16"]))
    def compact(self, factory):
        self.index.upkeep.repair(IndexType(factory=factory))
        for texts in self.read.values():
            texts &= self.live

    @rule(instruction=VIEWED)
    def complete(self, instruction):
        if not self.live and instruction not in self.read:
            with pytest.raises(InputError, match="holds no documents"):
                self.index.upkeep.complete([instruction])
            return
        self.index.upkeep.complete([instruction], options=IndexingOptions(batch=4))
        self.fill(instruction)

    @precondition(lambda self: len(self.read) > 1)
    @rule(data=st.data())
    def drop(self, data):
        instruction = data.draw(st.sampled_from(sorted(self.read.keys() - {""})))
        self.index.upkeep.drop_views([instruction])
        del self.read[instruction]
        self.whole.discard(instruction)

    @rule()
    def reopen(self):
        self.index.close()
        self.open()

    @rule()
    def move(self):
        """Go on with what an export of the index is imported as."""
        archive = Path(self.root.name) / f"{self.moves}.tar"
        export_index(self.path, archive)
        self.close()
        self.moves += 1
        import_index(archive, self.path)
        self.open()
        self.reader = Index(self.path, encoder=FakeEncoder())

    @rule(query=TEXTS, k=FEW, least=st.none() | st.integers(0, 5), reads=st.booleans())
    def search_base(self, query, k, least, reads):
        handle = self.reader if reads else self.index
        found = handle.search(query, k=k, mode="dense", where=self.where(least))
        groups = self.by_text(least)
        scores = {id: score(query, self.documents[id][0], "") for id in groups}
        best = sorted(scores, key=lambda id: (-scores[id], id))[:k]
        assert [(hit.document.id, hit.score) for hit in found.hits] == [(id, scores[id]) for id in best]
        assert [list(hit.equal) for hit in found.hits] == [groups[id] for id in best]
        self.require_stored(found)

    @rule(query=TEXTS, k=FEW, least=st.none() | st.integers(0, 5), instruction=VIEWED, reads=st.booleans())
    def search_under(self, query, k, least, instruction, reads):
        handle = self.reader if reads else self.index
        found = handle.search(query, instruction=instruction, k=k, mode="dense", where=self.where(least))
        assert found.path == "complete"  # the budget reads all that matches
        matching = self.matching(least)
        scores = [score(query, self.documents[id][0], instruction) for id in self.by_text(least)]
        assert [hit.score for hit in found.hits] == sorted(scores, reverse=True)[:k]
        assert {hit.document.id for hit in found.hits} <= set(matching)
        self.require_stored(found)
        self.read.setdefault(instruction, set()).update(self.documents[id][0] for id in matching)

    @rule(word=st.sampled_from(VOCABULARY), least=st.none() | st.integers(0, 5), reads=st.booleans())
    def search_words(self, word, least, reads):
        handle = self.reader if reads else self.index
        found = handle.search(word, k=len(VOCABULARY), mode="lexical", where=self.where(least))
        holds = [id for id in self.by_text(least) if word in self.documents[id][0].split()]
        assert sorted(hit.document.id for hit in found.hits) == sorted(holds)
        self.require_stored(found)

    @precondition(lambda self: len(self.live) > 1 and len(self.saved) < 3)
    @rule(instruction=VIEWED | st.just(""))
    def save_clusters(self, instruction):
        found = self.index.cluster(instruction, k=2)
        name = f"clusters {len(self.saved)}"
        self.index.clusterings.save(name, found)
        assert found.assignments.keys() == self.documents.keys()
        self.saved[name] = instruction, {id: (self.documents[id][0], one) for id, one in found.assignments.items()}
        self.fill(instruction)

    @precondition(lambda self: self.saved and self.documents)  # an empty index has nothing to show
    @rule(data=st.data())
    def show_clusters(self, data):
        name = data.draw(st.sampled_from(sorted(self.saved)))
        instruction, known = self.saved[name]
        shown = self.index.clusterings.get(name)
        self.fill(instruction)
        kept = {id: known[id][1] for id, (text, _) in self.documents.items() if id in known and known[id][0] == text}
        assert shown.assignments.keys() == self.documents.keys()
        assert {id: shown.assignments[id] for id in kept} == kept
        assert set(shown.new) == self.documents.keys() - kept.keys()

    @invariant()
    def holds_what_was_put_in(self):
        store = self.index._opened.store
        stored = store.documents.get(list(store.documents.ids()))
        assert {id: (one.text, one.metadata["stars"]) for id, one in stored.items()} == self.documents
        views = {view.key.instruction: store.vectors.count(view.view_id) for view in store.views.all()}
        assert views == {instruction: len(texts) for instruction, texts in self.read.items()}

    def teardown(self):
        IndexMachine.runs += 1
        self.close()
        found = verify(self.path, deep=True, load=gives(FakeEncoder))
        assert found.whole, found.findings
        self.root.cleanup()

    def fill(self, instruction):
        self.whole.add(instruction)
        self.read.setdefault(instruction, set()).update(self.live)

    def where(self, least):
        return None if least is None else f"stars >= {least}"

    def matching(self, least):
        return [id for id, (_, stars) in self.documents.items() if least is None or stars >= least]

    def by_text(self, least):
        """Return the first of the matching documents of every text, and the others by id."""
        groups = {}
        for id in sorted(self.matching(least)):
            groups.setdefault(self.documents[id][0], []).append(id)
        return {first: rest for first, *rest in groups.values()}

    def require_stored(self, found):
        """Every hit is shown with the text and metadata that were put in last."""
        for hit in found.hits:
            assert (hit.document.text, hit.document.metadata["stars"]) == self.documents[hit.document.id]


def test_an_index_is_what_a_dictionary_would_be(record_property):
    bounded = settings(
        max_examples=max(1, settings.default.max_examples // 5),
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(IndexMachine, settings=bounded)
    record_property("examples", IndexMachine.runs)
