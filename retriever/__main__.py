"""The command line as a module: ``python -m retriever``."""

from retriever.cli.main import run

if __name__ == "__main__":
    run()
