from index_fixtures import encoder, index, one_thread, path

__all__ = ["encoder", "index", "one_thread", "path"]
