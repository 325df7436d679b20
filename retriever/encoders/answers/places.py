"""Where a model behind an endpoint is: its name taken apart, and whether texts and a key may be sent there."""

import os
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from retriever.core.addresses import is_loopback
from retriever.core.errors import EncoderError

METHOD = "chat"
ENCODERS = "http"
"""Prefix of the names of encoders behind endpoints, as those of language models begin with `METHOD`."""

BASE_URL = "OPENAI_BASE_URL"
API_KEY = "OPENAI_API_KEY"
ALLOW_HTTP = "RETRIEVER_ALLOW_HTTP"
"""The variable that, set to 1, accepts an unencrypted connection to another machine."""

_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Place:
    """Name and place of a model behind an endpoint; known without asking anybody.

    Attributes:
        name: what it is found by: ``chat:qwen3:8b``, ``chat:https://host/v1#MODEL``, ``http:https://host/v1#MODEL``.
        host: where texts are sent, with the port where one is named; empty where they stay in this process.
        loopback: whether this process sends texts to no other machine. A server on this machine can send them on.
        url: of the endpoint, without the slash at its end.
        model: as the endpoint calls it.
        keyed: whether the key in the environment is meant for it: it is of the same scheme, host and port as
            ``OPENAI_BASE_URL``, which stands for OpenAI's where it is not set. A name can come with somebody else's
            index, and must not be able to send the user's key elsewhere.
    """

    name: str
    host: str = ""
    loopback: bool = True
    url: str = ""
    model: str = ""
    keyed: bool = False


def find_place(name: str, method: str = METHOD) -> Place:
    """Take the name of a model apart: ``chat:MODEL``, at ``OPENAI_BASE_URL``, or ``chat:URL#MODEL``.

    MODEL may hold colons and slashes. In the place of ``chat`` stands the ``method``.

    >>> place = find_place("chat:https://models.example/v1#qwen3:8b")
    >>> place.model, place.url, place.host, place.loopback
    ('qwen3:8b', 'https://models.example/v1', 'models.example', False)
    >>> find_place("chat:http://localhost:11434/v1#qwen3:8b").loopback
    True

    Raises:
        EncoderError: it names no model or no usable endpoint, or would send texts unencrypted.
    """
    rest, form = name.removeprefix(f"{method}:"), f"Say {method}:MODEL or {method}:https://HOST/v1#MODEL."
    own = os.environ.get(BASE_URL, "").strip()
    key = os.environ.get(API_KEY, "").strip()
    given, model = "", rest
    if rest.lower().startswith(("http://", "https://")):
        given, _, model = rest.partition("#")
    elif not own and not key:
        raise EncoderError(
            f"No endpoint is named for {name}.",
            hint=f"Set {BASE_URL} (http://localhost:11434/v1 for Ollama), or say {method}:URL#MODEL.",
        )
    if not model.strip():
        raise EncoderError(f"{_shown(given) or name!r} names no model.", hint=form)
    own = own or _OPENAI
    url = _checked(given or own, "" if given else BASE_URL, form)
    loopback = is_loopback(url.hostname or "")
    if url.scheme == "http" and not loopback and os.environ.get(ALLOW_HTTP) != "1":
        raise EncoderError(
            f"{url.netloc} would get texts over an unencrypted connection.",
            hint=f"Name its https address; where the network between is trusted, --allow-http or {ALLOW_HTTP}=1.",
        )
    keyed = _origin(url) == _own_origin(own)
    return Place(name, url.netloc, loopback, url.geturl().rstrip("/"), model, keyed)


def endpoint_name(name: str) -> str:
    """Return the name of an encoder behind an endpoint, which may be its URL alone; empty for any other.

    >>> endpoint_name("https://host/v1#bge-m3"), endpoint_name("minilm")
    ('http:https://host/v1#bge-m3', '')
    """
    if name.startswith(("http://", "https://")):
        return f"{ENCODERS}:{name}"
    return name if name.startswith(f"{ENCODERS}:") else ""


def sent_value(variable: str) -> str:
    """Return what a variable gives a header, without blanks around it; empty where it is not set.

    Raises:
        EncoderError: it holds a character that no header takes; the value is not shown, as it can be a secret.
    """
    value = os.environ.get(variable, "").strip()
    wrong = next((at for at, character in enumerate(value, 1) if not "!" <= character <= "~"), None)
    if wrong is not None:
        raise EncoderError(
            f"Character {wrong} of {variable} is one that cannot be sent.",
            hint="Copy the value again: a line break, a blank or a typographic quote came along.",
        )
    return value


def _checked(address: str, variable: str, form: str) -> SplitResult:
    """Return the parts of an endpoint's address, which a variable names or, where that is empty, the user.

    ``form`` says how a name is written.

    Raises:
        EncoderError: it is none, or holds a secret, which would be stored and shown with the name.
    """
    try:
        url = urlsplit(address)
        port = url.port  # raises where it is no number
    except ValueError:
        url, port = urlsplit(""), None
    if variable and "://" not in address:
        raise EncoderError(
            f"{variable} is {_shown(address)!r} and lacks http:// or https://.",
            hint=f"Set it to the whole address, such as {variable}=http://localhost:11434/v1.",
        )
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        named = f"{variable} is {_shown(address)!r}, which" if variable else repr(_shown(address))
        raise EncoderError(f"{named} is no address of an endpoint.", hint=form)
    if "@" in url.netloc or url.query or url.fragment:
        raise EncoderError(
            f"The address of {url.hostname} holds more than host and path.",
            hint=f"A key goes into the environment, as {API_KEY}; a query is not taken: Azure's address without one "
            "ends in /openai/v1.",
        )
    return url


def _shown(address: str) -> str:
    """Return an address without what may be a secret in it."""
    scheme, mark, rest = address.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2].partition('?')[0].partition('#')[0]}"


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _own_origin(address: str) -> tuple[str, str | None, int | None] | None:
    """Return the origin of the user's own endpoint; None where its address is none, and the key goes nowhere."""
    try:
        return _origin(urlsplit(address))
    except ValueError:
        return None
