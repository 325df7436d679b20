"""Facts about a group's texts that speak against its name: ratings against a mood, mixed values of a field.

One sentence a group, for the first line of its card. It says what the metadata holds, not who is wrong.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from retriever.core.fields import names_of, values_by_name
from retriever.core.text import WORD
from retriever.core.types import JSON, Document
from retriever.corpus.values import star_value
from retriever.index.languages import FIELD as LANGUAGE

GLAD = frozenset(
    """
    amazed amused approval content delight delighted enthusiastic excellent excited favorable favourable glad good
    grateful great happy impressed joy love loved loving pleased positive proud relieved satisfied thankful thrilled
    """.split()
)
CROSS = frozenset(
    """
    anger angry annoyance annoyed bad betrayed bitter complaint disappointed disappointment disapproval disgust
    disgusted displeased dissatisfied frustrated frustration furious hate hated irritated mad negative outraged poor
    regret regretful sad unfavorable unfavourable unhappy upset unsatisfied worried
    """.split()
)
"""Words of a name that say how people feel, written for this; neither has a word of two minds."""

_DENIALS = frozenset("hardly neither never no non not nor without".split())
_AGAINST = 1 / 4  # of the rated documents
_LEAST = 3  # documents
_HIGH, _LOW = 0.8, 0.4  # of the highest rating: from 4, and up to 2, of 5
_ABOUT = 0.1  # adjusted mutual information from which groups go by a field
_HALF = 0.5
_VALUES = 20  # most of a field that sorts documents
_REPEATED = 3  # documents a value, at least, on average
_NAMED = 3


def mood(name: str) -> int:
    """Return 1 for a name of a glad mood, -1 for one of a cross mood; 0 for neither, both, or one that is denied."""
    words = _words(name)
    if words & _DENIALS:
        return 0
    return bool(words & GLAD) - bool(words & CROSS)


def against_ratings(name: str, ratings: Sequence[float | None], highest: float = 5) -> str:
    """Return what ratings say against a name that is a mood; empty where they do not.

    Args:
        name: of a group.
        ratings: of its documents; None of one without.
        highest: the highest there may be.
    """
    rated, side = [rating for rating in ratings if rating is not None], mood(name)
    low, high = _LOW * highest, _HIGH * highest
    against = sum(rating >= high if side < 0 else rating <= low for rating in rated) if side else 0
    if against < _LEAST or against < _AGAINST * len(rated):
        return ""
    said = f"{high:g} stars or more" if side < 0 else f"{low:g} stars or fewer"
    return f"{against} of {len(rated)} gave {said}: read them first."


def mixed(name: str, field: str, values: Sequence[str]) -> str:
    """Return that no value of a field is that of half of a group's documents; empty where one is, or there are too few.

    Args:
        name: of the group; a value that it says is named first.
        field: whose values they are.
        values: of its documents.
    """
    counts = Counter(values)
    if len(values) < 2 * _LEAST or max(counts.values()) >= _HALF * len(values):
        return ""
    said = _words(name)
    order = sorted(counts, key=lambda value: (not said & _words(value), -counts[value], value))[:_NAMED]
    parts = ", ".join(f"{value} {counts[value]}" for value in order)
    return f"By {field} they are mixed: {parts}, of {len(values)}; none has half."


def contradictions(
    names: Mapping[int, str],
    documents: Sequence[Document],
    places: Mapping[str, Sequence[int]],
    stars: str | None = None,
) -> dict[int, str]:
    """Return what is known against groups, by number; groups of which nothing is are not in it.

    A field counts where its values repeat and the groups go by it, since people who feel alike need not have bought
    alike; and a group that is whole by one such field is not mixed by another. The language of texts does not count:
    groups hold what is said in any.

    Args:
        names: of the groups.
        documents: whole ones, with their metadata.
        places: the groups of every document by id.
        stars: the field with the ratings; None for none.
    """
    metadata = [values_by_name(document.metadata) for document in documents]
    fields, rated = _fields(metadata, stars), [star_value(values.get(stars or "")) for values in metadata]
    highest = 5 if max((rating for rating in rated if rating is not None), default=0) <= 5 else 10
    first = [next(iter(places.get(document.id, ())), -1) for document in documents]
    about = {field: values for field, values in fields.items() if _agreement(values, first) >= _ABOUT}
    found = {}
    for number, name in names.items():
        rows = [row for row, document in enumerate(documents) if number in places.get(document.id, ())]
        blends = [mixed(name, field, [values[row] for row in rows if values[row]]) for field, values in about.items()]
        blend = blends[0] if blends and all(blends) else ""
        said = [against_ratings(name, [rated[row] for row in rows], highest), blend]
        if any(said):
            found[number] = " ".join(filter(None, said))
    return found


def _fields(metadata: Sequence[Mapping[str, JSON]], stars: str | None) -> dict[str, list[str]]:
    """Return by field the value of every document, of fields that sort documents, those with fewest values first."""
    names = dict.fromkeys(name for values in metadata for name in values if name not in (stars, LANGUAGE))
    columns = {name: [" / ".join(names_of(values.get(name))) for values in metadata] for name in names}
    kinds = {name: len({*column} - {""}) for name, column in columns.items()}
    most = min(_VALUES, len(metadata) // _REPEATED)
    return {name: columns[name] for name in sorted(names, key=lambda name: kinds[name]) if 1 < kinds[name] <= most}


def _agreement(values: Sequence[str], groups: Sequence[int]) -> float:
    """Return the adjusted mutual information of a field's values and the groups of the documents that have one."""
    from sklearn.metrics import adjusted_mutual_info_score

    pairs = [(value, group) for value, group in zip(values, groups, strict=True) if value and group >= 0]
    return float(adjusted_mutual_info_score(*map(list, zip(*pairs, strict=True)))) if pairs else 0.0


def _words(name: str) -> set[str]:
    return {word.casefold() for word in WORD.findall(name)}
