"""A Milvus server for tests: the wheel `milvus`, on free ports, with its data in a folder, behind a token."""

import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import milvus
import pymilvus
from filelock import FileLock

TOKEN = "root:Milvus"  # what a new server knows
SECONDS = 120

# A server saves its strength by looking around only now and then; tests would wait for it.
QUICK = {
    "DATACOORD_SEGMENT_ASSIGNMENTEXPIRATION": 200,
    "COMMON_SESSION_TTL": 3,  # s until a server that was killed is believed to be
    "PROXY_TIMETICKINTERVAL": 50,
    "QUERYCOORD_CHECKINTERVAL": 50,
    "QUERYCOORD_CHECKHANDOFFINTERVAL": 100,
    "QUERYCOORD_DISTPULLINTERVAL": 50,
    "QUERYCOORD_CHECKSEGMENTINTERVAL": 50,
    "QUERYCOORD_CHECKCHANNELINTERVAL": 50,
    "QUERYCOORD_CHECKINDEXINTERVAL": 200,
}

ETCD = """name: default
data-dir: {folder}/etcd
listen-client-urls: http://127.0.0.1:{client}
advertise-client-urls: http://127.0.0.1:{client}
listen-peer-urls: http://127.0.0.1:{peer}
initial-advertise-peer-urls: http://127.0.0.1:{peer}
initial-cluster: default=http://127.0.0.1:{peer}
"""


def free_ports(count):
    """Return ports that are free, and below those that connections take: a killed server finds its own again."""
    with ExitStack() as held:
        ports = []
        while len(ports) < count:
            each, port = held.enter_context(socket.socket()), random.SystemRandom().randrange(12_000, 32_000)
            with suppress(OSError):
                each.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def unpacked(cache):
    """Return the folder with the server's program, unpacked from the wheel once."""
    with FileLock(cache / "lock"):
        milvus._initialize_data_files(str(cache))
    return cache / "bin"


@contextmanager
def quick():
    """Look often whether the server has done what a client waits for: here that takes two seconds, not minutes."""
    clock = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(seconds / 20))
    with patch("pymilvus.client.grpc_handler.time", clock), patch("retriever.vectors.milvus.server._LONGEST_WAIT", 0.1):
        yield


# PR_SET_PDEATHSIG, SIGKILL: no server outlives tests that are killed.
ENDS_WITH_US = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


class MilvusServer:
    """A server that can be killed and started again over its data."""

    def __init__(self, folder: Path, programs: Path):
        folder.mkdir()
        config = milvus.MilvusServerConfig(data_dir=str(folder))
        keys = [key for key in config.configurable_items if key.endswith("_port")]
        *ports, self._health, peer = free_ports(len(keys) + 2)
        config.update(**dict(zip(keys, ports, strict=True)))
        config.set("authorization_enabled", True)
        config.resolve()
        etcd = folder / "etcd.yaml"  # its ports are in no other setting
        etcd.write_text(ETCD.format(folder=folder, client=config.get("etcd_port"), peer=peer))
        self._folder, self._program = folder, programs / "milvus"
        self._environment = {
            **os.environ,
            **{name: str(value) for name, value in QUICK.items()},
            "DEPLOY_MODE": "STANDALONE",
            "METRICS_PORT": str(self._health),
            "MILVUS_RUN_DIR": str(folder / "run"),
            "ETCD_CONFIG_PATH": str(etcd),
            "LD_LIBRARY_PATH": str(programs),
        }
        self.token = TOKEN
        self.url = f"http://127.0.0.1:{config.get('proxy_port')}"
        self._process = None

    def start(self):
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", ENDS_WITH_US, self._program, "run", "standalone"],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + SECONDS
        while not self._healthy():
            assert self._process.poll() is None, (self._folder / "server.log").read_text()[-3000:]
            assert time.monotonic() < until, "The server does not start."
            time.sleep(0.05)

    def _healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/healthz", timeout=5) as answer:
                return b"OK" in answer.read()
        except OSError:
            return False

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        self._process.kill()
        self._process.wait()

    stop = kill  # its data go with it

    @property
    def client(self):
        return pymilvus.MilvusClient(uri=self.url, token=self.token, timeout=10)

    @property
    def collections(self):
        return sorted(self.client.list_collections())

    def aliases(self):
        """Return which collection every alias names."""
        held = {name: self.client.describe_collection(name)["aliases"] for name in self.collections}
        return {alias: name for name, aliases in held.items() for alias in aliases}
