"""Connections that nothing goes over: uvicorn ends those that are idle between requests, and this the others."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def patient_for(seconds: float) -> type[H11Protocol]:
    """Return the protocol of connections that are cut where a client has half asked, or half listened, for so long."""

    class Patient(H11Protocol):
        """HTTP/1.1, until a client's time is up."""

        def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - uvicorn's
            super().__init__(*args, **options)
            self._asking, self._listening = _Timer(seconds), _Timer(seconds)

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - asyncio and uvicorn differ
            """Begin to wait for a request."""
            super().connection_made(transport)
            self._asking.start(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            """Wait for nothing more."""
            self._asking.stop()
            self._listening.stop()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """Wait for the rest of a request's head, where this is less."""
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._asking.start(self.transport)
            else:
                self._asking.stop()

        def pause_writing(self) -> None:
            """Begin to wait for the client to read on."""
            super().pause_writing()
            self._listening.start(self.transport)

        def resume_writing(self) -> None:
            """Wait no more."""
            self._listening.stop()
            super().resume_writing()

    return Patient


class _Timer:
    """Cuts a connection once so many seconds are over, unless it is stopped before."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._handle: asyncio.TimerHandle | None = None

    def start(self, transport: asyncio.Transport) -> None:
        """Begin, where it has not begun."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._seconds, transport.abort)

    def stop(self) -> None:
        """End without cutting anything."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
