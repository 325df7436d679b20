"""Addresses of this machine: which are its own alone, and how a server listens at one."""

import errno
import ipaddress
import socket

from retriever.core.errors import UsageError

LOOPBACK = "127.0.0.1"
_EVERYWHERE = ("0.0.0.0", "::")


class PortTakenError(UsageError):
    """Another program listens at a port."""


def is_loopback(host: str) -> bool:
    """Whether a host name or number is that of this machine, without asking a name server."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 stands for any that is free.

    What is written to its connections is sent at once: asyncio sees to that only on sockets it makes itself, and an
    answer in two parts, head and body, would wait 40 ms for the client's delayed acknowledgement of the first.

    Raises:
        PortTakenError: another program listens there.
        UsageError: this machine cannot.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        place = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            taken = f"Another program listens at port {port}."
            raise PortTakenError(taken, hint="Name another with --port.") from error
        said = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"This machine cannot listen at {host}, port {port}: {said}.",
            hint=f"Name an address of its own with --host ({LOOPBACK} always is one), or another --port.",
        ) from error
    place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections take it over
    return place


def url_of(host: str, port: int) -> str:
    """Return the address of a server that listens there, as one opens it on this machine."""
    named = "localhost" if host in _EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{named}:{port}"
