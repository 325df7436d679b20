import inspect

from retriever_app import serving


def test_the_app_listens_on_this_machine_alone_unless_told_otherwise(tmp_path, monkeypatch):
    from streamlit.web import cli

    asked = []
    monkeypatch.setattr(cli, "main", lambda flags, **_: asked.append(flags))
    monkeypatch.setenv(serving.VARIABLE, "")
    serving.serve(tmp_path)
    serving.serve(tmp_path, host="0.0.0.0")
    assert ["--server.address=127.0.0.1" in flags for flags in asked] == [True, False]
    assert inspect.signature(serving.serve).parameters["host"].default == "127.0.0.1"
    off = {"--server.enableXsrfProtection=false", "--server.enableCORS=false", "--server.enableStaticServing=true"}
    assert not off & set(asked[0])
    assert "--browser.gatherUsageStats=false" in asked[0]
