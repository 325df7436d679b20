"""Describe the contents of pages as plain values: nothing in here knows Streamlit."""
