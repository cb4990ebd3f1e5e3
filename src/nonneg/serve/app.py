"""The server's routes."""

import base64
import json
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

import nonneg
from nonneg.serve import bodies
from nonneg.serve.guard import FAILED, Guard, refusal
from nonneg.serve.pages import Page, front_page, reference_page
from nonneg.serve.service import RefusedError, Service

if TYPE_CHECKING:
    from fastapi import FastAPI

_LARGEST_NUMBER = 2**31 - 1
_WHY = {
    400: "The request is not as it should be.",
    401: "The API key is missing or wrong.",
    404: "There is no such thing here.",
    408: "The body came too slowly.",
    413: "Too many inputs, or too many bytes.",
    422: "The request is not as it should be.",
    429: "Too many requests wait already.",
    503: "The server is stopping.",
    504: "It took too long.",
}


def fastapi() -> Any:  # noqa: ANN401
    """The library, or a sentence on how to install it."""
    try:
        import_module("uvicorn")
        return import_module("fastapi")
    except (ImportError, RuntimeError, OSError) as error:
        raise ImportError(
            f"serving needs FastAPI and uvicorn, which cannot be imported ({error}); install them "
            "with: pip install 'nonneg[serve]'"
        ) from error


def create_app(
    service: Service, *, api_key: str | None = None, hosts: Iterable[str] | None = None
) -> Guard:
    """The ASGI application that serves a run.

    Args:
        service: What it answers.
        api_key: What clients have to give; None for nothing.
        hosts: Names it may be called by; None for any.
    """
    library = fastapi()
    api = library.FastAPI(
        title="nonneg",
        version=nonneg.__version__,
        summary=f"Features of the run {service.name}.",
        docs_url=None,  # these load scripts from elsewhere
        redoc_url=None,
    )
    guard = Guard(api, service, api_key=api_key, hosts=hosts)
    _add_embedding(api, service)
    _add_search(api, service)
    _add_features(api, service)
    _add_state(api, service, guard)
    _add_errors(api, library)
    described = api.openapi()
    for name in ("EmbedSparse", "OpenAIEmbeddings", "Search", "Explain"):
        _say_width(described["components"]["schemas"][name], service.model.n_inputs)
    api.openapi = lambda: described  # which would be made anew for the pages
    reference = reference_page(described, reads_texts=service.reads_texts)
    pages = {"/": front_page(service), "/docs": reference}
    for path, page in pages.items():
        _add_page(api, path, page)
    return guard


def _refusals(*statuses: int, kind: Any = bodies.Refused) -> dict[int | str, dict[str, Any]]:  # noqa: ANN401
    always = (401, 408, 413, 503, 504)
    return {
        status: {"model": kind, "description": _WHY[status]}
        for status in sorted({*always, *statuses})
    }


def _add_embedding(api: "FastAPI", service: Service) -> None:
    response_class = _response_class()

    @api.post(
        "/embed_sparse",
        summary="Features that are on",
        response_model=bodies.SparseRows,
        responses=_refusals(400, 422, 429),
    )
    async def embed_sparse(body: bodies.EmbedSparse) -> Any:  # noqa: ANN401
        """Index and value of each feature that is on, as text-embeddings-inference gives them."""
        rows = await service.features_of(body.inputs, "inputs")
        return response_class(_sparse_rows(rows))

    @api.post(
        "/v1/embeddings",
        summary="All features, zeros included",
        response_model=bodies.OpenAIAnswer,
        responses=_refusals(400, 422, 429, kind=bodies.OpenAIRefused),
    )
    async def embeddings(body: bodies.OpenAIEmbeddings) -> Any:  # noqa: ANN401
        """All features of each input, as OpenAI's clients read them."""
        if body.dimensions not in (None, service.n_features):
            why = f"dimensions is {body.dimensions}; the run has {service.n_features} features"
            raise RefusedError(400, why)
        rows = await service.features_of(body.input, "input")
        n_tokens = service.n_tokens(body.input)
        dense = rows.toarray().astype("<f4")
        data = [
            {"object": "embedding", "index": n, "embedding": _embedding(row, body.encoding_format)}
            for n, row in enumerate(dense)
        ]
        usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
        return response_class(
            {"object": "list", "model": service.name, "data": data, "usage": usage}
        )


def _add_search(api: "FastAPI", service: Service) -> None:
    response_class = _response_class()

    @api.post(
        "/search",
        summary="The nearest samples of the index",
        response_model=bodies.Found,
        responses=_refusals(400, 404, 422, 429),
    )
    async def search(body: bodies.Search) -> Any:  # noqa: ANN401
        """The k samples of largest cosine with each query; exact."""
        hits = await service.search(body)
        return response_class({"hits": [[_plain(hit) for hit in each] for each in hits]})

    @api.post(
        "/explain",
        summary="Why two things match",
        response_model=bodies.Explained,
        responses=_refusals(400, 404, 422, 429),
    )
    async def explain(body: bodies.Explain) -> Any:  # noqa: ANN401
        """The features that two inputs share, or one and a sample of the index; of one alone all.

        Contributions add up to the cosine.
        """
        found = await service.explain(body, body.id)
        shared = [vars(feature) for feature in found.shared]
        return response_class({"cosine": found.cosine, "shared": shared})


def _add_features(api: "FastAPI", service: Service) -> None:
    library = fastapi()
    response_class = _response_class()

    @api.get(
        "/features",
        summary="The features, those used most first",
        response_model=bodies.Features,
        responses=_refusals(400, 422),
    )
    async def features(
        offset: int = library.Query(0, ge=0, le=_LARGEST_NUMBER),
        limit: int = library.Query(100, ge=1, le=bodies.MOST_LISTED),
        find: str = library.Query("", description="Words in their names."),
    ) -> Any:  # noqa: ANN401
        """Names and expected activations of some features."""
        found = service.ranked(find)
        some = [service.feature(n).model_dump() for n in found[offset : offset + limit]]
        return response_class(
            {"n_features": service.n_features, "n_found": len(found), "features": some}
        )

    @api.get(
        "/features/{number}",
        summary="One feature",
        response_model=bodies.FeatureWithSamples,
        responses=_refusals(400, 404, 422, 429),
    )
    async def feature(number: int = library.Path(ge=0, le=_LARGEST_NUMBER)) -> Any:  # noqa: ANN401
        """A feature, and the samples of the index that consist of it most."""
        known = service.feature(number).model_dump()
        hits = await service.strongest(number)
        samples = None if hits is None else [_plain(hit) for hit in hits]
        return response_class({**known, "samples": samples})


def _add_state(api: "FastAPI", service: Service, guard: Guard) -> None:
    response_class = _response_class()
    plain_text = import_module("fastapi.responses").PlainTextResponse

    @api.get(
        "/health",
        summary="Whether requests are answered",
        response_model=bodies.Health,
        responses={
            503: {"model": bodies.Health, "description": _WHY[503]},
            **{status: _refusals()[status] for status in (408, 413, 504)},
        },
    )
    async def health() -> Any:  # noqa: ANN401
        """For balancers: needs no key."""
        if service.is_running:
            return response_class({"status": "ok"})
        return response_class({"status": "stopping"}, status_code=503)

    @api.get(
        "/metrics",
        summary="Counts for Prometheus",
        response_class=plain_text,
        responses=_refusals(),
    )
    async def metrics() -> Any:  # noqa: ANN401
        """Requests, batches, and what waits."""
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return plain_text(guard.counts.text(service), media_type=kind)


def _say_width(schema: Any, n_inputs: int) -> None:  # noqa: ANN401
    """Write into the description of a body how many numbers its vectors have."""
    if isinstance(schema, dict) and schema.get("items", {}).get("type") == "number":
        schema["minItems"] = schema["maxItems"] = n_inputs
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, dict | list):
            _say_width(part, n_inputs)


def _add_page(api: "FastAPI", path: str, page: Page) -> None:
    html = import_module("fastapi.responses").HTMLResponse

    @api.get(path, include_in_schema=False)
    async def shown() -> Any:  # noqa: ANN401
        return html(page.content, headers={"content-security-policy": page.policy})


def _add_errors(api: "FastAPI", library: Any) -> None:  # noqa: ANN401
    exceptions = import_module("fastapi.exceptions")
    http_error = import_module("starlette.exceptions").HTTPException

    def refused(request: Any, status: int, why: str, headers: Any = None) -> Any:  # noqa: ANN401
        path = request.url.path
        if status == 422 and path.startswith("/v1/"):
            status = 400  # what OpenAI's clients know
        content = refusal(path, status, why)
        return library.Response(content, status, headers, media_type="application/json")

    @api.exception_handler(RefusedError)
    async def known(request: Any, error: RefusedError) -> Any:  # noqa: ANN401
        retry = {"retry-after": "1"} if error.status in (429, 503) else None
        return refused(request, error.status, error.why, retry)

    @api.exception_handler(exceptions.RequestValidationError)
    async def invalid(request: Any, error: Any) -> Any:  # noqa: ANN401
        return refused(request, 422, bodies.sentence(list(error.errors())))

    @api.exception_handler(Exception)
    async def failed(request: Any, _error: Any) -> Any:  # noqa: ANN401
        return refused(request, 500, FAILED)  # raised again, so that the guard logs it

    @api.exception_handler(http_error)
    async def of_the_web(request: Any, error: Any) -> Any:  # noqa: ANN401
        why = {404: "there is nothing under this path", 405: "the path has other methods"}
        said = why.get(error.status_code, str(error.detail))
        return refused(request, error.status_code, said, error.headers)


@cache
def _response_class() -> Any:  # noqa: ANN401
    """JSON in ASCII: a name or a text may hold what UTF-8 cannot."""
    base: Any = import_module("fastapi").Response

    class PlainJSON(base):  # type: ignore[misc]
        media_type = "application/json"

        def render(self, content: Any) -> bytes:  # noqa: ANN401
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()

    return PlainJSON


def _sparse_rows(rows: sparse.csr_array) -> list[list[dict[str, Any]]]:
    found = []
    for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        entries = zip(rows.indices[start:end].tolist(), rows.data[start:end].tolist(), strict=True)
        found.append([{"index": i, "value": value} for i, value in entries])
    return found


def _embedding(row: Any, encoding: str) -> list[float] | str:  # noqa: ANN401
    if encoding == "base64":
        return base64.b64encode(row.tobytes()).decode("ascii")
    values: list[float] = np.asarray(row).tolist()
    return values


def _plain(hit: bodies.Hit) -> dict[str, Any]:
    return hit.model_dump(exclude={"text"} if hit.text is None else None)
