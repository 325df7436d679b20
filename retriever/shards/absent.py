"""What an index in shards does without, in the place of the parts of a `Store` that a search looks at."""


class Undivided:
    """An index in shards is one of whole documents (`splitting`)."""

    divided = False


class Untaught:
    """No view of an index in shards was taught (`splitting`)."""

    def identity(self, view_id: int) -> None:
        """Return what a view was taught: nothing."""

    def sources(self) -> dict[int, int]:
        """Return the views that taught views are made of: none."""
        return {}


class Inspected:
    """Every shard looks at its own database before it answers anything (`Shard.state`)."""

    def require_documents_listed(self) -> None:
        """Do nothing."""
