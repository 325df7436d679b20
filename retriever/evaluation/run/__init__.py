"""Run the evaluation for users: `retriever eval`."""
