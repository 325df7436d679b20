"""The index's database: SQLite holds everything that cannot be computed again."""
