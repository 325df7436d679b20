import shutil

from retriever_app import resources


def remove(folder):
    """Delete an index that is open; what reads it may delete its own files meanwhile."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def whole(session):
    """Return the session if no page raised anything but errors in our own words."""
    assert not session.exception, session.exception
    assert "went wrong that should not have" not in shown(session)
    return session


def shown(session):
    """Return every text that a session shows, one after the other."""
    kinds = (session.title, session.header, session.subheader, session.markdown, session.text, session.caption)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def click(session, label):
    return whole(next(button for button in session.button if button.label.startswith(label)).click().run())


def finish(session, name):
    """Wait for an indexing and draw the page again."""
    resources.jobs().find(f"index {name}").wait(60)
    return whole(session.run())
