import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from retriever.core.text import escape_markdown, readable_markdown

HOSTILE = [
    "<script>alert(1)</script>",
    "[a](javascript:alert(1)) ![b](x)",
    "`code` *bold* __under__ ~~gone~~ $x$ &lt; &#60;",
    "# no heading",
    "1. no list",
    "2) nor this",
    "- nor this",
    "+ nor this",
    "> no quote",
    "a | b",
    "---",
    "===",
    "http://a.example www.b.example c@d.example <http://e.example>",
    "back\\slash \\* end\\",
    "two\nlines\n\n# of it",
    "2024-05 rose 3.5 to 4.1 (+0.6)",
]
FRAMES = ["# {}", "- {}", "> {}", "{}", "| a | {} |\n|---|---|\n"]


def words(html):
    """Return the text of HTML that holds no other elements than those of the frame."""
    return re.sub(r"\s+", " ", re.sub(r"</?(h1|ul|li|blockquote|p|table|thead|tr|th)>", "", html)).strip()


def shown(markdown):
    renderer = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return words(renderer.render(markdown))


def as_html(text):
    for sign, spelled in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(sign, spelled)
    return " ".join(text.split())


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("escape", [escape_markdown, readable_markdown])
@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_shown_as_it_is(text, escape, frame):
    found = shown(frame.format(escape(text))).replace("\u2060", "")
    expected = f"a {as_html(text)}" if frame.startswith("|") else as_html(text)
    assert found == expected


@given(st.text(st.sampled_from("ab1 #*_-+.()[]<>|`\\~!=&:@$\n"), max_size=12))
def test_any_text_is_shown_as_it_is(text):
    if " ".join(text.split()):
        assert shown("> " + readable_markdown(text)).replace("\u2060", "") == as_html(text)


def test_what_is_not_rendered_reads_well():
    line = "From 2024-05 to 2024-06, +0.6 (of 4.1), it's 3.5 %: up!"
    assert readable_markdown(line) == line
