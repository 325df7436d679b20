from index_fixtures import encoder, index, moods, one_thread, path, taught

__all__ = ["encoder", "index", "moods", "one_thread", "path", "taught"]
