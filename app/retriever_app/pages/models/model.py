"""The contents of the page Models: an index's encoders, and the models that are installed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from retriever.core.results import IndexStatus, ViewStatus
from retriever.index.model_names import AT_FIRST_USE, WHEELS, is_installed, named
from retriever.index.upkeep.repair import Repair
from retriever.index.upkeep.verify import Remedy, Verification
from retriever_app import text

BASE_VIEW = "No question"
_REMEDIES = {
    Remedy.REPAIR: "It can be repaired here.",
    Remedy.INDEX: "Repair it here, then index these reviews again.",
    Remedy.CLUSTER: "Repair it here, then cluster again and save the clusters.",
    Remedy.RESTORE: "Restore a copy, or index the reviews again under another name.",
    Remedy.MODEL: "Restore the model, or index the reviews again under another name.",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of the page that is shown."""

    part: Literal["index", "installed", "train"] = "index"


def model_facts(encoder: Mapping[str, Any]) -> dict[str, str]:
    """Describe a model of an index, as the index records it; what it does not have is empty."""
    return {
        "Model": str(encoder.get("name") or "without a name"),
        "Number format": str(encoder.get("dtype") or ""),
        "Pooling": str(encoder.get("pooling") or ""),
        "Steps (K)": "" if encoder.get("steps") is None else str(encoder["steps"]),
        "Look-ahead tokens (L)": "" if encoder.get("look_ahead") is None else str(encoder["look_ahead"]),
        "Fingerprint": str(encoder.get("fingerprint", ""))[:12],
    }


def index_facts(status: IndexStatus) -> dict[str, str]:
    """Return the counts of an index by their labels."""
    return {
        "Reviews": f"{status.documents:,}",
        "Different texts": f"{status.texts:,}",
        "Questions": f"{len({view.instruction for view in status.views if view.instruction}):,}",
        "On disk": text.size(status.size_bytes),
    }


def view_rows(views: Sequence[ViewStatus]) -> list[dict[str, object]]:
    """Return the rows of the table of questions; the reviews read are a share from 0 to 1.

    Examples have a column where there are any.
    """
    taught = any(view.taught for view in views)
    return [
        {
            "question": view.instruction or BASE_VIEW,
            "read": view.coverage,
            "followed": _followed(view),
            **({"taught": _taught(view)} if taught else {}),
            "model": view.encoder,
            "last used": view.last_used[:10],
        }
        for view in views
    ]


def _followed(view: ViewStatus) -> str:
    if not view.instruction:
        return ""
    return "not checked" if view.verdict is None else view.verdict.level


def detail_rows(views: Sequence[ViewStatus]) -> list[dict[str, object]]:
    """Return the rows of the table of vectors, for somebody who knows indexes."""
    return [
        {
            "question": view.instruction or BASE_VIEW,
            "vectors": view.vectors,
            "not yet in the index file": view.tail,
            "index file": view.factory or view.backend or "",
            "recall@10": view.recall,
        }
        for view in views
    ]


def _taught(view: ViewStatus) -> str:
    """Say with how many examples a view was taught, and how many set aside for testing were right before and after."""
    if view.taught is None:
        return ""
    before, after = view.taught.before.value, view.taught.after
    count, tuned = text.count(sum(view.taught.answers.values()), "example"), ", reader fine-tuned"
    right = f"{before:.0%} right before, {after.value:.0%} after ({after.low:.0%} to {after.high:.0%})"
    return f"{count}, {right}{tuned if view.taught.tuned else ''}"


def encoder_rows() -> list[dict[str, str]]:
    """Return the rows of the table of encoders that have a name."""
    return [{"name": name, "stands for": entry.spec, "": entry.summary} for name, entry in named().items()]


def backbone_rows() -> list[dict[str, str]]:
    """Return the rows of the table of backbones."""
    return [{"name": name, "installed": "yes" if is_installed(name) else AT_FIRST_USE} for name in WHEELS]


def verified(verification: Verification) -> list[str]:
    """Describe the findings of a check, a sentence each."""
    if verification.whole:
        return [f"The database and {text.count(verification.files, 'index file')} are undamaged."]
    findings = verification.findings
    return [f"Damaged: {finding.artefact}: {finding.problem}. {_REMEDIES[finding.remedy]}" for finding in findings]


def repaired(repair: Repair) -> list[str]:
    """Describe the results of a repair, a sentence each."""
    lines = [f"Rebuilt: {artefact}." for artefact in repair.rebuilt]
    lines += [f"Lost: {artefact}." for artefact in repair.lost]
    return [*(lines or ["Nothing was damaged."]), f"Vector indexes built: {len(repair.generations)}."]
