"""The methods written out slowly: one text at a time, no padding, no cache, everything read again at every step."""

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

AROUND = {
    "llama": ([], []),
    "gpt2": ([], []),
    "mistral": (["<s>"], []),
    "roberta": (["<s>"], ["</s>"]),
    "bert": (["[CLS]"], ["[SEP]"]),
    "modernbert": (["[CLS]"], ["[SEP]"]),
    "qwen3": ([], []),
}
SPECIAL = {
    "llama": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "gpt2": ["<|endoftext|>"],
    "mistral": ["<unk>", "<s>", "</s>", "<pad>"],
    "qwen3": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
}
MASKED = ("roberta", "bert", "modernbert")


def unit(vector):
    vector = np.asarray(vector, dtype=np.float64)
    return vector / np.linalg.norm(vector)


def strings(template, text, instruction):
    if template == "instruct-query":
        return f"Instruct: {instruction}\nQuery:", text, ""
    return "### Input:\n", text, f"\n\n### Instruction:\n{instruction}\n\n### Response:"


class Slow:
    def __init__(self, name, folder):
        kind = AutoModelForMaskedLM if name in MASKED else AutoModelForCausalLM
        self.model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.encode_special_tokens = True
        self.start, self.end = ([self.tokenizer.token_to_id(t) for t in side] for side in AROUND[name])
        self.ends = {self.tokenizer.token_to_id(token) for token in SPECIAL.get(name, [])}
        self.answers = {}
        self.table = self.model.get_input_embeddings().weight.detach()

    def ids(self, piece):
        return self.tokenizer.encode(piece, add_special_tokens=False).ids if piece else []

    def prompt(self, text, instruction, template="input-first"):
        before, middle, after = strings(template, text, instruction)
        return [*self.start, *self.ids(before), *self.ids(middle)[:512], *self.ids(after)]

    @torch.no_grad()
    def read(self, embeddings):
        output = self.model(
            inputs_embeds=embeddings[None], output_hidden_states=True, **self.no_cache(), return_dict=True
        )
        return output.hidden_states[-1][0], output.logits[0]

    def no_cache(self):
        return {"use_cache": False} if self.model.can_generate() else {}

    def read_ids(self, ids):
        return self.read(self.table[torch.tensor(ids)])

    def said(self, ids):
        return self.read_ids(ids)[1][-1].softmax(-1)

    def plain(self, text, instruction, pooling, template="input-first"):
        states = self.read_ids(self.prompt(text, instruction, template))[0]
        return unit(states[-1] if pooling == "last" else states[len(self.start) :].mean(0))

    def greedy(self, ids, length):
        key = (tuple(ids), length, frozenset(self.ends))
        if key not in self.answers:
            self.answers[key] = self._greedy(ids, length)
        return self.answers[key]

    def _greedy(self, ids, length):
        answer = []
        for _ in range(length):
            token = int(self.read_ids([*ids, *answer])[1][-1].argmax())
            if token in self.ends:
                break
            answer.append(token)
        return answer

    def inbedder(self, text, instruction, pooling, *, steps=3, template="input-first"):
        ids = self.prompt(text, instruction, template)
        n = len(ids)
        if pooling == "1st-gen":
            return unit(self.read_ids(ids)[0][-1])
        if pooling == "avg-ppt":
            return unit(self.read_ids(ids)[0][len(self.start) : n - 1].mean(0))
        answer = self.greedy(ids, steps)
        states = self.read_ids([*ids, *answer])[0]
        if pooling == "avg-all":
            return unit(states[len(self.start) :].mean(0))
        pooled = states[n - 1 :]  # h_N .. h_(N + Ng)
        return unit(pooled.mean(0) if pooling == "avg-gen" else pooled[-1])

    def instemb(self, text, instruction, pooling, look_ahead, template="input-first"):
        ids = self.prompt(text, instruction, template)
        states, logits = self.read(torch.cat([self.table[torch.tensor(ids)], look_ahead]))
        last, tail = states[len(ids) - 1], states[len(ids) :]
        said = logits[len(ids) - 1 :].softmax(-1).mean(0)
        if len(look_ahead) == 0:
            return unit(last), said
        pooled = {
            "daap": 0.5 * (last + tail.mean(0)),
            "input-last": last,
            "special-first": tail[0],
            "special-mean": tail.mean(0),
            "all-mean": states[len(ids) - 1 :].mean(0),
            "input-last+special-first": torch.stack([last, tail[0]]).mean(0),
        }
        return unit(pooled[pooling]), said

    def gircse(self, text, instruction, steps, template="input-first"):
        inputs = self.table[torch.tensor(self.prompt(text, instruction, template))]
        read, soft, pooled = [], [], []
        for _ in range(steps):
            soft.append(self.read(inputs)[1][-1].softmax(-1))
            inputs = torch.cat([inputs, (soft[-1] @ self.table)[None]])
            read.append(self.read(inputs)[0][-1])
            pooled.append(unit(torch.stack(read).mean(0)))
        return pooled, torch.stack(soft).mean(0)

    def masked(self, text, instruction, pooling, template="input-first"):
        prompt = self.prompt(text, instruction, template)
        mask = self.tokenizer.token_to_id("<mask>") or self.tokenizer.token_to_id("[MASK]")
        states, logits = self.read_ids([*prompt, mask, mask, mask, *self.end])
        masks = slice(len(prompt), len(prompt) + 3)
        pooled = states[masks] if pooling == "masks" else states[len(self.start) : len(prompt)]
        return unit(pooled.mean(0)), logits[masks].softmax(-1).mean(0)


class Recorder:
    """Stands in for a WordReadout and keeps what the encoder says."""

    def __init__(self):
        self.answers, self.priors = [], []

    def read(self, answers, top, *, prior):
        self.answers.append(answers.clone())
        self.priors.append(prior.clone())
        return [["word"] * top for _ in answers]
