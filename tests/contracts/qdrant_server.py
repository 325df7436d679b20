"""A Qdrant server for tests: the few requests we send, over HTTP, answered by the client library's own local mode.

It lacks what a server adds (time-outs, shards, approximate search); addresses, bodies, errors and filters are real.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from qdrant_client import QdrantClient, models


class Requests(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answered()

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def answered(self):
        size = int(self.headers.get("Content-Length") or 0)
        self.server.largest = max(self.server.largest, size)
        body = json.loads(self.rfile.read(size)) if size else {}
        _, _, name, *rest = [*self.path.partition("?")[0].split("/"), ""]
        if self.server.key and self.headers.get("api-key") != self.server.key:
            return self.reply(401, {"status": {"error": "no key"}})
        try:
            with self.server.alone:
                result = self.result(self.command, name, "/".join(rest).strip("/"), body)
        except ValueError as error:
            return self.reply(404 if "not found" in str(error) else 400, {"status": {"error": str(error)}})
        return self.reply(200, {"result": result, "status": "ok", "time": 0.0})

    def result(self, command, name, rest, body):  # noqa: C901 - one case per request
        client = self.server.client
        match command, bool(name), rest:
            case "GET", False, "" if self.path.startswith("/aliases"):
                return client.get_aliases().model_dump(mode="json")
            case "GET", False, "":
                return client.get_collections().model_dump(mode="json")
            case "GET", True, "":
                return client.get_collection(name).model_dump(mode="json")
            case "PUT", True, "":
                config = models.CreateCollection(**body)
                return client.create_collection(
                    name, vectors_config=config.vectors, hnsw_config=config.hnsw_config, metadata=config.metadata
                )
            case "DELETE", True, "":
                return client.delete_collection(name)
            case "GET", True, "exists":
                return {"exists": client.collection_exists(name)}
            case "POST", True, "" if name == "aliases":
                actions = models.ChangeAliasesOperation(**body).actions
                self.server.switches.append(len(actions))
                return client.update_collection_aliases(actions)
            case "PUT", True, "index":
                self.server.indexed.append((body["field_name"], body["field_schema"], client.count(name).count))
                return {"operation_id": 0, "status": "completed"}
            case "POST", True, "points/count":
                return client.count(name).model_dump(mode="json")
            case "POST", True, "points":
                found = client.retrieve(name, body["ids"], with_payload=False)
                return [one.model_dump(mode="json") for one in found]
            case "PUT", True, "points" if "points" in body:
                self.server.upserts += 1
                if self.server.upserts == self.server.fail_at:
                    raise ValueError("the disk is full")
                return client.upsert(name, models.PointsList(**body).points).model_dump(mode="json")
            case "PUT", True, "points":
                return client.upsert(name, models.PointsBatch(**body).batch).model_dump(mode="json")
            case "POST", True, "points/scroll":
                asked = models.ScrollRequest(**body)
                points, after = client.scroll(
                    name, limit=asked.limit, offset=asked.offset, with_payload=False, with_vectors=False
                )
                return {"points": [one.model_dump(mode="json") for one in points], "next_page_offset": after}
            case "POST", True, "points/query/batch":
                searches = models.QueryRequestBatch(**body).searches
                assert all(one.params.exact for one in searches)
                self.server.conditions += [one.filter for one in searches if one.filter]
                for one in searches:
                    one.params = None
                return [one.model_dump(mode="json") for one in client.query_batch_points(name, searches)]
        raise ValueError(f"{command} {self.path} is not answered here")

    def reply(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """Remembers the filters of the searches, and the bytes of the largest request."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Requests)
        self.client, self.alone = QdrantClient(":memory:"), threading.Lock()
        self.conditions, self.largest, self.key = [], 0, ""
        self.indexed, self.switches, self.upserts, self.fail_at = [], [], 0, 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def collections(self):
        return sorted(one.name for one in self.client.get_collections().collections)


@contextmanager
def qdrant_server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
