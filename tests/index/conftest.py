from index_fixtures import encoder, index, moods, one_thread, path, rich, rich_encoder, taught, unjudged

__all__ = ["encoder", "index", "moods", "one_thread", "path", "rich", "rich_encoder", "taught", "unjudged"]
