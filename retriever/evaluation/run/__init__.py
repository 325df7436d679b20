"""Run the evaluation for users: `retriever eval` and `retriever diagnose`."""
