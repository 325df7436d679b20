"""Differentiable passes over a model in training; their values are those of the encoders that will use it.

Everything is padded, positioned and tokenised by the encoders' own code (`PromptRun`, `prompt_pieces`), so that the
paths cannot differ. What the states are used for is the losses' business.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.encoders.behind_prompt import GircseEncoder
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.reading import EncodedBatch, PromptRun
from retriever.training.adapters import Adapted
from retriever.training.prompt_batches import PromptBatch, SeparatePrompts, TailStates, pad_rows

VIEW_DROPOUT = 0.2  # InstEmb, section 3: the student's second view


@dataclass(frozen=True, slots=True)
class AnswerLogits:
    """The model's predictions (M, V) in float32 at the places of a batch's answer tokens, row by row, and these."""

    logits: Tensor
    targets: Tensor


def student_states(
    adapted: Adapted, prompts: PromptBatch, *, look_ahead: int | None = None, dropout: float | None = None
) -> TailStates:
    """Read [x; s_1..s_L] with the model in training (InstEmb, eq. 1): h_|x| (B, d) and h_|x|+1.. (B, L, d).

    ``look_ahead`` is L; None for all the learned embeddings, 0 to read x alone. ``dropout`` is the share of attention
    probabilities and LoRA inputs zeroed; None for the settings' own.
    """
    backbone = adapted.backbone
    tail = backbone.embed_ids([])  # (0, d)
    if adapted.look_ahead is not None:
        tail = adapted.look_ahead[:look_ahead].to(backbone.dtype)  # (L, d)
    with adapted.dropout(dropout):
        return prompts.read(backbone, tail.expand(prompts.size, -1, -1))


@torch.no_grad()
def teacher_states(
    adapted: Adapted, prompts: PromptBatch, answers: Sequence[Sequence[int]], *, length: int
) -> TailStates:
    """Read [x; y_trunc] with the untrained model, without dropout or gradient (InstEmb, eq. 2); ``length`` is L.

    The answers y are token ids, of which the first L are read; where one is shorter the states behind it are noise.
    """
    backbone = adapted.backbone
    padded = pad_rows([ids[:length] for ids in answers], width=length, device=backbone.device)
    with adapted.base():
        return prompts.read(backbone, backbone.embed(padded.ids))


def lone_prompts(adapted: Adapted, answers: Sequence[Sequence[int]]) -> SeparatePrompts:
    """Return whole answers y, as token ids, alone, without a template: InstEmb's fourth view is their state at |y|."""
    start = adapted.backbone.tokenizer.start
    return SeparatePrompts([[*start, *ids] for ids in answers])


def soft_token_states(
    adapted: Adapted, prompts: SeparatePrompts, *, steps: int, dropout: float | None = None
) -> Tensor:
    """Return z_1..z_K (B, K, d) in float32 of GIRCSE's soft tokens (GIRCSE, eq. 3-5), K at least 1.

    Nothing is sampled or detached: gradients flow through every soft token into all that came before it. ``dropout`` as
    in `student_states`.

    Raises:
        UsageError: there is not one step.
    """
    backbone = adapted.backbone
    encoder = GircseEncoder(backbone, EncoderOptions(steps=steps))
    with adapted.dropout(dropout):
        run = PromptRun(backbone, prompts.rows, cached=True)  # a cache of new tensors, which gradients flow through
        states = run.extend(backbone.embed(run.ids))  # (B, N, d)
        read = EncodedBatch(states, states[:, :0], run.mask(states.shape[1]), [""] * run.size, "", run)
        pooled = [z for z, _ in encoder.walk(read)]
    return torch.stack(pooled, dim=1)


def answer_logits(adapted: Adapted, prompts: PromptBatch, answers: Sequence[Sequence[int]]) -> AnswerLogits:
    """Predict the answer tokens of [x; y] from those before them; the head sees no other position (InBedder, eq. 1).

    The answers y are token ids, with an end-of-text token where that is to be learned; one at least has a token.
    """
    backbone = adapted.backbone
    padded = pad_rows(answers, device=backbone.device)
    with adapted.dropout():
        read = prompts.read(backbone, backbone.embed(padded.ids[:, :-1]))
    states = torch.cat([read.last.unsqueeze(1), read.tail], dim=1)  # (B, L, d): state j predicts answer token j
    return AnswerLogits(backbone.logits(states[padded.counted]), padded.ids[padded.counted])


def masked_answer_logits(adapted: Adapted, prompts: SeparatePrompts, answers: Sequence[Sequence[int]]) -> AnswerLogits:
    """Predict the answer tokens in the places of as many mask tokens behind the prompt (InBedder, appendix).

    The model is a masked one; the answers are token ids, without an end-of-text token.

    Raises:
        UsageError: no row has an answer token, or a row is longer than the model has positions.
    """
    backbone = adapted.backbone
    tokenizer = backbone.tokenizer
    targets = [token for ids in answers for token in ids]
    if not targets:
        raise UsageError("No row of the batch has an answer.")
    rows = [
        [*prompt, *[tokenizer.mask_id] * len(ids), *tokenizer.end]
        for prompt, ids in zip(prompts.rows, answers, strict=True)
    ]
    longest, limit = max(map(len, rows)), backbone.positions
    if longest > limit:
        raise UsageError(
            f"A prompt with its answer has {longest} tokens; {backbone.source.name} has positions for {limit}.",
            hint="Cut the texts or the answers.",
        )
    padded = pad_rows(rows, device=backbone.device)
    with adapted.dropout():
        states = backbone.forward(backbone.embed(padded.ids), mask=padded.counted.long(), positions=None)
    lengths = torch.tensor([len(ids) for ids in answers], device=backbone.device)
    starts = torch.tensor([len(row) for row in prompts.rows], device=backbone.device)
    columns = torch.arange(longest, device=backbone.device)
    mask = (columns >= starts[:, None]) & (columns < (starts + lengths)[:, None])  # (B, T)
    return AnswerLogits(backbone.logits(states[mask]), torch.tensor(targets, device=backbone.device))
