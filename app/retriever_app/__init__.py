"""The Streamlit app: explore reviews by asking. Installed as `retriever_app`; `retriever app` starts it."""

from pathlib import Path


def example_file(name: str) -> Path:
    """Return a file to try the app with: a wheel holds it beside this module, a checkout in its folder examples/."""
    packaged = Path(__file__).with_name("examples") / name
    return packaged if packaged.is_file() else Path(__file__).parents[2] / "examples" / name
