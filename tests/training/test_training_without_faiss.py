import subprocess
import sys

import finetune_fakes as fakes

HIDDEN = ("faiss", "charset_normalizer", "streamlit", "altair", "sentence_transformers")
SETTINGS = "[loop]\nmax_steps = 2\n[batch]\ntexts = 4\n[adapter]\nrank = 2\nlook_ahead = 1\n[objective]\nviews = []\n"
RUN = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None  # importing it fails as if it were not there
from importlib.metadata import PackageNotFoundError
import retriever.core.environment
def none(name):
    raise PackageNotFoundError(name)
retriever.core.environment.version = none
from retriever.cli.main import main
for arguments in {commands!r}:
    code = main(arguments)
    if code:
        sys.exit(code)
"""


def restaurant_rows():
    """Sentences on two aspects in two moods, six of each."""
    kinds, moods = {"soup": "FOOD#QUALITY", "waiter": "SERVICE#GENERAL"}, {"lovely": "positive", "awful": "negative"}
    return [
        {"id": text, "text": text, "aspects": [{"aspect": kinds[text.split()[0]], "polarity": moods[text.split()[1]]}]}
        for text in (f"{kind} {mood} {number}" for kind in kinds for mood in moods for number in range(6))
    ]


def test_training_and_scoring_need_neither_faiss_nor_an_installed_package(tiny, tmp_path):
    (tmp_path / "tune.toml").write_text(SETTINGS)
    fakes.write(tmp_path / "aspects_restaurant_acos.jsonl", restaurant_rows())
    rows = fakes.write(tmp_path / "qa.jsonl", fakes.rows(24))
    out = str(tmp_path / "out")
    train = ["finetune", rows, "--output", out, "--base", f"plain:{tiny('llama')}", "--device", "cpu", "--no-promote"]
    train += ["--config", str(tmp_path / "tune.toml"), "--dtype", "float32"]
    measure = ["eval", "awareness", "--task", "restaurants", "--data", str(tmp_path), "--encoder", out, "--limit", "12"]
    code = RUN.format(hidden=HIDDEN, commands=[train, measure])
    environment = {"RETRIEVER_CACHE": str(tmp_path / "cache"), "RETRIEVER_CONFIG": str(tmp_path / "config")}
    environment |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "triplets, harmonic mean" in ran.stdout
    assert (tmp_path / "out" / "finetune.json").is_file()
