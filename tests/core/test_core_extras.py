"""The packages that come with each extra, and what a command says where a package is not there."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest
import yaml

from retriever.core.errors import RetrieverError
from retriever.core.registry import DISTRIBUTION, PACKAGES, resolve

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = sorted({name for names in PACKAGES.values() for name in names})
LAZY = {
    ("retriever.encoders.cross_encoder", "sentence_transformers"),
    ("retriever.encoders.sentence_encoder", "sentence_transformers"),
    ("retriever.encoders.export.sentence_folder", "sentence_transformers"),
    ("retriever.index.workers.ray_pool", "ray"),
}
WINGS = {
    "retriever_app": "app",
    "retriever.api": "serve",
    "retriever.encoders.answers": "chat",
    "retriever.encoders.remote": "chat",
    "retriever.integrations": "integrations",
    "retriever.training": "train",
    "retriever.evaluation": "eval",
}
BLOCKED = """
import sys
sys.path.insert(0, {fakes!r})
for name in {names!r}:
    sys.modules[name] = None
from cli_fakes import load_encoder
from retriever.encoders import catalog
catalog.load_encoder = load_encoder
from retriever.cli.main import main
for argv in {argvs!r}:
    code = main(argv)
    found = sorted(set({names!r}) & {{name for name, module in sys.modules.items() if module}})
    print(argv[0], code, found, file=sys.stderr)
    if code:
        sys.exit(code)
"""


def ran(argvs, names, cwd):
    """Run commands one after another in a process that lacks some modules."""
    code = BLOCKED.format(fakes=str(ROOT / "tests/cli"), names=names, argvs=argvs)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, env=environment)


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required(extra=""):
    """Return the distributions that an extra, or none, names, those of the extras it names included."""
    lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = set()
    for line in lines:
        name, others = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", line).groups()
        found |= set().union(*map(required, others.split(","))) if name == DISTRIBUTION else {normalised(name)}
    return found


def test_what_a_part_imports_is_installed_with_it():
    graph = grimp.build_graph("retriever", "retriever_app", include_external_packages=True)
    distributions = {module: set(map(normalised, names)) for module, names in packages_distributions().items()}
    ours = [name for name in graph.modules if name.partition(".")[0] in ("retriever", "retriever_app")]
    checked = set()
    for importer in ours:
        extra = next((extra for wing, extra in WINGS.items() if f"{importer}.".startswith(f"{wing}.")), "")
        allowed = required() | (required(extra) if extra else set())
        for imported in graph.find_modules_directly_imported_by(importer):
            if imported in distributions and imported not in ours and (importer, imported) not in LAZY:
                assert distributions[imported] & allowed, f"{importer} imports {imported}"
                checked.add(imported)
    assert {"torch", "streamlit", "ir_measures", "sklearn", "peft", "charset_normalizer"} <= checked


def test_everything_is_in_all_and_a_developer_has_it():
    assert required("all") == required("app") | required("chat") | required("eval") | required("serve") | required(
        "train"
    )
    assert required("dev") >= required("all")
    names = {name: normalised(packages_distributions()[name][0]) for name in OPTIONAL}
    for extra, packages in PACKAGES.items():
        assert {names[name] for name in packages} == required(extra)


@pytest.mark.parametrize(
    ("argv", "extra", "missing"),
    [
        (["finetune", "qa.jsonl", "-o", "model"], "train", "ir_measures"),
        (["finetune", "qa.jsonl", "-o", "model"], "train", "matplotlib"),
        (["eval", "all"], "eval", "ir_measures"),
        (["eval", "all"], "eval", "matplotlib"),
        (["app"], "app", "streamlit"),
        (["serve"], "serve", "fastapi"),
        (["serve"], "serve", "mcp"),
        (["mcp"], "mcp", "mcp"),
    ],
)
def test_a_missing_package_is_told_with_the_line_that_installs_it(tmp_path, argv, extra, missing):
    done = ran([argv], [missing], tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: The package {missing!r} is missing.\n")
    assert f": pip install '.[{extra}]'\n" in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("extra", "line"), [("milvus", "pip install '.[milvus]'"), (None, "pip install no_such")])
def test_a_module_that_is_missing_where_it_is_used_is_told_with_the_line_too(extra, line):
    with pytest.raises(RetrieverError, match="The package 'no_such' is missing") as error:
        resolve("no_such:thing", extra=extra)
    assert error.value.hint.endswith(line)


def test_nothing_tells_to_install_the_other_project_of_our_modules_name():
    old = re.compile(
        r"(?<!instruction-)\bretriever\[[a-z]|pip install [^\n`]*?(?<![-/\w.])retriever\b(?!\.)|version\(.retriever"
    )
    names = ("README.md", "Makefile", "Dockerfile", "pyproject.toml", "docker", "docs", "examples", "retriever", "app")
    suffixes = {".md", ".py", ".toml", ".yaml", ".html", ""}
    files = [file for name in names for file in (ROOT / name, *(ROOT / name).rglob("*")) if file.is_file()]
    texts = {file: file.read_text(encoding="utf-8") for file in files if file.suffix in suffixes}
    assert len(texts) > 400
    assert [(file.name, told) for file, text in texts.items() for told in old.findall(text)] == []
    assert old.search("pip install 'retriever[serve]'") and old.search("pip install -U retriever")


def test_search_and_clusters_do_without_the_extras(tmp_path):
    rows = "".join(f'{{"id": "{n}", "text": "{word} number {n}"}}\n' for n, word in enumerate(["kettle", "lamp"] * 16))
    (tmp_path / "corpus.jsonl").write_text(rows)
    names = [*OPTIONAL, "mteb", "sentence_transformers"]
    argvs = [
        ["--help"],
        ["index", "corpus.jsonl"],
        ["search", "kettle", "--instruction", "lamp or toy?"],
        ["cluster", "-k", "2", "--html", "map.html"],
        ["status"],
        ["verify"],
        ["diagnose", "--instruction", "lamp or toy?"],
    ]
    done = ran(argvs, names, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line.endswith(" 0 []")] == [f"{one[0]} 0 []" for one in argvs]


# The files that images are made of, as far as they can be looked at without making one.


@pytest.mark.parametrize(("variant", "faiss"), [("cpu", "faiss-cpu"), ("gpu", "faiss-gpu")])
def test_an_image_gets_what_a_server_needs_and_one_faiss(variant, faiss):
    requirements = runpy.run_path(str(ROOT / "docker/requirements.py"))["requirements"](variant)
    names = {re.split(r"[<>=\[]", line)[0] for line in requirements}
    assert {"torch", "fastapi", "uvicorn", "mcp", "prometheus-client", "httpx", faiss} <= names
    assert sum(name.startswith("faiss") for name in names) == 1
    assert not names & {"streamlit", "pytest", "retriever", "mteb"}
    assert all(";" not in line for line in requirements)


def test_the_image_runs_without_rights_and_takes_in_only_what_it_needs():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    last = lines[max(row for row, line in enumerate(lines) if line.startswith("FROM")) :]
    assert {"    RETRIEVER_CONFIG=/config \\", 'VOLUME ["/indexes", "/config"]'} <= set(last)
    user = next(row for row, line in enumerate(last) if line.startswith("USER retriever"))
    assert not [line for line in last[user:] if line.startswith(("RUN", "COPY", "USER root"))]
    assert not [line for line in lines if ":latest" in line]
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in (one for names in copied for one in names):
        assert name in allowed, name
        assert (ROOT / name).exists(), name


def test_compose_keeps_the_server_to_this_machine_and_its_tokens_out_of_the_file():
    server = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]["server"]
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    assert server["read_only"] and server["cap_drop"] == ["ALL"]
    assert {"indexes:/indexes", "config:/config"} <= set(server["volumes"])
    assert {"--token-file=/run/secrets/reader", "--writer-token-file=/run/secrets/writer"} <= set(server["command"])
    gpu = yaml.safe_load((ROOT / "compose.gpu.yaml").read_text(encoding="utf-8"))["services"]["server"]
    assert gpu["build"]["args"] == {"VARIANT": "gpu"}
    assert "secrets/" in (ROOT / ".gitignore").read_text()
