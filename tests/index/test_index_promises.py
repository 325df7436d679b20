"""What an index promises, after every step and whatever came before it."""

import tempfile
from dataclasses import dataclass, field
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
from promise_index import (
    ENCODER,
    FAR,
    GIVEN,
    HOSTS,
    MOST_OF_A_SEARCH,
    NEAR,
    QUESTIONS,
    TAUGHT,
    PromiseIndex,
    said,
)
from teaching_corpus import mood, text

from retriever.encoders.answers import loading

TEXTS = [text(number) for number in range(24)]
BEGUN = 16  # documents that every index begins with
QUESTION = st.sampled_from(QUESTIONS)
MODEL = st.sampled_from([NEAR, FAR])
NUMBER = st.integers(0, len(TEXTS) - 1)
READ = st.sampled_from([12, 4, "all"])
PERSON = st.sampled_from(["somebody's words", "other words of somebody"])


@dataclass
class Saved:
    """A saved clustering: who served its question, the places that were shown, and what its shares rest on."""

    question: str
    served: tuple
    places: dict  # cluster by id, of documents that have not changed since they were shown
    known: dict = field(default_factory=dict)  # cluster by text
    drawn: dict = field(default_factory=dict)  # text by id
    shares: frozenset = frozenset()  # clusters whose share was told


class PromiseMachine(RuleBasedStateMachine):
    """`serving` holds who serves a question, `before` who did before it was taught; `given` what a person answered,
    `gone` answers of a person to texts that were not there for a while; `paid` what was sent, by reader, question and
    text; `left` how many texts may be sent as long as the index is open."""

    runs = 0  # of all machines

    def __init__(self):
        super().__init__()
        self.patch, self.root = pytest.MonkeyPatch(), tempfile.TemporaryDirectory()
        self.patch.setenv("RETRIEVER_CONFIG", f"{self.root.name}/config")
        self.index = PromiseIndex(Path(self.root.name))
        self.patch.setattr(loading, "load_answerer", self.index.load_reader)
        self.documents, self.allowed, self.paid, self.saved = {}, set(), set(), {}
        self.serving, self.before = dict.fromkeys(QUESTIONS, ENCODER), dict.fromkeys(QUESTIONS, ENCODER)
        self.lessons = dict.fromkeys(QUESTIONS, 0)
        self.given, self.gone = {question: {} for question in QUESTIONS}, set()
        self.encoders, self.previous, self.left, self.changes = ("question", "plain"), None, None, 0

    def teardown(self):
        PromiseMachine.runs += 1
        self.index.close()
        self.patch.undo()
        self.root.cleanup()

    @initialize()
    def begin(self):
        self.index.add({f"d{number:02}": TEXTS[number] for number in range(BEGUN)})
        self.documents = {f"d{number:02}": TEXTS[number] for number in range(BEGUN)}
        self.index.close()
        self.index.open()  # as later, without encoders at hand

    # Documents

    @rule(number=NUMBER)
    def add(self, number):
        self.put(f"d{number:02}", TEXTS[number])

    @rule(number=NUMBER, other=NUMBER)
    def change(self, number, other):
        self.put(f"d{number:02}", TEXTS[other])

    @precondition(lambda self: len(self.documents) > BEGUN // 2)
    @rule(data=st.data())
    def delete(self, data):
        id = data.draw(st.sampled_from(sorted(self.documents)))
        assert self.run("delete", lambda: self.index.delete(id)) == [id]
        self.leave(id)

    # Who serves

    @rule(question=QUESTION, model=MODEL)
    def read_by_model(self, question, model):
        if self.run("read by", lambda: self.index.read_by(question, model)):
            self.serving[question] = model
        else:
            self.require_refusal(model)

    @rule(question=QUESTION, reader=st.sampled_from([GIVEN, "default"]))
    def read_by(self, question, reader):
        self.run("read by", lambda: self.index.read_by(question, reader))
        own = TAUGHT if self.lessons[question] else ENCODER
        self.serving[question] = GIVEN if reader == GIVEN else own

    @rule(question=QUESTION, words=PERSON | st.none(), data=st.data())
    def give(self, question, words, data):
        id = data.draw(st.sampled_from(sorted(self.documents)))
        self.run("answer", lambda: self.index.give(question, {id: words}))
        self.given[question].pop(self.documents[id], None)
        self.gone.discard((question, self.documents[id]))
        if words is not None:
            self.given[question][self.documents[id]] = words
        if self.serving[question] not in HOSTS:
            self.expect_server(question, GIVEN, *([] if words else [self.serving[question]]))

    @precondition(lambda self: min(map(len, self.by_mood().values())) >= 3)
    @rule(question=QUESTION)
    def teach(self, question):
        examples = [(ids[number], answer) for answer, ids in self.by_mood().items() for number in range(3)]
        self.run("teach", lambda: self.index.teach(question, examples))
        if self.serving[question] != TAUGHT:
            self.before[question] = self.serving[question]
        self.serving[question] = TAUGHT
        self.lessons[question] = self.next_change()

    @rule(question=QUESTION)
    def forget(self, question):
        forgotten = self.run("forget", lambda: self.index.forget(question))
        self.require_forgotten(question, forgotten)
        if self.lessons[question]:
            self.lose_lessons(question)

    @rule()
    def allow(self):
        self.run("allow", lambda: self.index.allow(HOSTS[FAR]))
        self.allowed.add(HOSTS[FAR])

    # Reading

    @rule(question=QUESTION, query=st.sampled_from(["love", "hate leaks"]), settled=st.booleans())
    def search(self, question, query, settled):
        most = MOST_OF_A_SEARCH if settled and self.serving[question] in HOSTS else 0
        view = self.run("search", lambda: self.index.search(query, question, settled=settled), most)
        if view is None:
            self.require_refusal(self.serving[question])
        elif settled:
            self.require_source(question, view)

    @precondition(lambda self: len(self.saved) < 3)
    @rule(question=QUESTION, k=st.integers(1, 2), read=READ, save=st.booleans())
    def cluster(self, question, k, read, save):
        texts, read_before = set(self.documents.values()), self.read_by_now(question)
        most = max(0, (len(texts) if read == "all" else read) - len(read_before))
        found = self.run("cluster", lambda: self.index.cluster(question, k, read), most)
        if found is None:
            assert self.read_by_now(question) | self.given[question].keys() == set() or self.unasked(question)
            return
        self.require_source(question, found.view)
        self.require_shares(found)
        if save:
            self.save(f"clusters {len(self.saved)}", question, found)

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def open_saved(self, data):
        name = data.draw(st.sampled_from(sorted(self.saved)))
        saved = self.saved[name]
        shown = self.run("open saved", lambda: self.index.saved(name))
        same = saved.served == self.served(saved.question)
        self.require_shown(shown, same)
        if shown is not None:
            self.require_shares(shown)
            self.require_places(saved, shown)
            if same:
                self.require_shares_kept(saved, shown)

    @rule(question=QUESTION)
    def complete(self, question):
        self.run("complete", lambda: self.index.complete(question))

    # Upkeep

    @rule()
    def repair(self):
        self.run("repair", self.index.repair)

    @rule(limit=st.none() | st.just(3))
    def reopen(self, limit):
        self.index.close()
        self.run("open", lambda: self.index.open(limit))
        self.left = limit

    @rule(name=st.sampled_from(["other", "third"]), plain=st.booleans())
    def reembed(self, name, plain):
        now = self.encoders
        wanted = (now[0], f"plain {name}") if plain else (name, now[1])
        if wanted == now:
            return
        changed = {"plain": wanted[1]} if plain else {"encoder": wanted[0]}
        untaught = self.run("reembed", lambda: self.index.reembed(**changed))
        self.encoders, self.previous = wanted, now
        self.carry(untaught)

    @precondition(lambda self: self.previous)
    @rule()
    def roll_back(self):
        untaught = self.run("roll back", self.index.roll_back)
        self.encoders, self.previous = self.previous, self.encoders
        self.carry(untaught)

    @rule(copied=st.booleans())
    def move(self, copied):
        self.run("import", self.index.copy if copied else self.index.export_and_import)
        self.allowed, self.left = set(), None

    # After every step

    @invariant()
    def who_serves_stays(self):
        assert {question: self.index.server(question) for question in QUESTIONS} == self.serving

    @invariant()
    def answers_stay(self):
        for question, reader in self.serving.items():
            if reader not in (GIVEN, *HOSTS):
                continue
            answers, given = self.run("answers", lambda asked=question: self.index.answers(asked)), self.given[question]
            for id, read in self.documents.items():
                if (question, read) in self.gone:
                    continue
                paid = said(read, question) if (reader, question, read) in self.paid else None
                assert answers.get(id) == given.get(read, paid)

    @invariant()
    def the_index_is_whole(self):
        assert self.run("verify", self.index.findings) == []

    # Promises about a step

    def run(self, command, call, most=0):
        """Return what a command returns, having looked at every text that it sent: at most ``most``."""
        with self.index.running(command) as sent:
            result = call()
        self.require_few(command, sent, most)
        self.require_consent(sent)
        self.require_new(sent)
        self.paid.update((each.reader, each.question, each.text) for each in sent)
        return result

    def require_few(self, command, sent, most):
        most = most if self.left is None else min(most, self.left)
        assert len(sent) <= most, f"{command} sends {len(sent)} texts, {most} are allowed"
        if self.left is not None:
            self.left -= len(sent)

    def require_consent(self, sent):
        assert {each.host for each in sent} <= {"", *self.allowed}, "texts go to a host that nobody allowed"

    def require_new(self, sent):
        asked = [(each.reader, each.question, each.text) for each in sent]
        assert len(set(asked)) == len(asked), "a text is sent twice by a command"
        assert not self.paid.intersection(asked), "a text is paid twice"
        answered = {(each.question, each.text) for each in sent if each.text in self.given[each.question]}
        assert answered <= self.gone, "a text is sent that a person answered"

    def require_refusal(self, reader):
        assert reader in HOSTS, "nobody asks anybody"
        assert HOSTS[reader] not in {"", *self.allowed}, "consent is asked for that was given"

    def require_source(self, question, view):
        assert self.index.server_of(question, view) == self.serving[question]

    def require_forgotten(self, question, forgotten):
        assert forgotten == bool(self.lessons[question])

    def require_shares(self, found):
        sampled = found.sampled
        if sampled is None or sampled.whole:
            return
        told = [estimate for estimate in sampled.shares.values() if estimate.interval is not None]
        assert sampled.drawn or not told, "a share rests on nothing that was drawn"
        assert sampled.drawn or "estimated" not in sampled.sentence, sampled.sentence

    def require_shares_kept(self, saved, shown):
        left = {id for id, read in saved.drawn.items() if self.documents.get(id) == read}
        if not left:
            return
        assert shown.sampled is not None
        assert shown.sampled.whole or shown.sampled.drawn, "the texts that were drawn are forgotten"
        if left == saved.drawn.keys():
            assert saved.shares <= told_shares(shown), "a share is gone"

    def require_places(self, saved, shown):
        assert shown.assignments.keys() <= self.documents.keys()
        there = {id: shown.assignments.get(id) for id in saved.places}
        assert there == saved.places, "a document moved"
        for id, cluster in shown.assignments.items():
            assert saved.known.setdefault(self.documents[id], cluster) == cluster, "a text moved"
        saved.places = dict(shown.assignments)

    def require_shown(self, shown, same):
        assert shown is not None or not same, "a saved clustering cannot be opened though nothing changed"

    # What the steps share

    def put(self, id, read):
        self.run("index", lambda: self.index.add({id: read}))
        if self.documents.get(id) != read:
            self.leave(id)
        self.documents[id] = read

    def leave(self, id):
        """Let a document go, and its text where no other has it."""
        gone = self.documents.pop(id, None)
        for saved in self.saved.values():
            saved.places.pop(id, None)
        if gone not in self.documents.values():
            self.paid = {sent for sent in self.paid if sent[2] != gone}
            self.gone |= {(question, gone) for question in QUESTIONS}

    def save(self, name, question, found):
        self.run("save", lambda: self.index.save(name, found))
        drawn = set() if found.sampled is None else found.sampled.evenly
        self.saved[name] = Saved(
            question,
            self.served(question),
            dict(found.assignments),
            {self.documents[id]: cluster for id, cluster in found.assignments.items()},
            {id: self.documents[id] for id in drawn},
            told_shares(found),
        )

    def by_mood(self):
        """The documents that hold a good and a bad mood, one of each text."""
        ids = {read: id for id, read in sorted(self.documents.items(), reverse=True)}
        return {each: sorted(id for read, id in ids.items() if mood(read) == each) for each in ("good", "bad")}

    def read_by_now(self, question):
        """The texts there are that the model which serves a question has read."""
        reader = self.serving[question]
        return {read for read in self.documents.values() if (reader, question, read) in self.paid}

    def unasked(self, question):
        """Whether the model that serves a question may be sent nothing now."""
        reader = self.serving[question]
        return reader in HOSTS and (HOSTS[reader] not in {"", *self.allowed} or self.left == 0)

    def served(self, question):
        """What a saved clustering of a question depends on."""
        reader = self.serving[question]
        return reader, self.encoders[reader != ENCODER], self.lessons[question] if reader == TAUGHT else 0

    def expect_server(self, question, *servers):
        """Take who serves a question for right, of several that may after this step."""
        now = self.index.server(question)
        assert now in servers
        self.serving[question] = now

    def lose_lessons(self, question):
        self.lessons[question] = 0
        if self.serving[question] == TAUGHT:
            self.expect_server(question, self.before[question], ENCODER)

    def carry(self, untaught):
        """Keep who serves through a change of encoders."""
        self.left = None
        for question in QUESTIONS:
            if question in untaught:
                self.lose_lessons(question)
            elif self.lessons[question]:
                self.lessons[question] = self.next_change()

    def next_change(self):
        self.changes += 1
        return self.changes


def told_shares(found):
    if found.sampled is None:
        return frozenset()
    return frozenset(number for number, estimate in found.sampled.shares.items() if estimate.interval is not None)


def test_an_index_keeps_its_promises_in_whatever_order_it_is_used(record_property):
    bounded = settings(
        max_examples=max(1, settings.default.max_examples // 2),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(PromiseMachine, settings=bounded)
    record_property("examples", PromiseMachine.runs)
