"""Where a chat model is: its name taken apart, and whether texts and a key may be sent there."""

import ipaddress
import os
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from retriever.core.errors import EncoderError

METHOD = "chat"
BASE_URL = "OPENAI_BASE_URL"
API_KEY = "OPENAI_API_KEY"
ALLOW_HTTP = "RETRIEVER_ALLOW_HTTP"
"""The variable that, set to 1, accepts an unencrypted connection to another machine."""

_OPENAI = "https://api.openai.com/v1"
_FORM = f"Say {METHOD}:MODEL or {METHOD}:https://HOST/v1#MODEL."


@dataclass(frozen=True, slots=True)
class Place:
    """A model at an endpoint.

    Attributes:
        model: as the server calls it.
        url: of the endpoint, without the slash at its end.
        host: its host, with the port where one is named.
        loopback: whether that is this machine.
        keyed: whether the key in the environment is meant for it: it is of the same scheme, host and port as
            ``OPENAI_BASE_URL``, which stands for OpenAI's where it is not set. A name can come with somebody else's
            index, and must not be able to send the user's key elsewhere.
    """

    model: str
    url: str
    host: str
    loopback: bool
    keyed: bool


def find_place(name: str) -> Place:
    """Take the name of a chat model apart: ``chat:MODEL``, at ``OPENAI_BASE_URL``, or ``chat:URL#MODEL``.

    MODEL may hold colons and slashes.

    Raises:
        EncoderError: it names no model or no usable endpoint, or would send texts unencrypted.
    """
    rest = name.removeprefix(f"{METHOD}:")
    own = os.environ.get(BASE_URL, "").strip()
    given, model = "", rest
    if rest.lower().startswith(("http://", "https://")):
        given, _, model = rest.partition("#")
    elif not own and not os.environ.get(API_KEY):
        raise EncoderError(
            f"No endpoint is named for {name}.",
            hint=f"Set {BASE_URL} (http://localhost:11434/v1 for Ollama), or say {METHOD}:URL#MODEL.",
        )
    if not model.strip():
        raise EncoderError(f"{_shown(given) or name!r} names no model.", hint=_FORM)
    own = own or _OPENAI
    url = _checked(given or own)
    loopback = is_loopback(url.hostname or "")
    if url.scheme == "http" and not loopback and os.environ.get(ALLOW_HTTP) != "1":
        raise EncoderError(
            f"{url.netloc} would get texts over an unencrypted connection.",
            hint=f"Name its https address; where the network between is trusted, --allow-http or {ALLOW_HTTP}=1.",
        )
    return Place(model, url.geturl().rstrip("/"), url.netloc, loopback, _origin(url) == _origin(urlsplit(own)))


def is_loopback(host: str) -> bool:
    """Return whether a host name is that of this machine, without asking a name server."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(address: str) -> SplitResult:
    """Return the parts of an endpoint's address.

    Raises:
        EncoderError: it is none, or holds a secret, which would be stored and shown with the name.
    """
    try:
        url = urlsplit(address)
        port = url.port  # raises where it is no number
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise EncoderError(f"{_shown(address)!r} is no address of an endpoint.", hint=_FORM)
    if "@" in url.netloc or url.query or url.fragment:
        raise EncoderError(
            f"The address of {url.hostname} holds more than host and path.",
            hint=f"A key goes into the environment, as {API_KEY}.",
        )
    return url


def _shown(address: str) -> str:
    """Return an address without what may be a secret in it."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}" if rest else scheme


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)
