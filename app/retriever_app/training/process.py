"""The process that trains. It knows a training's folder, and leaves a message there however it ends."""

import _thread
import os
import shlex
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from retriever.core.errors import RetrieverError, TrainingInterrupted
from retriever_app.training.job import Message, Training, Trainings

_NICE = 10  # a search beside it comes first
_STOP_SECONDS = 0.2  # between looks at whether it is to stop


def main() -> int:
    """Train what lies in the folder that the command line names; return the exit code."""
    training = Training(Path(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a server started in the background ignores it
    if sys.platform != "win32":
        os.nice(_NICE)
    try:
        with Trainings(training.folder.parent).turn():
            return _trained(training)
    except RetrieverError as error:
        return _failed(training, error)


def _trained(training: Training) -> int:
    threading.Thread(target=_interrupt_when_asked, args=(training,), daemon=True).start()
    try:
        _train(training)
    except (KeyboardInterrupt, TrainingInterrupted):
        training.post(Message(outcome="stopped"))
    except RetrieverError as error:
        return _failed(training, error)
    except Exception as error:
        traceback.print_exc()
        message = f"Unexpected error: {type(error).__name__}: {error}."
        training.post(Message(outcome="failed", message=message, hint=f"{training.log} shows where; please report it."))
        return 1
    return 0


def _failed(training: Training, error: RetrieverError) -> int:
    training.post(Message(outcome="failed", message=error.message, hint=error.hint))
    return error.exit_code


def _interrupt_when_asked(training: Training) -> None:
    """Do what Ctrl-C does, once, when the training is asked to stop: on any system, and to no other process."""
    while not training.is_asked_to_stop:
        time.sleep(_STOP_SECONDS)
    _thread.interrupt_main()


def _train(training: Training) -> None:
    training.post(Message("starting"))
    from retriever.training.run.finetuning import FinetuneRequest, finetune

    request = ["retriever", "finetune", str(training.rows_file), "--output", str(training.model)]
    finetune(
        FinetuneRequest(
            [str(training.rows_file)],
            training.model,
            base=training.base,
            resume=True,
            promote=False,
            command=shlex.join([*request, "--base", training.base, "--no-promote", "--resume"]),
        ),
        on_progress=lambda stage, progress: _post_once(training, "training"),
        announce=lambda doing: training.post(Message(doing)),
    )


def _post_once(training: Training, doing: str) -> None:
    if training.message() != Message(doing):
        training.post(Message(doing))


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # taking torch's modules apart one by one would hold up the next training
