from asking_index import reader
from index_fixtures import encoder, index, moods, one_thread, path, rich, rich_encoder, taught, unjudged

__all__ = ["encoder", "index", "moods", "one_thread", "path", "reader", "rich", "rich_encoder", "taught", "unjudged"]
