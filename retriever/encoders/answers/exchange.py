"""One HTTP exchange with an endpoint: a connection that the environment cannot misdirect, a reply with an end."""

import json
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.request import getproxies

import httpx

from retriever.core.errors import EncoderError
from retriever.core.text import shortened
from retriever.encoders.answers.places import Place, key_for
from retriever.encoders.answers.wire import Reply

CONNECT_SECONDS = 10.0
MOST_BYTES = 4 << 20
"""Bytes of a reply that are read; a longer one is no reply."""

_OWN_HEADERS = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}
_PAGE = re.compile(rb"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)


@dataclass(eq=False)
class ReplyError(Exception):
    """A reply that is not what was asked for.

    Attributes:
        status: of HTTP, or the code of an error that came with status 200; 200 where there is none.
        said: the server's own words on a line, without the key; empty for a web page.
        page: whether it is a web page.
        code: a word for the error, or the parameter that it is about.
        retry_after: seconds that the server asks for; None where it says nothing.
    """

    status: int
    said: str = ""
    page: bool = False
    code: str = ""
    retry_after: float | None = None


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client, closed behind; it follows no redirects, and the way to this machine leads over no proxy.

    Raises:
        EncoderError: the key, or a variable about certificates or proxies, cannot be used.
    """
    key = key_for(place)
    headers = {header: os.environ.get(name, "").strip() for name, header in _OWN_HEADERS.items() if place.keyed}
    headers = {header: said for header, said in headers.items() if said} | {"Authorization": f"Bearer {key or 'none'}"}
    if not place.keyed:
        headers = {}
    try:
        client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            trust_env=not place.loopback,
            verify=_certificates(place),
        )
    except OSError as error:
        raise EncoderError(
            f"SSL_CERT_FILE is {os.environ.get('SSL_CERT_FILE')!r}, which cannot be read: {error.strerror or error}.",
            hint="Set it to a file of certificates (PEM), or unset it.",
        ) from None
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise _proxy_error(error) from None
    async with client:
        yield client


def _certificates(place: Place) -> ssl.SSLContext | bool:
    """Return what certificates are checked by; for a server on this machine also those of SSL_CERT_FILE, if any."""
    own = os.environ.get("SSL_CERT_FILE", "")
    if place.loopback and place.url.startswith("https:") and Path(own).is_file():
        return ssl.create_default_context(cafile=own)
    return True


def _proxy_error(error: Exception) -> EncoderError:
    """Return the error of a proxy that cannot be used, with the name of its variable."""
    for scheme, address in getproxies().items():
        try:
            if scheme != "no":
                httpx.AsyncClient(proxy=address, trust_env=False, verify=False)
        except (ImportError, ValueError, httpx.InvalidURL) as wrong:
            variable = next((name for name in os.environ if name.lower() == f"{scheme}_proxy"), f"{scheme}_proxy")
            socks = isinstance(wrong, ImportError)
            said = "names a SOCKS proxy, for which a package is missing" if socks else "is no address of a proxy"
            hint = "pip install 'httpx[socks]'" if socks else "Name an http proxy"
            return EncoderError(f"{variable} {said}.", hint=f"{hint}, or unset {variable}.")
    return EncoderError(
        f"NO_PROXY holds something that is no host: {error}.",
        hint="Name hosts, such as example.com or ::1; no brackets, no ranges of IPv6.",
    )


async def fetch(
    client: httpx.AsyncClient, url: str, body: Mapping[str, Any] | None = None, most: int | None = None
) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON of a reply of status 200, which has so many bytes at ``most``; a body is posted.

    Raises:
        ReplyError: there is none.
    """
    raw, limit = bytearray(), most or MOST_BYTES
    async with client.stream("GET" if body is None else "POST", url, json=body) as response:
        async for part in response.aiter_bytes():
            raw += part
            if len(raw) > limit:
                raise ReplyError(200, f"a reply of more than {limit >> 20} MB")
    try:
        made = json.loads(raw)
    except (ValueError, RecursionError):
        page = _PAGE.match(raw) is not None
        said = "" if page else _without_key(client, raw.decode(errors="replace"))
        raise ReplyError(response.status_code, said, page, retry_after=_retry_after(response.headers)) from None
    if response.status_code == 200 and not _fault(made):
        return made
    raise _failure(client, response, made)


def _fault(made: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the error in a reply, as different servers and routers before them write it; None where there is none."""
    if not isinstance(made, dict):
        return None
    choice = next(iter(made.get("choices") or []), None)
    inside = choice.get("error") if isinstance(choice, dict) else None
    return made.get("error") or inside or (made if made.get("object") == "error" else None)


def _failure(client: httpx.AsyncClient, response: httpx.Response, made: Any) -> ReplyError:  # noqa: ANN401 - JSON
    fault = _fault(made) or made
    about = fault if isinstance(fault, dict) else {}
    said = about.get("message") or about.get("detail") or (fault if isinstance(fault, str) else json.dumps(fault))
    codes = [about.get(name) for name in ("code", "status", "type", "param")]
    status = response.status_code
    if status == 200:
        number = next((int(str(code)) for code in codes if str(code).isdecimal()), 0)
        limited = any("rate_limit" in str(code) for code in codes)
        status = number if 400 <= number < 600 else 429 if limited else 500
    words = " ".join(str(code) for code in codes if code)
    return ReplyError(status, _without_key(client, str(said)), code=words, retry_after=_retry_after(response.headers))


def _without_key(client: httpx.AsyncClient, said: str) -> str:
    key = client.headers.get("Authorization", "").removeprefix("Bearer ")
    return shortened(said.replace(key, "***") if key else said, 300)


def _retry_after(headers: httpx.Headers) -> float | None:
    """Return the seconds that a server asks to wait, which it says in either way of HTTP or in milliseconds."""
    said = headers.get("retry-after", "")
    try:
        if "retry-after-ms" in headers:
            return float(headers["retry-after-ms"]) / 1000
        return (
            float(said)
            if said.replace(".", "", 1).isdecimal()
            else parsedate_to_datetime(said).timestamp() - time.time()
        )
    except ValueError:
        return None


def reply_of(made: Any) -> Reply:  # noqa: ANN401 - JSON
    """Take from a completion what is read; compatible servers leave parts of it out.

    Raises:
        ReplyError: it is none.
    """
    try:
        choice = made["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ReplyError(200, shortened(json.dumps(made, ensure_ascii=False), 300)) from None
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict) and "text" in str(part.get("type")))
        content = "".join(text for text in texts if isinstance(text, str))
    details = usage_of(made).get("completion_tokens_details")
    tokens = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return Reply(
        content if isinstance(content, str) else None,
        finish=str(choice.get("finish_reason") or "stop"),
        refusal=str(message.get("refusal") or ""),
        reasoning=str(message.get("reasoning_content") or message.get("reasoning") or ""),
        reasoning_tokens=tokens if isinstance(tokens, int) else 0,
    )


def usage_of(made: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    """Return the server's count of tokens; empty where it gives none."""
    usage = made.get("usage") if isinstance(made, dict) else None
    return usage if isinstance(usage, dict) else {}
