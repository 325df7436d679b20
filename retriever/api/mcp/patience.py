"""Patience: what takes longer than a client waits goes on as a job, and the same call asks for it again."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

from retriever.api.mcp.desk import Desk
from retriever.core.errors import BusyError
from retriever.serving.jobs import Job

_WAIT = 45.0  # seconds; clients give up after about a minute
_PAUSE = 0.05
_KEPT = 600.0  # seconds; what ended before that may be of documents that have changed since


class Patience:
    """Runs work as jobs by what was asked for.

    Args:
        desk: whose jobs they are.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def answer(self, tool: str, asked: object, work: Callable[[Job], dict[str, Any]]) -> dict[str, Any]:
        """Return what work gives, or how far it is once the client should not be kept waiting.

        Raises:
            ToolError: the work failed, or as many jobs as may run are running.
        """
        jobs = self._desk.service.jobs
        name = f"mcp {tool} {hashlib.sha256(repr(asked).encode()).hexdigest()[:24]}"
        job = jobs.find(name)
        if job is None or job.snapshot().idle > _KEPT:
            try:
                self._desk.service.make_room()
            except BusyError as error:
                raise self._desk.told(error) from error
            job = jobs.join(name, f"{tool} for an agent", work)
        until = asyncio.get_running_loop().time() + min(_WAIT, self._desk.limits.seconds)
        while not job.snapshot().over and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_PAUSE)
        now = job.snapshot()
        if not now.over:
            said = f"This takes longer. It goes on; call {tool} again with the same arguments for the result."
            return {"status": "running", "seconds": round(now.seconds), "progress": now.progress, "next": said}
        jobs.forget(name)
        if now.error is not None:
            raise self._desk.told(now.error) from now.error
        result: dict[str, Any] = now.result or {}
        return {"status": now.status, **result}
