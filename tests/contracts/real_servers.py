"""Chat servers as others run them: llama.cpp's from the wheel `xllamacpp`, and `transformers serve`; on loopback."""

import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import httpx
import tiny_models
import torch
from tokenizers import AddedToken
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from retriever.encoders.wheels import WHEELS

SECONDS = 120
SMOLLM2 = "smollm2"
ADDRESS = re.compile(r"(?:listening|running) on (http://127\.0\.0\.1:\d+)")

# A server whose standard input ends has lost its tests, however these ended.
ENDS_WITH_US = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
"""
LLAMA_CPP = """
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.model_alias = sys.argv[1], int(sys.argv[2]), {sys.argv[3]}
params.n_parallel, params.warmup, params.offline = 1, False, True
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
threading.Event().wait()
"""
TRANSFORMERS = """
from transformers.cli.transformers import main
sys.argv[1:] = ["serve", "--host", "127.0.0.1", "--port", "0", "--device", "cpu"]
main()
"""


class RealServer:
    """A server in a process of its own, ready when it is made.

    Args:
        program: Python that serves on a free port and says which.
        arguments: of the program.
        folder: gets its log.
        request: what the log says of every request.
    """

    def __init__(self, program, arguments, folder: Path, request: str):
        self._log, self._request = folder / "server.log", request
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", ENDS_WITH_US + program, *map(str, arguments)],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        try:
            self.url = self._address()
        except BaseException:
            self.stop()
            raise

    def _address(self):
        until = time.monotonic() + SECONDS
        while not (said := ADDRESS.search(self.log)):
            assert self._process.poll() is None, self.log[-3000:]
            assert time.monotonic() < until, f"The server does not start. {self.log[-3000:]}"
            time.sleep(0.05)
        httpx.get(f"{said[1]}/health", timeout=SECONDS, trust_env=False).raise_for_status()
        return f"{said[1]}/v1"

    @property
    def log(self):
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def requests(self):
        """Count the chat requests that it worked on."""
        return self.log.count(self._request)

    def pause(self):
        """Let it answer nothing, its port open."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()


def llama_cpp(folder, context=4096):
    """Serve SmolLM2, of the wheel that ships, with llama.cpp and a context of so many tokens."""
    wheel = WHEELS["smollm2-135m"]
    model = Path(find_spec(wheel.module).origin).with_name(wheel.file)
    return RealServer(LLAMA_CPP, [model, context, SMOLLM2], folder, "launch_slot_:")


def transformers_serve(folder):
    """Serve, by their folders, the models that calls name."""
    return RealServer(TRANSFORMERS, [], folder, '"POST /v1/chat/completions')


def save_parrot(folder, says):
    """Write a model that says the same to everything; return its folder.

    Every token but two stands for itself as (1, 0, 0, 0), after which the words come, a token of their own; that is
    (0, 1, 0, 0), after which the end comes.
    """
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tiny_models.byte_level(special), eos_token=special[2])
    tokenizer.add_tokens([AddedToken(says, normalized=False)])
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}<|im_start|>"
    tokenizer.save_pretrained(folder)
    words, end = tokenizer.convert_tokens_to_ids([says, special[2]])
    config = LlamaConfig(
        **tiny_models.shape(hidden_size=4, num_hidden_layers=1, num_attention_heads=1, vocab_size=len(tokenizer)),
        max_position_embeddings=8192,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in (model.model.layers[0].self_attn.o_proj.weight, model.model.layers[0].mlp.down_proj.weight):
            weight.zero_()  # what was read before changes nothing
        first, second = torch.eye(4)[:2]
        model.model.embed_tokens.weight[:] = first
        model.model.embed_tokens.weight[words] = second
        model.lm_head.weight.zero_()
        model.lm_head.weight[words], model.lm_head.weight[end] = first, second
    model.save_pretrained(folder)
    return folder
