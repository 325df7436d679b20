"""A folder a page: `view` draws it, `model` works out what it shows, `job` does its work in the background."""
