"""The promises of an index hold after every step and whatever came before it."""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from index_fakes import FAULT, MOOD
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
LIMIT = 3  # texts of a question that a limited index may have sent
QUESTION = st.sampled_from([MOOD, MOOD, MOOD, FAULT])  # the second one shows that questions are kept apart
READER = st.sampled_from([NEAR, NEAR, FAR, GIVEN, "default"])
QUERY = st.sampled_from(["love", "hate leaks"])
NUMBER = st.integers(0, len(TEXTS) - 1)
READ = st.sampled_from([12, 12, 4, "all"])
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
    """`choices` holds who was chosen to serve a question, the last of whom does; `given` what a person answered, `gone`
    answers of a person to texts that were not there for a while; `paid` what was sent, by reader, question and text;
    `limit` how many texts of a question may have been sent as long as the index is open."""

    runs = 0  # of all machines

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.root = tempfile.TemporaryDirectory(
            dir=os.getenv("PYTEST_DEBUG_TEMPROOT")
        )  # in memory, where there is room
        self.patch.setenv("RETRIEVER_CONFIG", f"{self.root.name}/config")
        self.index = PromiseIndex(Path(self.root.name))
        self.patch.setattr(loading, "load_answerer", self.index.load_reader)
        self.documents, self.allowed, self.paid, self.saved = {}, set(), set(), {}
        self.choices = {question: [ENCODER] for question in QUESTIONS}
        self.lessons = dict.fromkeys(QUESTIONS, 0)
        self.given, self.gone = {question: {} for question in QUESTIONS}, set()
        self.encoders, self.previous, self.limit = {"encoder": "question", "plain": "plain"}, None, None
        self.changes = self.teachings = 0
        self.unlearned = set()  # questions whose lessons the encoders before still have

    def teardown(self):
        PromiseMachine.runs += 1
        self.index.close()
        self.patch.undo()
        self.root.cleanup()

    @initialize()
    def begin(self):
        self.index.add({f"d{number:02}": TEXTS[number] for number in range(BEGUN)})
        self.documents = {f"d{number:02}": TEXTS[number] for number in range(BEGUN)}
        self.index.reopen()  # as later, without encoders at hand

    # Documents

    @rule(number=NUMBER, step=st.sampled_from(["add", "add", "change", "delete"]), other=NUMBER)
    def write(self, number, step, other):
        """Add a document, give one the text of another, or delete one, as long as enough are left to teach by."""
        id, read = f"d{number:02}", TEXTS[other if step == "change" else number]
        if step != "delete":
            self.run("index", lambda: self.index.add({id: read}))
            if self.documents.get(id) != read:
                self.leave(id)
            self.documents[id] = read
        elif len(self.documents) > BEGUN // 2:
            assert self.run("delete", lambda: self.index.delete(id)) == [id] * (id in self.documents)
            self.leave(id)

    # Who serves

    @rule(question=QUESTION, reader=READER, allow=st.booleans())
    def read_by(self, question, reader, allow):
        if reader == FAR and allow:
            self.run("allow", lambda: self.index.allow(HOSTS[FAR]))
            self.allowed.add(HOSTS[FAR])
        if self.run("read by", lambda: self.index.read_by(question, reader)):
            own = TAUGHT if self.lessons[question] else ENCODER
            self.choose(question, own if reader == "default" else reader)
        else:
            self.require_refusal(reader)

    @rule(question=QUESTION, words=PERSON | st.none(), data=st.data())
    def give(self, question, words, data):
        id = data.draw(st.sampled_from(sorted(self.documents)))
        self.run("answer", lambda: self.index.give(question, {id: words}))
        self.given[question].pop(self.documents[id], None)
        self.gone.discard((question, self.documents[id]))
        if words is None:
            self.leave_places(question, self.documents[id])
        else:
            self.given[question][self.documents[id]] = words
        if self.serving[question] not in HOSTS:
            self.choose(question, GIVEN)

    @rule(question=QUESTION, forget=st.booleans())
    def teach(self, question, forget):
        if forget:
            forgotten = self.run("forget", lambda: self.index.forget(question))
            self.require_forgotten(question, forgotten)
            if forgotten:
                self.lose_lessons(question)
        elif self.teachings < 2 and min(map(len, self.by_mood().values())) >= 3:  # it takes as long as ten other steps
            examples = [(ids[number], answer) for answer, ids in self.by_mood().items() for number in range(3)]
            self.run("teach", lambda: self.index.teach(question, examples))
            self.given[question].update({self.documents[id]: answer for id, answer in examples})
            self.gone -= {(question, self.documents[id]) for id, _ in examples}
            self.choose(question, TAUGHT)
            self.lessons[question] = self.next_change()
            self.teachings += 1

    # Reading

    @rule(question=QUESTION, query=QUERY, settled=st.sampled_from([True, True, False]))
    def search(self, question, query, settled):
        most = MOST_OF_A_SEARCH if settled and self.serving[question] in HOSTS else 0
        view = self.run("search", lambda: self.index.search(query, question, settled=settled), most)
        if view is None:
            self.require_refusal(self.serving[question])
        elif settled:
            self.require_source(question, view)

    @rule(question=QUESTION, k=st.sampled_from([1, 2, None]), read=READ, save=st.sampled_from([True, True, False]))
    def cluster(self, question, k, read, save):
        """Group by answers or by vectors; without a number by categories of somebody."""
        texts, read_before = set(self.documents.values()), self.read_by_now(question)
        most = max(0, (len(texts) if read == "all" else read) - len(read_before))
        into = () if k else ("good", "bad")
        found = self.run("cluster", lambda: self.index.cluster(question, k, into, read), most)
        if found is None:
            refused = HOSTS.get(self.serving[question], "") not in {"", *self.allowed}
            answered = self.read_by_now(question) | self.given[question].keys() & texts
            assert refused or len(answered) < (k or 1)
            return
        self.require_source(question, found.view)
        self.require_shares(found)
        if save and len(self.saved) < 3:
            self.save(f"clusters {len(self.saved)}", question, found)

    @precondition(lambda self: self.saved)
    @rule()
    def open_saved(self):
        for name, saved in self.saved.items():
            shown = self.run("open saved", lambda asked=name: self.index.saved(asked))
            same = saved.served == self.served(saved.question)
            self.require_shown(shown, same)
            if shown is not None:
                self.require_shares(shown)
                self.require_places(saved, shown)
            if shown is not None and same:
                self.require_shares_kept(saved, shown)

    # Upkeep

    @rule(question=QUESTION, step=st.sampled_from(["repair", "complete", "reopen", "limit", "import", "copy"]))
    def maintain(self, question, step):
        """Repair, complete, open anew, or go on with what an export is imported as, or with a copy of the folder."""
        steps = {
            "repair": self.index.repair,
            "complete": lambda: self.index.complete(question),
            "reopen": self.index.reopen,
            "limit": lambda: self.index.reopen(LIMIT),
            "import": self.index.export_and_import,
            "copy": self.index.copy,
        }
        self.run(step, steps[step])
        if step in ("import", "copy"):
            self.allowed = set()
        if step in ("reopen", "limit", "import", "copy"):
            self.limit = LIMIT if step == "limit" else None

    @rule(change=st.sampled_from([{"encoder": "other"}, {"plain": "other plain"}, {}]))
    def reembed(self, change):
        """Change one encoder, or go back to those before."""
        if not change and not self.previous:
            return
        wanted = {**self.encoders, **change} if change else self.previous
        if wanted == self.encoders:
            return
        call = (lambda: self.index.reembed(**change)) if change else self.index.roll_back
        untaught = self.run("reembed" if change else "roll back", call)
        self.encoders, self.previous, self.limit = wanted, self.encoders, None
        regained = set() if change else self.unlearned - untaught
        self.keep_serving(untaught)
        for question in regained:
            self.regain_lessons(question)
        self.unlearned = untaught

    # After every step

    @invariant()
    def who_serves_stays(self):
        servers = {question: self.index.server(question) for question in QUESTIONS}
        assert servers == self.serving, f"{servers}, not {self.serving}"

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
        findings = self.run("verify", self.index.findings)
        assert not findings, findings

    # Promises about a step

    def run(self, command, call, most=0):
        """Return what a command returns, having looked at every text that it sent: at most ``most``."""
        calls_before = len(self.index.called)
        with self.index.running(command) as sent:
            result = call()
        self.require_few(command, sent, most)
        self.require_consent([*sent, *self.index.called[calls_before:]])
        self.require_calls_once()
        self.require_new(sent)
        self.paid.update((each.reader, each.question, each.text) for each in sent)
        return result

    def require_few(self, command, sent, most):
        assert len(sent) <= most, f"{command} sends {len(sent)} texts, {most} are allowed"
        for reader, question in {(each.reader, each.question) for each in sent}:
            before = sum(paid[:2] == (reader, question) for paid in self.paid)
            now = sum((each.reader, each.question) == (reader, question) for each in sent)
            assert self.limit is None or before + now <= self.limit, f"{before + now} texts, {self.limit} are allowed"

    def require_consent(self, sent):
        hosts = {each.host for each in sent}
        assert hosts <= {"", *self.allowed}, "texts or answers go to a host that nobody allowed"

    def require_new(self, sent):
        asked = [(each.reader, each.question, each.text) for each in sent]
        assert len(set(asked)) == len(asked), "a text is sent twice by a command"
        assert not self.paid.intersection(asked), "a text is paid twice"
        answered = {(each.question, each.text) for each in sent if each.text in self.given[each.question]}
        assert answered <= self.gone, "a text is sent that a person answered"

    def require_calls_once(self):
        called = self.index.called
        assert {each.command for each in called} <= {"cluster", "search"}, "answers are sent though nobody wants them"
        assert len({(each.reader, each.content) for each in called}) == len(called), "the same answers are sent twice"

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

    def leave(self, id):
        """Let a document go, and its text where no other has it."""
        gone = self.documents.pop(id, None)
        for saved in self.saved.values():
            saved.places.pop(id, None)
        if gone not in self.documents.values():
            self.paid = {sent for sent in self.paid if sent[2] != gone}
            self.gone |= {(question, gone) for question in QUESTIONS}

    def leave_places(self, question, read):
        """Expect no place of a text that a person withdraws an answer to: it may have no other answer."""
        ids = {id for id, other in self.documents.items() if other == read}
        for saved in self.saved.values():
            if saved.question == question:
                saved.places = {id: place for id, place in saved.places.items() if id not in ids}

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

    def served(self, question):
        """The state that a saved clustering of a question depends on."""
        reader = self.serving[question]
        return (
            reader,
            self.encoders["encoder" if reader == ENCODER else "plain"],
            self.lessons[question] if reader == TAUGHT else 0,
        )

    @property
    def serving(self):
        """Who serves each question."""
        return {question: chosen[-1] for question, chosen in self.choices.items()}

    def choose(self, question, server):
        if self.serving[question] != server:
            self.choices[question] = [*(other for other in self.choices[question] if other != server), server]

    def lose_lessons(self, question):
        self.lessons[question] = 0
        self.unlearned.discard(question)
        self.choices[question] = [other for other in self.choices[question] if other != TAUGHT] or [ENCODER]

    def regain_lessons(self, question):
        """Expect a lesson that only the encoders which are back have: it serves unless somebody chose since."""
        if not self.lessons[question]:
            self.lessons[question] = self.next_change()
            *before, last = self.choices[question]
            taught = self.index.server(question) == TAUGHT
            assert taught or last != ENCODER or before, "who was chosen since does not serve"
            self.choices[question] = [*before, last, TAUGHT] if taught else [*before, TAUGHT, last]

    def keep_serving(self, untaught):
        """Keep who serves through a change of encoders, but for questions whose lessons cannot be learned again."""
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
        phases=(Phase.explicit, Phase.generate),  # a shorter example takes minutes to find
    )
    run_state_machine_as_test(PromiseMachine, settings=bounded)
    record_property("examples", PromiseMachine.runs)
