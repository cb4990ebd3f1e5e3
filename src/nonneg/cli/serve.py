"""``nonneg serve``: a fitted run over HTTP."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from nonneg.serve.service import Service


def serve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of nonneg fit.")],
    index: Annotated[
        Path | None,
        typer.Option(
            help="The folder that nonneg index made. [dim]default: index in the run folder, if "
            "there is one[/]"
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Runs of texts: where the encoder lies now. [dim]default: as then[/]"),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; one that others reach needs a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8080,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="NONNEG_API_KEY",
            show_default=False,
            help="What clients have to give. Other users of the machine see options, so set the "
            "variable.",
        ),
    ] = None,
    max_batch: Annotated[int, typer.Option(min=1, help="The most inputs of one request.")] = 256,
    max_body: Annotated[
        float, typer.Option(min=0.001, help="The most megabytes of one request.")
    ] = 4.0,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="The most inputs that wait; further requests get a 429.")
    ] = 1024,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds until a request is given up with a 504.")
    ] = 30.0,
) -> None:
    """Serve a fitted run over HTTP: features, search, explanations, and the atlas.

    /embed_sparse answers as text-embeddings-inference does and /v1/embeddings as OpenAI does;
    /search and /explain use the index; / shows the atlas with a box to try a text or a row, /docs
    all that can be asked, /metrics counts for Prometheus. It ends on Ctrl-C or SIGTERM, once
    requests that were begun are answered.

    Example: nonneg serve runs/reviews --port 8081

    Example: NONNEG_API_KEY=… nonneg serve runs/reviews --host 0.0.0.0
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.serve.pages import atlas_of
    from nonneg.serve.running import serve_run
    from nonneg.serve.service import Limits

    console = Console()

    def ready(address: str, service: "Service") -> None:
        reads = "texts" if service.reads_texts else f"vectors of {service.model.n_inputs} numbers"
        found = "no index" if service.index is None else f"an index of {len(service.index):,}"
        said = f"serving {run} ({service.n_features:,} features of {reads}, {found}): {address}"
        console.print(said, highlight=False, markup=False, soft_wrap=True)
        if atlas_of(service) is None:
            note = f"there is no atlas of this version; to show one, first run: nonneg report {run}"
            console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)

    serve_run(
        run,
        index=index,
        encoder=encoder,
        host=host,
        port=port,
        api_key=api_key,
        limits=Limits(
            max_batch=max_batch,
            max_body=int(max_body * 1e6),
            timeout=timeout,
            max_waiting=max_waiting,
        ),
        ready=ready,
    )
    console.print("stopped", highlight=False)
