"""Loads the GIRCSE encoder in this folder; needs torch and transformers alone.

from loader import Gircse

encoder = Gircse(".")
vectors = encoder.encode(["The kettle broke."], instruction="What broke?")
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast


class Gircse:
    """Reads a prompt, then K soft tokens, each the mixture of input embeddings that the model expects next.

    Args:
        folder: where config.json, model.safetensors, tokenizer.json and gircse.json lie.
        device: where to run.
    """

    def __init__(self, folder: str | Path, device: str = "cpu") -> None:
        self.settings = json.loads((Path(folder) / "gircse.json").read_text(encoding="utf-8"))
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True, trust_remote_code=False)
        self.model = model.to(device).eval()

    @torch.inference_mode()
    def encode(
        self, texts: Sequence[str], instruction: str = "", steps: int | None = None, batch_size: int = 16
    ) -> Tensor:
        """Return (n, d) float32 rows of length 1; an empty instruction means the stored one, no steps the stored K."""
        prompts = [self._prompt(text, instruction.strip() or self.settings["instruction"]) for text in texts]
        order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))  # like beside like: little padding
        vectors = torch.zeros(len(prompts), self.model.config.hidden_size)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            vectors[rows] = self._read([prompts[row] for row in rows], steps or self.settings["steps"]).cpu()
        return vectors

    def _prompt(self, text: str, instruction: str) -> list[int]:
        """Return the prompt's token ids; its pieces are tokenised apart, and only the text is cut."""
        before, after = (self.settings[name].replace("{instruction}", instruction) for name in ("before", "after"))
        cut = self._ids(text)[: self.settings["max_text_tokens"]]
        return [*self.settings["start"], *self._ids(before), *cut, *self._ids(after)]

    def _ids(self, piece: str) -> list[int]:
        return list(self.tokenizer(piece, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    def _read(self, prompts: list[list[int]], steps: int) -> Tensor:
        """Return z_K (B, d), the mean state of the K soft tokens, for left-padded prompts."""
        longest, device = max(map(len, prompts)), self.model.device
        padding = torch.tensor([longest - len(prompt) for prompt in prompts], device=device)[:, None]  # (B, 1)
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts], device=device)  # (B, T)
        read, head = self.model.base_model, self.model.get_output_embeddings()
        table = self.model.get_input_embeddings().weight  # E, (V, d)
        columns = torch.arange(longest + steps, device=device)
        mask, positions = columns >= padding, (columns - padding).clamp(min=0)  # (B, T + K)
        inputs, cache, total = read.get_input_embeddings()(ids), None, 0.0
        for end in range(longest, longest + steps + 1):
            output = read(
                inputs_embeds=inputs,
                attention_mask=mask[:, :end],
                position_ids=positions[:, end - inputs.shape[1] : end],
                past_key_values=cache,
                use_cache=True,
            )
            state, cache = output.last_hidden_state[:, -1], output.past_key_values  # (B, d)
            total = total + state.float() if end > longest else total
            soft = head(state).float().softmax(dim=-1)  # (B, V)
            inputs = (soft.to(table.dtype) @ table[: soft.shape[1]]).unsqueeze(1)  # (B, 1, d)
        return torch.nn.functional.normalize(torch.as_tensor(total) / steps, dim=-1)
