"""The tools, one a module: `make(desk)` gives the function that agents call."""
