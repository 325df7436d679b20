"""Describe model and index for the page about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retriever.core.results import IndexStatus, ViewStatus
from retriever.evaluation.run.diagnosing import Diagnosis
from retriever.index.durability.repair import Repair
from retriever.index.durability.verify import Remedy, Verification
from retriever_app.view_models import text

BASE_VIEW = "No instruction"
_ANSWERS = 12
_REMEDIES = {
    Remedy.REPAIR: "It can be mended here.",
    Remedy.INDEX: "Mend it here, then index these reviews again.",
    Remedy.CLUSTER: "Mend it here, then cluster again and save it anew.",
    Remedy.RESTORE: "Put back a copy, or index the reviews again under another name.",
    Remedy.MODEL: "Put the model back, or index the reviews again under another name.",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled value."""

    label: str
    value: str


def model_name(encoder: Mapping[str, Any]) -> str:
    """Return what a model of an index is called."""
    return str(encoder.get("name") or "without a name")


def model_facts(encoder: Mapping[str, Any]) -> list[Fact]:
    """Describe a model of an index, as the index records it, to somebody who knows models."""
    facts = [
        Fact("Model", model_name(encoder)),
        Fact("Number format", str(encoder.get("dtype") or "")),
        Fact("Pooling", str(encoder.get("pooling") or "")),
        Fact("Steps (K)", "" if encoder.get("steps") is None else str(encoder["steps"])),
        Fact("Look-ahead tokens (L)", "" if encoder.get("look_ahead") is None else str(encoder["look_ahead"])),
        Fact("Fingerprint", str(encoder.get("fingerprint", ""))[:12]),
    ]
    return [fact for fact in facts if fact.value]


def index_facts(status: IndexStatus) -> list[Fact]:
    """Describe the contents of an index."""
    return [
        Fact("Reviews", f"{status.documents:,}"),
        Fact("Different texts", f"{status.texts:,}"),
        Fact("Questions read", f"{sum(bool(view.instruction) for view in status.views):,}"),
        Fact("On disk", text.size(status.size_bytes)),
    ]


def view_rows(views: Sequence[ViewStatus]) -> list[dict[str, object]]:
    """Return the rows of the table of what was read; coverage is a share from 0 to 1."""
    return [
        {
            "instruction": view.instruction or BASE_VIEW,
            "followed": "" if view.verdict is None else view.verdict.level,
            "taught": _taught(view),
            "read": view.coverage,
            "last used": view.last_used[:10],
        }
        for view in views
    ]


def detail_rows(views: Sequence[ViewStatus]) -> list[dict[str, object]]:
    """Return the rows of the table of vectors, for somebody who knows indexes."""
    return [
        {
            "instruction": view.instruction or BASE_VIEW,
            "vectors": view.vectors,
            "not yet in the index file": view.tail,
            "index file": view.factory or view.backend or "",
            "recall@10": view.recall,
        }
        for view in views
    ]


def _taught(view: ViewStatus) -> str:
    """Say by how many reviews a view was taught, and how many of those left out are answered rightly."""
    if view.taught is None:
        return ""
    after, count = view.taught.after, text.count(sum(view.taught.answers.values()), "review")
    tuned = ", reader fine-tuned" if view.taught.tuned else ""
    return f"{count}, {after.value:.0%} right ({after.low:.0%} to {after.high:.0%}){tuned}"


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The instruction that is looked into."""

    diagnose: str = ""


def verdict(found: Diagnosis) -> str:
    """Explain a diagnosis to somebody who searches."""
    return replace(found.verdict, level=found.level).saying


def evidence(found: Diagnosis) -> list[str]:
    """Describe the evidence behind the verdict, a sentence each."""
    answers = found.verdict.words(_ANSWERS)
    return [
        f"It is {found.verdict.chance:.0%} likely that the instruction is followed.",
        f"Looked at {text.count(found.verdict.texts, 'review')}. Reviews that belong together are others "
        f"by {found.base.regrouped:.0%} than without an instruction, by {found.paraphrase.regrouped:.0%} when it is "
        f"said in other words, by {found.others.regrouped:.0%} under other questions.",
        f"What the model answers most often: {answers}." if answers else "This model answers in no words.",
    ]


def verified(found: Verification) -> list[str]:
    """Describe the findings of a check, a sentence each."""
    if found.whole:
        return [f"All is whole: the database and {text.count(found.files, 'index file')}."]
    return [f"Damaged: {one.artefact}: {one.problem}. {_REMEDIES[one.remedy]}" for one in found.findings]


def repaired(done: Repair) -> list[str]:
    """Describe the results of a repair, a sentence each."""
    lines = [f"Made anew: {one}." for one in done.mended]
    lines += [f"Lost: {one}. Index these reviews again." for one in done.lost]
    lines += [f"Still damaged: {one}." for one in done.left]
    return lines or ["Nothing was damaged."]
