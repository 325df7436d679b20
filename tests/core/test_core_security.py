"""Rules for what the code may never do, read from its syntax: open pickles, run foreign code, build SQL from data."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for part in ("retriever", "app", "recipes", "benchmarks", "examples") for path in (ROOT / part).rglob("*.py")
)

UNSAFE_MODULES = {"pickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib", "jsonpickle", "yaml"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.load", "torch.jit.load"}
UNSAFE_CALLS |= {"torch.hub.load", "pandas.read_pickle", "pd.read_pickle", "faiss.read_index_binary", "tempfile.mktemp"}
SQL_METHODS = {"rows", "row", "number", "write", "record", "write_many", "execute", "executemany", "executescript"}
SQL_PARTS = {  # what an SQL text may be made of besides constants in capitals: none of it comes from data
    "condition.sql": "a filter, whose values and paths are parameters (tests/store/test_store_filters.py)",
    "marks": "question marks",
    "', '.join('?' * len(asked))": "question marks",
    "table": "a key of a constant",
    "column": "a key of a constant",
    "columns": "a value of a constant",
    "event": "one of three words",
    "noted": "names of columns and kinds, of a constant",
    "_key(columns)": "the first of a constant's columns",
    "wrong": "made of such a key",
    "dangles": "made of the names of our own tables",
    "'quick' if quick else 'integrity'": "one of two words",
    "round(1000 * BUSY_SECONDS)": "a number",
}


def problems(source):
    """Yield what is not allowed in a module, with its line."""
    tree = ast.parse(source)
    safe_options = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and "'trust_remote_code': False" in ast.unparse(node.value)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            yield from (f"{node.lineno}: imports {name}" for name in names if name.split(".")[0] in UNSAFE_MODULES)
        elif isinstance(node, ast.Call):
            yield from (f"{node.lineno}: {problem}" for problem in call_problems(node, safe_options))


def call_problems(call, safe_options):
    name = ast.unparse(call.func)
    options = {one.arg: one.value for one in call.keywords if one.arg}
    spread = {ast.unparse(one.value) for one in call.keywords if one.arg is None}
    if name in UNSAFE_CALLS:
        yield f"calls {name}"
    if name in ("np.load", "numpy.load") and not is_false(options.get("allow_pickle")):
        yield "np.load without allow_pickle=False"
    if "shell" in options and not is_false(options["shell"]):
        yield "a shell"
    trusted = options.get("trust_remote_code")
    if trusted is not None and not is_false(trusted):
        yield "trust_remote_code"
    if re.fullmatch(r"Auto\w+\.from_pretrained", name) and trusted is None and not spread & safe_options:
        yield f"{name} asks whether to run foreign code: say trust_remote_code=False"
    if isinstance(call.func, ast.Attribute) and call.func.attr in SQL_METHODS and call.args:
        yield from sql_problems(call.args[0])


def is_false(node):
    return isinstance(node, ast.Constant) and node.value is False


def sql_problems(text):
    """Yield what an SQL text is made of besides what is allowed."""
    if isinstance(text, ast.BinOp) and isinstance(text.op, ast.Add | ast.Mod):
        if looks_like_sql(ast.unparse(text)):
            yield f"an SQL text by {ast.unparse(text)[:60]}"
    elif isinstance(text, ast.Call) and ast.unparse(text.func).endswith(".format"):
        yield f"an SQL text by {ast.unparse(text)[:60]}"
    elif isinstance(text, ast.JoinedStr) and looks_like_sql(ast.unparse(text)):
        for part in text.values:
            shown = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else "CONSTANT"
            if not re.fullmatch(r"[A-Z_]+", shown) and shown not in SQL_PARTS:
                yield f"an SQL text with {shown}"


def looks_like_sql(text):
    return re.search(r"\b(SELECT|INSERT|UPDATE|DELETE|PRAGMA|CREATE|DROP|ALTER|ATTACH|VACUUM)\b", text) is not None


@pytest.mark.parametrize("path", FILES, ids=[path.relative_to(ROOT).as_posix() for path in FILES])
def test_nothing_unsafe_is_done(path):
    assert list(problems(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml",
        "import torch\ntorch.load(path)",
        "import numpy as np\nnp.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=allowed)",
        "eval('1')",
        "subprocess.run(command, shell=True)",
        "SentenceTransformer(name, trust_remote_code=True)",
        "SentenceTransformer(name, trust_remote_code=trusted)",
        "AutoModel.from_pretrained(folder)",
        "OTHER = {'local_files_only': True}\nAutoModel.from_pretrained(folder, **OTHER)",
        "db.rows(f'SELECT * FROM documents WHERE id = {id}')",
        "db.execute('SELECT * FROM documents WHERE id = ' + id)",
        "db.execute('SELECT * FROM documents WHERE id = %s' % id)",
        "db.execute('SELECT * FROM documents WHERE id = {}'.format(id))",
    ],
)
def test_what_is_unsafe_is_found(source):
    assert list(problems(source)) != []


@pytest.mark.parametrize(
    "source",
    [
        "np.load(path, allow_pickle=False)",
        "SAFE = {'trust_remote_code': False}\nAutoModel.from_pretrained(folder, **SAFE)",
        "db.rows(f'SELECT {_COLUMNS} FROM views')",
        "db.rows('SELECT 1 WHERE id = ?', (id,))",
        "file.write('a' + b)",
        "re.compile('x')",
        "model.eval()",
    ],
)
def test_what_is_safe_is_allowed(source):
    assert list(problems(source)) == []
