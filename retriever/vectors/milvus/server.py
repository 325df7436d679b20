"""A Milvus server: its types of index, the way to reach it, and its errors in our words, each with the next step."""

import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.core.errors import IndexDamagedError, RetrieverError, UsageError
from retriever.core.registry import nearest, resolve
from retriever.vectors.backend import BuildOptions, folder_mark

EXACT = "FLAT"
AUTO = "auto"
WINDOW = 16_384
"""Most hits that a server gives to one query."""

_EXACT_VECTORS = 200_000  # as FAISS's: beyond, a graph


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of index.

    Attributes:
        name: Milvus's name of it.
        built: parameters of the build, by the number of vectors.
        effort: the parameter of a search that trades time for recall; empty where there is none.
        first: the least of it.
        most: the most of it, by the number of vectors.
        counts_hits: whether the effort has to be at least the number of hits.
        window: most hits that one search gives.
        iterates: whether a search can be continued beyond them.
        everywhere: whether every server has it.
    """

    name: str
    built: Callable[[int], Mapping[str, int]] = lambda size: {}
    effort: str = ""
    first: int = 0
    most: Callable[[int], int] = lambda size: 0
    counts_hits: bool = False
    window: int = WINDOW
    iterates: bool = True
    everywhere: bool = True


def _lists(size: int) -> int:
    return min(1 << 16, 1 << round(math.log2(4 * math.sqrt(max(size, 1)))))


KINDS = {
    kind.name: kind
    for kind in (
        Kind(EXACT),
        Kind("HNSW", lambda size: {"M": 16, "efConstruction": 200}, "ef", 32, lambda size: 4096, counts_hits=True),
        Kind("IVF_SQ8", lambda size: {"nlist": _lists(size)}, "nprobe", 8, _lists),
        Kind(
            "GPU_CAGRA",
            lambda size: {"intermediate_graph_degree": 64, "graph_degree": 32},
            "itopk_size",
            32,
            lambda size: 512,
            counts_hits=True,
            window=512,
            iterates=False,
            everywhere=False,
        ),
    )
}


def kind_of(options: BuildOptions, size: int) -> Kind:
    """Return the type of index that is chosen for a number of vectors.

    Raises:
        UsageError: Milvus, as it is used here, has none of that name, or the recall is no share.
    """
    if not 0 <= options.min_recall <= 1:
        raise UsageError(f"min_recall is {options.min_recall}.", hint="Give a share between 0 and 1.")
    if options.factory == AUTO:
        return KINDS[EXACT if size <= _EXACT_VECTORS else "HNSW"]
    if options.factory not in KINDS:
        raise UsageError(
            f"The Milvus backend has no index type {options.factory!r}.",
            hint=f"{nearest(options.factory, [AUTO, *KINDS])} Say it with --factory.",
        )
    return KINDS[options.factory]


TOKEN = "MILVUS_TOKEN"
"""Environment variable of the server's token, ``user:password`` or a key, which is stored nowhere."""

TRUSTED = "MILVUS_URI"
"""Environment variable that names the server that index folders from elsewhere may use."""

NOT_LOADED = 101
"""Milvus's code of a collection that is not in the server's memory: after a restart, or released by others."""

ANSWER_SECONDS = 20
WORK_SECONDS = 600
STALLED_SECONDS = 1800
"""That a server may get no further with a build or a load; it counts whole segments, which are up to a gigabyte."""

_CONNECT_SECONDS = 5
_ADDRESS = re.compile(r"https?://(\w[\w.-]*|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?")
_NO_CONNECTION, _GONE = 2, 100  # codes of Milvus
_LONGEST_WAIT = 2.0
_LONGEST_CAUSE = 300


def connect(url: str) -> Any:  # noqa: ANN401 - a pymilvus.MilvusClient
    """Return a client of a server that answers; clients of one address share a connection.

    Raises:
        UsageError: that is no address.
        RetrieverError: the package is missing, or no server answers or lets us in.
    """
    if not _ADDRESS.fullmatch(url):
        raise UsageError(
            f"{url!r} is no address of a Milvus server.",
            hint=f"Say milvus=http://HOST:19530; a token goes into the environment variable {TOKEN}.",
        )
    make = resolve("pymilvus:MilvusClient", extra="milvus")
    for name in ("pymilvus", "pymilvus.milvus_client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # it logs to the terminal what it raises as well
    with asking(url):
        return make(uri=url, token=os.environ.get(TOKEN, ""), timeout=_CONNECT_SECONDS)


def require_ours(folder: Path, mark: int, url: str) -> None:
    """Refuse the server of an index folder that was copied or came from elsewhere: its user has not named the server.

    Raises:
        RetrieverError: the folder is another than the marked one, and the environment does not name the server.
    """
    if mark != folder_mark(folder) and os.environ.get(TRUSTED) != url:
        raise RetrieverError(
            f"The index in {folder} names the server {url}, and came from another folder; it is not connected to.",
            hint=f"Trust the server with {TRUSTED}={url}, build there with `retriever repair --backend milvus={url}`, "
            "or here with `retriever repair --backend faiss`.",
        )


@contextmanager
def asking(url: str) -> Iterator[None]:
    """Turn the errors of a server, and of the way to it, into ours.

    Raises:
        RetrieverError: no server answers, or it refuses.
        IndexDamagedError: it has lost the collection.
    """
    failed = resolve("pymilvus:MilvusException", extra="milvus")
    broken = resolve("grpc:RpcError", extra="milvus")
    try:
        yield
    except failed as error:
        if error.code == _GONE:
            raise IndexDamagedError(
                f"The Milvus server at {url} has lost the collection.", hint="Run `retriever repair`."
            ) from error
        status = _grpc_status(error)
        if status == "UNAUTHENTICATED":
            raise _refused(url, "the token is missing or wrong") from error
        if status or error.code == _NO_CONNECTION:
            raise _absent(url, status) from error
        raise _refused(url, error.message.strip().partition("\n")[0][:_LONGEST_CAUSE].rstrip(".")) from error
    except broken as error:
        raise _absent(url, _grpc_status(error)) from error


def wait_for(work: str, share: Callable[[], float]) -> None:
    """Ask how much of its work a server has done until that is all: at first often, later every two seconds.

    Args:
        work: names the work in the error.
        share: asks; 1 is all of it, and below 0 the server has given up.

    Raises:
        RetrieverError: it has given up, or has done no more for `STALLED_SECONDS`.
    """
    pause, known, since = 0.02, 0.0, time.monotonic()
    while (now := share()) < 1:
        stalled = now == known and time.monotonic() - since > STALLED_SECONDS
        if stalled or now < 0:
            why = f": it has got no further for {STALLED_SECONDS // 60} minutes" if stalled else ""
            raise RetrieverError(
                f"The Milvus server cannot {work}{why}.",
                hint="Its log says more; it may lack memory. Run the same command again when it has enough, or do "
                "without: `retriever repair --backend faiss` builds vector indexes here.",
            )
        if now != known:
            known, since = now, time.monotonic()
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_WAIT)


def load(client: Any, name: str) -> None:  # noqa: ANN401 - a pymilvus.MilvusClient
    """Have a collection in the server's memory as a whole, where it is not.

    Raises:
        RetrieverError: as `wait_for`.
    """
    states = resolve("pymilvus.client.types:LoadState")

    def share() -> float:
        told = client.get_load_state(name, timeout=ANSWER_SECONDS)
        if told["state"] == states.Loaded:
            return 1.0
        return min(0.99, told["progress"] / 100) if told["state"] == states.Loading else -1.0

    if share() < 1:
        client.load_collection(name, _async=True, timeout=ANSWER_SECONDS)
        wait_for(f"load the collection {name}", share)  # one that it was asked for and does not load, it has dropped


def description_of(client: Any, name: str) -> Mapping[str, Any]:  # noqa: ANN401
    """Return what a server tells of a collection: fields, description, aliases."""
    description: Mapping[str, Any] = client.describe_collection(name, timeout=ANSWER_SECONDS)
    return description


def _absent(url: str, status: str) -> RetrieverError:
    why = f" ({status.lower().replace('_', ' ')})" if status else ""
    return RetrieverError(
        f"No Milvus server answers at {url}{why}.",
        hint="Start it, or do without: `retriever repair --backend faiss` builds vector indexes here. "
        "Searches with --mode lexical need none.",
    )


def _refused(url: str, why: str) -> RetrieverError:
    return RetrieverError(
        f"The Milvus server at {url} refuses: {why}.",
        hint=f"Its log says more; a token goes into the environment variable {TOKEN}.",
    )


def _grpc_status(error: BaseException) -> str:
    """Return the name of the gRPC status that an error came from, or nothing."""
    rpc = resolve("grpc:RpcError", extra="milvus")
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:  # pymilvus raises errors from themselves
        if isinstance(cause, rpc) and hasattr(cause, "code"):
            return str(cause.code().name)
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return ""
