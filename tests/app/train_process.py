"""Stands in for the process that trains: says it trains, and does what the training is called."""

import json
import sys
import time
from pathlib import Path

from retriever_app.training.job import Message, Training, Trainings

training = Training(Path(sys.argv[1]))
with Trainings(training.folder.parent).turn():
    stage = training.folder / "model.training" / "instemb"
    (stage / "states" / "step-00000002").mkdir(parents=True, exist_ok=True)
    (stage / "run.json").write_text(json.dumps({"steps": 8}))
    losses = [{"step": step, "loss": 4.0 / step, "seconds": step * 2.0} for step in (1, 2)]
    (stage / "losses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in losses))
    training.post(Message("training"))
    if training.name == "dies":
        sys.exit(3)
    for _ in range(3000):
        if training.is_asked_to_stop:
            training.post(Message(outcome="stopped"))
            break
        time.sleep(0.1)
