"""What a Ray cluster that this process starts is told before Ray is imported."""

import os
import secrets


def guard_local_ray() -> None:
    """Have a Ray that this process starts listen on loopback alone, behind a token that its children inherit.

    A process has one token: Ray keeps the first that it saw.
    """
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray listens on loopback then, on any system
