"""Reach Qdrant: a server, or the local mode of its client, with what goes wrong told in our words."""

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from retriever.core.errors import IndexDamagedError, RetrieverError, UsageError
from retriever.core.registry import resolve

KEY = "QDRANT_API_KEY"
"""Environment variable of the server's key, which is stored nowhere."""

_PACKAGE = "retriever[qdrant]"
_SECONDS = 60
_ADDRESS = re.compile(r"https?://(\w[\w.-]*|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?(/[\w./-]*)?")


def request_types() -> Any:  # noqa: ANN401 - the module of Qdrant's request types
    """Return the module of Qdrant's request types.

    Raises:
        RetrieverError: the package is missing.
    """
    return resolve("qdrant_client:models", package=_PACKAGE)


def connect(url: str) -> Any:  # noqa: ANN401 - a qdrant_client.QdrantClient
    """Return a client of a server, which is not asked yet.

    Raises:
        UsageError: that is no address.
        RetrieverError: the package is missing.
    """
    make = resolve("qdrant_client:QdrantClient", package=_PACKAGE)
    if not _ADDRESS.fullmatch(url):
        raise UsageError(
            f"{url!r} is no address of a Qdrant server.",
            hint=f"One is http://HOST:6333; a key goes into the environment variable {KEY}.",
        )
    return make(url=url, api_key=os.environ.get(KEY), timeout=_SECONDS, check_compatibility=False)


def local(folder: Path | None = None) -> Any:  # noqa: ANN401 - a qdrant_client.QdrantClient
    """Return a client of local mode, in memory or in an empty folder: what lies in a folder it opens as pickles.

    Raises:
        UsageError: the folder is not empty.
        RetrieverError: the package is missing.
    """
    make = resolve("qdrant_client:QdrantClient", package=_PACKAGE)
    if folder is None:
        return make(":memory:")
    if any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", hint="Choose another folder.")
    warnings.filterwarnings("ignore", message="Payload indexes have no effect", category=UserWarning)
    return make(path=str(folder))


@contextmanager
def asking(url: str) -> Iterator[None]:
    """Tell in our words what keeps a server from answering.

    Raises:
        RetrieverError: no server answers, or it refuses.
        IndexDamagedError: it has lost the collection.
    """
    exceptions = resolve("qdrant_client.http:exceptions", package=_PACKAGE)
    try:
        yield
    except exceptions.ResponseHandlingException as error:
        raise RetrieverError(
            f"No Qdrant server answers at {url}: {error.source}.",
            hint="Start it, or do without: `retriever compact --backend faiss` builds vector indexes here.",
        ) from error
    except exceptions.UnexpectedResponse as error:
        if error.status_code == 404:
            raise IndexDamagedError(
                f"The Qdrant server at {url} has lost the collection.", hint="Run `retriever repair`."
            ) from error
        raise RetrieverError(
            f"The Qdrant server at {url} refuses: {error.status_code} {error.reason_phrase}.",
            hint=f"Its log says why; a key goes into the environment variable {KEY}.",
        ) from error
