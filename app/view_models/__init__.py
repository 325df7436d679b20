"""What pages show, as plain values: nothing in here knows Streamlit."""
