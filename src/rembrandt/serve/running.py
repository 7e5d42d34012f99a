"""The service as a process: an address, a token, and an orderly end."""

import ipaddress
import logging
import os
import signal
import socket
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from rembrandt.errors import SettingsError
from rembrandt.linalg.threads import n_threads

TOKEN = "REMBRANDT_TOKEN"  # the environment variable that holds it
_SHORTEST = 16  # characters of a token
_PATIENCE = 30  # seconds that requests under way are waited for at the end


def read_token(file: Path | None) -> str | None:
    """The token from a file, or from the environment; never from the command line, where others can read it."""
    where = f"the file {file}" if file is not None else f"the variable {TOKEN}"
    token = os.environ.get(TOKEN) if file is None else file.read_text(encoding="utf-8").strip()
    if token is None:
        return None
    if len(token) < _SHORTEST or not (token.isascii() and token.isprintable()) or " " in token:
        raise SettingsError(
            f"{where} holds no token: it must have {_SHORTEST} or more letters, digits and signs without spaces; "
            "make one with: openssl rand -hex 32"
        )
    return token


def check_address(host: str, token: str | None, open_to_all: bool) -> None:
    """Refuse to listen where others can connect, unless there is a token or that is what is wanted."""
    if token is None and not open_to_all and not is_loopback(host):
        raise SettingsError(
            f"{host} can be reached from other machines, and there is no token: set {TOKEN} or give --token-file, "
            "or say --no-token if everyone who can connect may ask"
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; choose another with --host or --port"
        ) from error
    listening.set_inheritable(True)
    return listening


def server(app: Any) -> Any:
    """A uvicorn server for the application; what it logs are warnings and worse."""
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            app,
            access_log=False,
            log_level="warning",
            server_header=False,
            ws="none",
            proxy_headers=False,
            timeout_graceful_shutdown=_PATIENCE,
        )
    )


def run(app: Any, listening: socket.socket) -> None:
    """Answer until SIGINT or SIGTERM; then finish what was accepted."""
    for ending in (signal.SIGINT, signal.SIGTERM):  # uvicorn's own handlers come first, and hand on to these
        signal.signal(ending, lambda *_: None)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    with threadpool_limits(_product_threads(), "blas"):
        server(app).run([listening])


def _product_threads() -> int:
    """Half of the cores, unless told otherwise: the others read requests and write answers meanwhile."""
    return n_threads() if "REMBRANDT_NUM_THREADS" in os.environ else max(1, n_threads() // 2)
