"""Why a language model read no further, in words for clients: those for the operator go to the log."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from retriever.api.problems import problem_of
from retriever.core.errors import RetrieverError
from retriever.core.results import SearchResult

_LOG = logging.getLogger(__name__)
FAULT = "The language model did not do all that was asked. The server's log says why."


def for_clients(result: SearchResult) -> SearchResult:
    """Return a result whose reader's fault is worded for clients."""
    if result.reader_fault is None:
        return result
    problem = problem_of(result.reader_fault)
    return replace(result, reader_fault=RetrieverError(problem.message, hint=problem.hint))


def made_for_clients(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of groups with the faults of their language model worded for clients."""
    worded = dict(document)
    if fault := worded.get("fault"):
        _LOG.error("A language model could not be asked: %s", fault)
        worded["fault"] = FAULT
        if "caution" in worded:
            worded["caution"] = worded["caution"].replace(fault, FAULT)
    if worded.get("sampled"):
        worded["sampled"] = made_for_clients(worded["sampled"])
    return worded
