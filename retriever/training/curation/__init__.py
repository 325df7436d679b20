"""The steps of `retriever curate`: each looks at rows and says which ones it drops and why."""
