"""A server that listens: on an address of its own, until it is told to stop."""

import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nonneg.serve.app import create_app, fastapi
from nonneg.serve.service import Limits, Service, open_service

# Seconds beyond the limit of one request in which those that were begun end.
_GRACE = 5


def serve_run(
    run: str | Path,
    *,
    index: str | Path | None = None,
    encoder: Any = None,  # noqa: ANN401
    host: str = "127.0.0.1",
    port: int = 8080,
    api_key: str | None = None,
    limits: Limits | None = None,
    ready: Callable[[str, Service], None] = lambda address, service: None,
) -> None:
    """Serve a run until SIGTERM or SIGINT; requests that were begun are answered before the end.

    Args:
        run: Of ``nonneg fit``, or what ``NCL.save`` wrote.
        index: Of features of the same run; None for no search.
        encoder: Where the encoder of texts lies now, if not where it lay.
        host: An address of this machine. One that others reach needs an API key.
        port: 0 for any that is free.
        api_key: What clients have to give; None for nothing.
        limits: What one request may ask.
        ready: Told the address once the server listens.

    Raises:
        ImportError: FastAPI or uvicorn is missing.
        ValueError: The run or the index cannot be served, or the address is taken or unsafe.
    """
    fastapi()
    check_key(host, api_key)
    listening = listening_socket(host, port)
    try:
        service = open_service(run, index, encoder=encoder, limits=limits)
    except BaseException:
        listening.close()
        raise
    hosts = None if api_key is not None else {"localhost", "127.0.0.1", "[::1]", _in_url(host)}
    server = uvicorn_server(create_app(service, api_key=api_key, hosts=hosts), service)
    ready(f"http://{_in_url(host)}:{listening.getsockname()[1]}/", service)
    # After its end uvicorn raises the signal once more, for whoever handled it before.
    before = {number: signal.signal(number, _ignore) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[listening])
    finally:
        service.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def uvicorn_server(app: Any, service: Service) -> Any:  # noqa: ANN401
    """A server for an application, not yet running."""
    import uvicorn

    _log()
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(service.limits.timeout) + _GRACE,
        )
    )


def check_key(host: str, api_key: str | None) -> None:
    """Raise a sentence for an address that others reach without a key, or for a key of nothing."""
    if api_key is not None and not api_key.strip():
        raise ValueError("the API key is empty; leave it out, or set NONNEG_API_KEY to a long one")
    if api_key is None and not _is_loopback(host):
        raise ValueError(
            f"{host} can be reached from other machines; set the environment variable "
            "NONNEG_API_KEY to a key that clients have to give, or leave --host out"
        )


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket bound to an address.

    Raises:
        ValueError: The port is taken, or the address is none of this machine.
    """
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(kind, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # where it would let two servers share a port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(1024)
    except (OSError, OverflowError) as error:
        made.close()
        raise ValueError(
            f"cannot listen on port {port} of {host} ({getattr(error, 'strerror', error)}); "
            "choose another with --port or --host"
        ) from error
    return made


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _log() -> None:
    """Warnings and errors, one line each, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("uvicorn", "nonneg.serve"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)


def _ignore(_number: int, _frame: Any) -> None:  # noqa: ANN401
    """The server has handled the signal itself."""
