"""Embeddings through OpenAI's own client: ``pip install openai``, ``retriever serve``, then this script."""

import argparse
import os

from openai import OpenAI

REVIEWS = ["The kettle leaks after a week.", "My son loves the toy train.", "The kettle boils fast."]
QUESTION = "What kind of product is this review about?"


def main() -> None:
    """Print how alike the first review and the others are, under a question and without one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8600/v1")
    url = parser.parse_args().url
    client = OpenAI(base_url=url, api_key=os.environ.get("RETRIEVER_TOKEN", "none"))
    for instruction in ("", QUESTION):
        answer = client.embeddings.create(model="default", input=REVIEWS, extra_body={"instruction": instruction})
        first, *others = (one.embedding for one in answer.data)
        cosines = [sum(a * b for a, b in zip(first, other, strict=True)) for other in others]
        print(f"{instruction or 'no instruction'}: {', '.join(f'{cosine:.3f}' for cosine in cosines)}")


if __name__ == "__main__":
    main()
