"""Search over HTTP with httpx: first hits at once, settled ones behind them; then clusters as a job."""

import argparse
import json
import os

import httpx

QUESTION = "What kind of product is this review about?"


def main() -> None:
    """Print the hits of a progressive search, then the names of clusters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8600")
    parser.add_argument("--index", default="demo")
    parser.add_argument("--query", default="it stopped working after a few days")
    options = parser.parse_args()
    token = os.environ.get("RETRIEVER_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(base_url=f"{options.url}/indexes/{options.index}", headers=headers, timeout=120) as client:
        body = {"query": options.query, "instruction": QUESTION, "k": 3, "stream": True}
        with client.stream("POST", "/search", json=body) as response:
            response.read() if response.is_error else None
            response.raise_for_status()
            event = ""
            for line in response.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    hits = ", ".join(hit["id"] for hit in json.loads(value).get("hits", []))
                    print(f"{event}: {hits}")
        job = client.post("/cluster", json={"instruction": QUESTION}, params={"wait": 60}).raise_for_status().json()
        if job["status"] != "done":
            print(f"The clusters are still being made: GET /jobs/{job['id']}")
            return
        for cluster in job["result"]["clusters"]:
            print(f"{cluster['size']:4}  {cluster['label']}")


if __name__ == "__main__":
    main()
