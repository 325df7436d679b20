"""Run the training for users: `retriever finetune` and `retriever curate`."""
