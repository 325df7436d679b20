"""BERTopic with our embeddings: topics that answer a question. ``pip install bertopic``."""

import argparse
import json
from pathlib import Path

from bertopic import BERTopic
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from retriever.integrations.sklearn import RetrieverEncoder

QUESTION = "What kind of product is this review about?"


def main() -> None:
    """Print the topics of a file of reviews, with their sizes and words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="examples/reviews.jsonl")
    parser.add_argument("--topics", type=int, default=5)
    options = parser.parse_args()
    lines = Path(options.corpus).read_text(encoding="utf-8-sig").split("\n")
    texts = [json.loads(line)["text"] for line in lines if line.strip()]
    model = BERTopic(
        embedding_model=make_pipeline(RetrieverEncoder(instruction=QUESTION)),
        umap_model=PCA(n_components=min(5, options.topics)),
        hdbscan_model=KMeans(n_clusters=options.topics, random_state=0, n_init=3),
        vectorizer_model=CountVectorizer(stop_words="english"),
    )
    model.fit(texts)
    for row in model.get_topic_info().itertuples():
        print(f"{row.Count:4}  {', '.join(row.Representation[:5])}")


if __name__ == "__main__":
    main()
