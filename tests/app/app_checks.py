import shutil
import time
from unittest.mock import patch

from streamlit.testing.v1 import AppTest

from retriever_app import resources
from retriever_app.serving import SCRIPT

PATIENCE = 120  # seconds; a busy machine


def opened(page, **parameters):
    """Open a page of the app, with these query parameters, in a session of its own."""
    # Streamlit looks for components in every package that is installed; ours lie in the app.
    with patch("streamlit.components.v2.manifest_scanner.scan_component_manifests", list):
        session = AppTest.from_file(SCRIPT, default_timeout=180).run()
    session.query_params = parameters
    return whole(session.switch_page(f"{page}/view.py").run())


def remove(folder):
    """Delete an index that is open; what reads it may delete its own files meanwhile."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def whole(session):
    """Return the session if no page raised anything but errors in our own words."""
    assert not session.exception, session.exception
    assert "Unexpected error" not in shown(session)
    return session


def shown(session):
    """Return every text that a session shows, one after the other."""
    texts = (session.title, session.header, session.subheader, session.markdown, session.text, session.caption)
    return "\n".join(str(element.value) for kind in (*texts, session.warning) for element in kind)


def click(session, label):
    return whole(next(button for button in session.button if button.label.startswith(label)).click().run())


def drop(session, name, data):
    """Drop a file on the page."""
    session.file_uploader[0].set_value((name, data.encode() if isinstance(data, str) else data, ""))
    return whole(session.run())


def finish(session, name):
    """Wait for an indexing, which the page may have shown as done already, and draw the page again."""
    job = resources.jobs().find(f"index {name}")
    assert job is None or job.wait(PATIENCE).over
    return whole(session.run())


def under_way(session):
    """Return the jobs of all sessions, and the search of this one, running or over."""
    named = list(resources.jobs().named("").values())
    running = "search: running"
    return named + ([session.session_state[running][1]] if running in session.session_state else [])


def settle(session):
    """Wait for what is under way, and draw the page again, until that begins nothing more."""
    waited = []
    for _ in range(12):
        begun = [job for job in under_way(session) if not any(job is one for one in waited)]
        for job in begun:
            assert job.wait(PATIENCE).over, job.title
        waited += begun
        whole(session.run())
        if all(any(job is one for one in waited) for job in under_way(session)):
            return session
    raise AssertionError(f"it never comes to rest: {shown(session)}")


def awaited(session, holds):
    """Draw the page again until it says something, or something holds: what goes on behind it takes its time."""
    end = time.monotonic() + PATIENCE
    while not (holds in shown(session) if isinstance(holds, str) else holds()):
        assert time.monotonic() < end, shown(session)
        time.sleep(0.1)
        whole(session.run())
    return session
