"""The entry script, run by Streamlit for every interaction: the frame, then the page."""

from pathlib import Path

import streamlit as st

from retriever_app import reading, resources, state
from retriever_app.components import show_attempt, showing_problems

# Folder beside this file, which is also the path in the URL: title and icon, in the order of the navigation.
PAGES = {
    "corpus": ("Corpus", ":material/library_books:"),
    "search": ("Search", ":material/search:"),
    "groups": ("Groups", ":material/bubble_chart:"),
    "teach": ("Teach", ":material/school:"),
    "models": ("Models", ":material/memory:"),
}

PACKAGE = Path(__file__).parents[1]

st.set_page_config(page_title="retriever", page_icon=PACKAGE / "icon.svg", layout="wide")
st.html(PACKAGE / "style.css")
state.begin()
page = st.navigation(
    [
        st.Page(f"{name}/view.py", title=title, icon=icon, url_path=name, default=name == next(iter(PAGES)))
        for name, (title, icon) in PAGES.items()
    ],
    position="top",
)
resources.reading_on()  # begins with the first page
resources.choose_index()
with showing_problems():
    show_attempt()
    reading.permit_encoders()
    page.run()
state.end()
