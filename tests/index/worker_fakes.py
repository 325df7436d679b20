"""Encoders that workers load by name: each does what a line of its settings file says.

The encoder's name is the path of a JSON file: ``seconds`` a text, ``log`` for what was read, ``kill`` and ``fail`` for
words that end the process or raise when a text holds them.
"""

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from index_fakes import RichEncoder

from retriever.core.errors import EncoderError
from retriever.core.protocols import EncoderSpec
from retriever.index.verdicts.reading import REFERENCES

LOAD = "worker_fakes:load"


class LoggedEncoder(RichEncoder):
    """A `RichEncoder` that notes every text it has read in a file, and may be slow, deadly or faulty."""

    def __init__(self, path):
        settings = json.loads(Path(path).read_text())
        super().__init__(settings.get("fingerprint", "logged"))
        self.spec: EncoderSpec = replace(self.spec, name=str(path))
        self._settings = settings

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        if REFERENCES[0] in instructions:  # for a verdict, when all is indexed
            return super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)
        for text in texts if words else ():
            time.sleep(self._settings.get("seconds", 0))
            if self._settings.get("kill", "\0") in text:
                os.kill(os.getpid(), signal.SIGKILL)
            if self._settings.get("fail", "\0") in text:
                raise ValueError(f"cannot read {text!r}")
            if self._settings.get("full", "\0") in text:
                raise MemoryError
        found = super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)
        if words and "log" in self._settings:
            lines = [json.dumps([os.getpid(), text, one]) + "\n" for text in texts for one in instructions]
            with Path(self._settings["log"]).open("a") as file:
                file.write("".join(lines))
        return found


def load(description, *, device="auto"):
    """Give the encoder of a description, as `load_described` does; without its file, what that would say."""
    if not Path(description["name"]).exists():
        raise EncoderError(f"The index was made by {description['name']}, which cannot be loaded.", hint="Put it back.")
    if json.loads(Path(description["name"]).read_text()).get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    return LoggedEncoder(description["name"])
