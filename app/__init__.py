"""The Streamlit app: explore reviews by asking. Installed as `retriever_app`; `retriever app` starts it."""
