"""InBedder's losses: the answer's tokens alone, for causal and for masked language models.

Source: Peng et al., "Answer is All You Need: Instruction-following Text Embedding via Answering the Question", 2024.
"""

from torch import Tensor

from retriever.training.losses.tokens import mean_cross_entropy


def predicting(answer: Tensor) -> Tensor:
    """Return the mask (B, T) of the positions whose states predict an answer token: one to the left of each.

    A caller that has the hidden states needs logits at these positions only, not at all T of them. A token at
    position 0 has nothing before it and is not predicted.

    Args:
        answer: (B, T), true at the answer's tokens.
    """
    before = answer.roll(-1, dims=1)  # (B, T)
    before[:, -1] = False
    return before


def predicted(ids: Tensor, answer: Tensor) -> Tensor:
    """Return the answer tokens (C,), in the order in which indexing with `predicting` lists their positions.

    Args:
        ids: tokens (B, T) of prompt and answer.
        answer: (B, T), true at the answer's tokens.
    """
    return ids[:, 1:][answer[:, 1:]]


def next_token(logits: Tensor, ids: Tensor, answer: Tensor) -> Tensor:
    """Return the mean over answer tokens of -log P(token | all before it); prompt and padding are masked out.

    The shift is done here: logits[:, t - 1] are held to ids[:, t].

    Args:
        logits: (B, T, V), as the model gives them for ``ids``.
        ids: tokens (B, T) of prompt and answer.
        answer: (B, T), true at the answer's tokens.
    """
    return mean_cross_entropy(logits[predicting(answer)], predicted(ids, answer))


def masked_token(logits: Tensor, answers: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over mask tokens of -log P(the answer's token in its place); nothing is shifted.

    Args:
        logits: (B, T, V), of a prompt with as many mask tokens behind it as the answer has tokens.
        answers: (B, T), the answer's tokens in the places of the mask tokens, anything elsewhere.
        mask: (B, T), true at the mask tokens.
    """
    return mean_cross_entropy(logits[mask], answers[mask])
