"""A worker as a process of this machine: ``python -m retriever.index.workers.process_worker``, started by the pool."""

from retriever.index.workers.child import Parent
from retriever.index.workers.worker import Worker, WorkerSettings, told


def main() -> None:
    """Load the encoders, then embed what is asked for until the parent is gone."""
    parent = Parent(ends=True)
    worker = Worker(WorkerSettings(**parent.settings))
    try:
        worker.load()
    except Exception as error:
        parent.say(event="unfit", error=told(error))
        parent.end()
    parent.say(event="ready")
    while (asked := parent.asked.get()) is not None:
        try:
            parent.say(event="done", name=asked["name"], tokens=worker.embed(asked["name"]))
        except Exception as error:
            parent.say(event="failed", name=asked["name"], error=told(error))


if __name__ == "__main__":
    main()
