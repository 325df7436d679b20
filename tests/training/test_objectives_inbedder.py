import pytest
import torch
from objective_checks import BATCH, EVERY, ONE_BY_ONE, ROWS, agree, learner, prompt, row

from retriever.core.errors import UsageError
from retriever.encoders.reading import prompt_pieces
from retriever.training.objectives import reading
from retriever.training.objectives.inbedder import InBedderObjective, InBedderSettings
from retriever.training.pairs import remove_stopwords
from retriever.training.prompt_batches import SharedPrompts


def padded(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def answer(one, text, *, end):
    (ids,) = one.tokeniser.answers([remove_stopwords(text)], end=end)
    return ids


def surprise(logits, tokens, counted):
    """The mean over the counted tokens of -log P(token), of logits (B, T, V) and tokens (B, T)."""
    return torch.nn.functional.cross_entropy(logits[counted], tokens[counted])


def causal(one, rows, *, end=True):
    """The whole model over every whole row, and the loss of all rows at once."""
    logits, ids, asked = [], [], []
    for each in rows:
        before = prompt(one, each.text, each.instruction).rows[0]
        whole = [*before, *answer(one, each.answer, end=end)]
        logits.append(one.adapted.backbone.model(torch.tensor([whole])).logits[0])
        ids.append(torch.tensor(whole))
        asked.append(torch.arange(len(whole)) >= len(before))
    return surprise(padded(logits)[:, :-1], padded(ids)[:, 1:], padded(asked)[:, 1:])


def masked(one, rows):
    return masked_ids(
        one,
        [(prompt(one, each.text, each.instruction).rows[0], answer(one, each.answer, end=False)) for each in rows],
    )


def whole(one, text):
    """The prompt of a text's tokens under "mood"."""
    pieces = prompt_pieces(one.tokeniser.tokenizer, one.tokeniser.template, ["mood"])
    return [*pieces.before, *text, *pieces.shared]


def masked_ids(one, rows):
    """The whole model over every whole row of token ids, prompt and answer."""
    tokenizer = one.adapted.backbone.tokenizer
    logits, answers, asked = [], [], []
    for before, said in rows:
        whole = [*before, *[tokenizer.mask_id] * len(said), *tokenizer.end]
        logits.append(one.adapted.backbone.model(torch.tensor([whole])).logits[0])
        answers.append(torch.tensor([*[0] * len(before), *said, *[0] * len(tokenizer.end)]))
        at = torch.arange(len(whole))
        asked.append((at >= len(before)) & (at < len(before) + len(said)))
    return surprise(padded(logits), padded(answers), padded(asked))


def objective(one, batch=BATCH, rows=ROWS, **settings):
    return InBedderObjective(one, rows, InBedderSettings(**settings), batch)


@pytest.mark.parametrize(
    ("name", "template", "end", "piece_tokens"),
    [
        ("llama", "input-first", True, 2048),
        ("llama", "input-first", False, 60),
        ("llama", "instruct-query", True, 60),
        ("mistral", "input-first", True, 60),
        ("gpt2", "input-first", True, 60),
    ],
)
def test_loss_and_gradients_are_those_of_the_whole_model(tiny, monkeypatch, name, template, end, piece_tokens):
    monkeypatch.setattr(reading, "PIECE_TOKENS", piece_tokens)
    one = learner(tiny(name), template)
    agree(one, lambda: causal(one, ROWS, end=end), lambda: objective(one, end=end).backward([*EVERY]))


@pytest.mark.parametrize("name", ["roberta", "bert", "modernbert"])
def test_masked_models_fill_the_masks(tiny, monkeypatch, name):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 120)
    one = learner(tiny(name))
    agree(one, lambda: masked(one, ROWS), lambda: objective(one).backward([*EVERY]))


def test_questions_of_a_text_are_read_together(tiny, monkeypatch):
    seen = []
    read = SharedPrompts.read
    monkeypatch.setattr(SharedPrompts, "read", lambda self, *rest: seen.append(self) or read(self, *rest))
    objective(learner(tiny("llama"))).backward([*EVERY])
    assert sorted(len(group.branches) for one in seen for group in one.groups) == [1, 1, 1, 2, 2, 2]


def test_few_held_tokens_change_nothing(tiny):
    one = learner(tiny("llama"))
    agree(one, lambda: causal(one, ROWS), lambda: objective(one, ONE_BY_ONE).backward([*EVERY]))


def test_long_texts_and_answers_are_cut_to_a_masked_model_s_positions(tiny):
    one = learner(tiny("roberta"))
    rows = [row("toy " * 300, "mood", "love"), row("x", "mood", "knife " * 200), row("dog", "mood", "love")]
    trained = objective(one, rows=rows)
    around, limit = one.tokeniser.length_around("mood"), 128 - len(one.adapted.backbone.tokenizer.end)
    love, knives = answer(one, "love", end=False), answer(one, "knife " * 200, end=False)[: (limit - around) // 2]
    text = one.tokeniser.tokenizer.texts(["toy " * 300])[0][: limit - around - len(love)]
    assert len(text) + around + len(love) == limit  # both are cut to what there is, and nothing is left over

    def reference():
        ends = [text, one.tokeniser.tokenizer.piece("x"), one.tokeniser.tokenizer.piece("dog")]
        return masked_ids(one, [(whole(one, ids), said) for ids, said in zip(ends, [love, knives, love], strict=True)])

    agree(one, reference, lambda: trained.backward([0, 1, 2]))
    with pytest.raises(UsageError, match="positions for 128"):
        objective(one, rows=[row("x", "mood " * 120, "love")]).backward([0])
