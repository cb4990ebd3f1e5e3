"""The guard before the server's routes: who may ask, how much, how long; and what is counted."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from nonneg.serve.batching import Batches
from nonneg.serve.service import RefusedError, Service

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_NO_CONTENT = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
# Tells balancers only whether to send requests, and nothing of the run.
_OPEN = ("/health",)
_KINDS = {401: "Unauthorized", 429: "Overloaded", 503: "Unhealthy", 504: "Backend", 500: "Backend"}
_OPENAI_KINDS = {401: "authentication_error", 429: "rate_limit_error"}
FAILED = "the server failed; its log says why"
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def refusal(path: str, status: int, why: str) -> bytes:
    """Why there is no answer, as JSON in the shape of the clients of a path.

    Example:
        >>> refusal("/search", 422, "k is missing")
        b'{"error": "k is missing", "error_type": "Validation"}'
    """
    body: dict[str, Any] = {"error": why, "error_type": _KINDS.get(status, "Validation")}
    if path.startswith("/v1/"):
        is_theirs = status < 500
        kind = _OPENAI_KINDS.get(status, "invalid_request_error" if is_theirs else "server_error")
        code = "invalid_api_key" if status == 401 else None
        body = {"error": {"message": why, "type": kind, "param": None, "code": code}}
    return json.dumps(body).encode()  # all in ASCII: a text may hold what UTF-8 cannot


class Guard:
    """An ASGI application that lets an application answer what it should.

    Args:
        app: The application.
        service: What it serves; its limits hold here.
        api_key: What clients have to know; None for nothing.
        hosts: Names that the server may be called by in a browser; None for any. A page elsewhere
            whose name points to this machine is so kept from asking in its visitors' place.
    """

    def __init__(
        self,
        app: App,
        service: Service,
        *,
        api_key: str | None = None,
        hosts: Iterable[str] | None = None,
    ) -> None:
        self._app, self._service, self._limits = app, service, service.limits
        self._key = None if api_key is None else _digest(api_key)
        self._hosts = None if hosts is None else frozenset(hosts)
        self.counts = RequestCounts()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:  # noqa: ANN401
        """Answer a request, or say in a sentence why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        is_begun = False

        async def sent(message: Message) -> None:
            nonlocal status, is_begun
            if message["type"] == "http.response.start":
                status, is_begun = message["status"], True
                message["headers"] = _with_headers(message.get("headers", []))
            await send(message)

        try:
            await self._answer(scope, receive, sent)
        except (RefusedError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                error = RefusedError(504, f"not done after {self._limits.timeout:g} seconds")
            if not is_begun:
                await _refuse(scope, sent, error)
        except Exception:
            logging.getLogger("nonneg.serve").exception("%s failed", scope["path"])
            if not is_begun:
                await _refuse(scope, sent, RefusedError(500, FAILED))
        finally:
            route = getattr(scope.get("route"), "path", "")
            self.counts.add(route, scope["method"], status, time.perf_counter() - started)

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:  # noqa: ANN401
        headers = {name.lower(): value for name, value in scope["headers"]}
        self._check_host(headers)
        if scope["path"] not in _OPEN:
            self._check_key(headers)
        try:
            async with asyncio.timeout(self._limits.timeout):
                body = await self._body(headers, receive)
        except TimeoutError:
            why = f"the body did not come in {self._limits.timeout:g} seconds"
            raise RefusedError(408, why) from None
        is_given = False

        async def given() -> Message:
            nonlocal is_given
            if is_given:
                return await receive()
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async with asyncio.timeout(self._limits.timeout):
            await self._app(scope, given, send)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        if self._hosts is None:
            return
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
        if name not in self._hosts:
            raise RefusedError(421, "the server is not called so; ask for 127.0.0.1 or localhost")

    def _check_key(self, headers: dict[bytes, bytes]) -> None:
        if self._key is None:
            return
        given = _given_key(headers.get(b"authorization", b""))
        if not hmac.compare_digest(_digest(given), self._key):
            raise RefusedError(401, "give the API key of the server as a bearer token")

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """All of the body, as long as it is small enough."""
        most = self._limits.max_body
        too_large = RefusedError(413, f"the body has more than {most:,} bytes")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise too_large
        parts: list[bytes] = []
        n_bytes = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":  # the client has gone
                raise RefusedError(400, "the body ended too early")
            part = message.get("body", b"")
            n_bytes += len(part)
            if n_bytes > most:
                raise too_large
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


class RequestCounts:
    """Requests by route, method and status, and how long they took, as Prometheus reads them."""

    def __init__(self) -> None:
        self._started = time.time()
        self._n: Counter[tuple[str, str, int]] = Counter()
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(_BOUNDS) + 1))
        self._seconds: Counter[str] = Counter()

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request; one without a route, or of an odd method, is called other."""
        route = route or "other"
        self._n[route, method if method in ("GET", "POST", "HEAD") else "other", status] += 1
        place = next((i for i, bound in enumerate(_BOUNDS) if seconds <= bound), len(_BOUNDS))
        self._buckets[route][place] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]

    def text(self, service: Service) -> str:
        """All counts, in Prometheus's text format."""
        lines = _head("nonneg_requests_total", "counter", "Requests by route, method and status.")
        for (route, method, status), n in sorted(self._n.items()):
            labels = f'route="{route}",method="{method}",status="{status}"'
            lines.append(f"nonneg_requests_total{{{labels}}} {n}")
        name = "nonneg_request_seconds"
        lines += _head(name, "histogram", "Time from the first byte of a request to its end.")
        for route, buckets in sorted(self._buckets.items()):
            total = 0
            for bound, n in zip((*map(str, _BOUNDS), "+Inf"), buckets, strict=True):
                total += n
                lines.append(f'{name}_bucket{{route="{route}",le="{bound}"}} {total}')
            lines.append(f'{name}_sum{{route="{route}"}} {self._seconds[route]:.6f}')
            lines.append(f'{name}_count{{route="{route}"}} {total}')
        lines += _of_batches(service)
        n_indexed = 0 if service.index is None else len(service.index)
        lines += _head("nonneg_index_samples", "gauge", "Samples of the index.")
        lines.append(f"nonneg_index_samples {n_indexed}")
        lines += _head("nonneg_features", "gauge", "Features of the run.")
        lines.append(f"nonneg_features {service.n_features}")
        lines += _head("process_start_time_seconds", "gauge", "When the server started.")
        lines.append(f"process_start_time_seconds {self._started:.3f}")
        lines += _head("process_cpu_seconds_total", "counter", "Processor time of the server.")
        lines.append(f"process_cpu_seconds_total {time.process_time():.3f}")
        return "\n".join(lines) + "\n"


def _of_batches(service: Service) -> list[str]:
    threads: dict[str, Batches[Any, Any]] = {
        "embedding": service.embedding,
        "searching": service.searching,
    }
    rows = {
        "batches_total": ("counter", "Batches that were computed.", "n_batches"),
        "inputs_total": ("counter", "Inputs in these batches.", "n_inputs"),
        "failed_total": ("counter", "Pieces of work that ended in an error.", "n_failed"),
        "compute_seconds_total": ("counter", "Time of computing.", "seconds"),
    }
    lines = []
    for key, (kind, meaning, attribute) in rows.items():
        lines += _head(f"nonneg_{key}", kind, meaning)
        for thread, batches in threads.items():
            value = getattr(batches.counts, attribute)
            lines.append(f'nonneg_{key}{{thread="{thread}"}} {round(value, 6)}')
    lines += _head("nonneg_waiting_inputs", "gauge", "Inputs that wait.")
    for thread, batches in threads.items():
        lines.append(f'nonneg_waiting_inputs{{thread="{thread}"}} {batches.n_waiting}')
    return lines


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def _digest(key: str) -> bytes:
    """Of one length, so that comparing does not tell how long a key is."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


def _given_key(header: bytes) -> str:
    """The key of a bearer token, or the password that a browser was given; empty for none."""
    kind, _, value = header.decode("latin-1").partition(" ")
    value = value.strip()
    if kind.lower() == "basic":
        try:
            _, _, password = base64.b64decode(value, validate=True).partition(b":")
        except (binascii.Error, ValueError):
            return ""
        return password.decode(errors="surrogateescape")
    # Headers are bytes; a key of other letters comes in UTF-8.
    return (
        value.encode("latin-1").decode(errors="surrogateescape") if kind.lower() == "bearer" else ""
    )


def _with_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """With the headers that keep browsers careful, where the application set none."""
    there = list(headers)
    names = {name.lower() for name, _ in there}
    return there + [header for header in (*_HEADERS, _NO_CONTENT) if header[0] not in names]


async def _refuse(scope: Any, send: Send, error: RefusedError) -> None:  # noqa: ANN401
    body = refusal(scope["path"], error.status, error.why)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if error.status == 401:
        is_page = scope["path"] in ("/", "/docs")
        way = b'Basic realm="nonneg", charset="UTF-8"' if is_page else b'Bearer realm="nonneg"'
        headers.append((b"www-authenticate", way))
    if error.status in (429, 503):
        headers.append((b"retry-after", b"1"))
    if error.status in (408, 413):
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
