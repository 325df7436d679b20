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
            self._asking: asyncio.TimerHandle | None = None
            self._listening: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._asking = self._cut_later()

        def connection_lost(self, exc: Exception | None) -> None:
            self._asking, self._listening = _cancelled(self._asking), _cancelled(self._listening)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            asking = self.cycle is None or self.cycle.response_complete
            if not asking:
                self._asking = _cancelled(self._asking)
            elif self._asking is None:
                self._asking = self._cut_later()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._listening = self._listening or self._cut_later()

        def resume_writing(self) -> None:
            self._listening = _cancelled(self._listening)
            super().resume_writing()

        def _cut_later(self) -> asyncio.TimerHandle:
            return self.loop.call_later(seconds, self.transport.abort)

    return Patient


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    """Cancel a timer, where there is one."""
    if timer is not None:
        timer.cancel()
