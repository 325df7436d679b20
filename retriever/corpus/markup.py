"""HTML in texts: entities are decoded; tags are taken out in files where they recur; texts about HTML stay as they are.

Only names that HTML has count: ``&eacute;`` and ``<br>``, not ``&foo;``, ``a < b`` or ``vector<int>``. A tag that a
sentence speaks of (``use the <br> tag``, or one in quotes) stays, and so does a ``<b>`` that is never closed.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable
from html.entities import html5

_INLINE = (
    "a abbr acronym b bdi bdo big center cite code del dfn em font i ins kbd label mark q s samp small span strike "
    "strong sub sup tt u var"
)
_CELLS = "td th"
_BLOCKS = (
    "address article aside blockquote body br caption dd details div dl dt figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 head header hr html li main nav ol p pre section summary table tbody tfoot thead title tr ul"
)
_OTHERS = (
    "area base button col colgroup embed iframe img input link meta object option param script select style video wbr"
)
_ALONE = frozenset(f"{_BLOCKS} {_CELLS} {_OTHERS}".split())
"""Tags that count without one that closes them."""
_APART = {**dict.fromkeys(_BLOCKS.split(), "\n"), **dict.fromkeys(_CELLS.split(), " ")}

_ATTRIBUTE = r"""\s+[\w:.-]+(?:\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>=]+))"""
_TAG = re.compile(
    rf"<(?P<close>/?)(?P<name>{'|'.join(f'{_INLINE} {_BLOCKS} {_CELLS} {_OTHERS}'.split())})"
    rf"(?P<attributes>(?:{_ATTRIBUTE})*)\s*/?>",
    re.IGNORECASE,
)
_UNSEEN = re.compile(r"<!--.*?-->|<(script|style)\b[^<>]*>.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_QUOTED = re.compile(r"""["'`\u2018\u201c]$""")
_SPOKEN_BEFORE = re.compile(
    r"(?:^|\W)(?:an?|the|this|that|use|used|using|write|writing|type|typing|put|insert|add|escape|missing|literal)\s+$",
    re.IGNORECASE,
)
_SPOKEN_AFTER = re.compile(r"\s+(?:tags?|elements?|entit(?:y|ies)|attributes?)\b", re.IGNORECASE)
_ABOUT = re.compile(r"(?<![./\w-])x?html\b", re.IGNORECASE)
_ROUNDS = 3  # of decoding: what was escaped twice, and once more
_SHARE = 0.01  # of a file's texts, and at least two, in which tags recur


class Markup:
    """Sees the texts of a file, says which parts of HTML are markup in them, and cleans them.

    Entities are, unless as many texts speak of HTML as have some. Tags are if they recur, in a hundredth of the texts
    and in two at least, and more texts use them all than do not: to take out a tag that was meant loses more than to
    decode an entity.
    """

    def __init__(self) -> None:
        self._total = self._entities = self._tags = self._unused = self._about = 0

    def see(self, text: object) -> None:
        """See a value, which counts where it is a text."""
        if not isinstance(text, str):
            return
        self._total += 1
        if "&" in text or "<" in text:
            decoded = _decoded(text)
            every = list(_TAG.finditer(decoded))
            used = _markup_tags(decoded, every)
            self._entities += decoded != text
            self._tags += bool(used)
            self._unused += used != every
            self._about += _is_about_html(text, every)

    @property
    def tags(self) -> bool:
        """Whether tags are taken out."""
        return self._tags >= max(2, _SHARE * self._total, self._unused + 1)

    def cleaned(self, text: str) -> str:
        """Return a text without markup, blocks as lines and cells parted by a space; as it is where it has none."""
        if "&" not in text and "<" not in text:
            return text
        plain = _decoded(text) if self._entities > self._about else text
        plain = _stripped(plain) if self.tags else plain
        return text if plain == text else _tidy(plain)


def _is_about_html(text: str, tags: Iterable[re.Match[str]]) -> bool:
    """Return whether a text speaks of HTML, of an entity or of one of its tags, which may be of its decoded form."""
    spoken = any(_spoken_of(tag.string, tag) for tag in tags)
    return spoken or any(
        _spoken_of(text, entity) or _ABOUT.search(text) is not None for entity in _ENTITY.finditer(text)
    )


def _decoded(text: str) -> str:
    """Return a text with its entities decoded, those escaped several times too; those that it speaks of stay."""
    for _ in range(_ROUNDS):
        plain = _ENTITY.sub(lambda match: _character(text, match), text)  # noqa: B023 - used at once
        if plain == text:
            break
        text = plain
    return text


def _character(text: str, match: re.Match[str]) -> str:
    entity = match[0]
    known = entity[1] == "#" or entity[1:] in html5
    return html.unescape(entity) if known and not _spoken_of(text, match) else entity


def _stripped(text: str) -> str:
    text = _UNSEEN.sub(" ", text)
    parts, at = [], 0
    for tag in _markup_tags(text, list(_TAG.finditer(text))):
        parts += [text[at : tag.start()], _APART.get(tag["name"].lower(), "")]
        at = tag.end()
    return "".join([*parts, text[at:]])


def _markup_tags(text: str, tags: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return those of a text's tags that are markup: closed, or such that need not be, and not spoken of."""
    opened = Counter(tag["name"].lower() for tag in tags if not tag["close"])
    closed = Counter(tag["name"].lower() for tag in tags if tag["close"])
    return [
        tag
        for tag in tags
        if (name := tag["name"].lower())
        and ((opened[name] and closed[name]) or name in _ALONE or tag["attributes"])
        and not _spoken_of(text, tag)
    ]


def _spoken_of(text: str, match: re.Match[str]) -> bool:
    """Return whether a sentence speaks of a tag or an entity: it is named as one, or stands in quotes."""
    before, after = text[max(0, match.start() - 20) : match.start()], text[match.end() : match.end() + 20]
    quote = _QUOTED.search(before)
    if quote and after[:1] == {"\u2018": "\u2019", "\u201c": "\u201d"}.get(quote[0], quote[0]):
        return True
    if match[0] not in ("&lt;", "&gt;") and _SPOKEN_AFTER.match(after):  # which stand around a tag that is escaped
        return True
    alone = not after or after[0] in " \n.,;:!?)"
    return match[0][0] == "<" and alone and _SPOKEN_BEFORE.search(before) is not None


def _tidy(text: str) -> str:
    """Return a text without the spaces that markup leaves."""
    text = re.sub(r"[ \t\u00a0]+", " ", text)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" ?\n ?", "\n", text)).strip()
