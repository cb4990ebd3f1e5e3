"""Models in folders with a card, and on the Hugging Face hub."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from nonneg.encoder import CONFIG_FILE, WEIGHTS_FILE, Encoder
from nonneg.estimators.fitted import ESTIMATOR, content
from nonneg.estimators.growing import COVERAGE_FILE
from nonneg.interchange.model_card import CARD_FILE, IS_OURS, model_card, model_digest
from nonneg.io import read_json, write_bytes

Model = TypeVar("Model")
# All that an estimator or an encoder consists of.
_FILES = (CONFIG_FILE, WEIGHTS_FILE, COVERAGE_FILE)
# Entries of a backbone's configuration by which a library would fetch or unpickle something.
_FETCHING = {
    "auto_map", "checkpoint_path", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay",
    "quantization_config",
}  # fmt: skip
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")


def save_pretrained(
    model: Any,  # noqa: ANN401
    folder: Path,
    *,
    run: str | Path | None = None,
    license: str | None = None,
    title: str | None = None,
) -> None:
    """Write a model and its card; see :meth:`nonneg.NCL.save_pretrained`.

    Args:
        model: An ``Encoder``, an ``NCL`` or a ``CrossNCL``.
        folder: Where to write.
        run: Whose measurements the card is to hold.
        license: As the hub names it.
        title: Of the card; None for the name of the folder.
    """
    if license is not None and not _LICENSE.fullmatch(license):
        raise ValueError(f"{license!r} is no licence of the hub; give a name such as 'mit'")
    card = folder / CARD_FILE
    if card.exists() and IS_OURS not in card.read_text(encoding="utf-8", errors="replace"):
        raise FileExistsError(
            f"{card} was not written by nonneg, or was edited and its first comment taken out; "
            "move it away, or choose another folder"
        )
    config = folder / CONFIG_FILE  # estimators look for themselves what they would overwrite
    if isinstance(model, Encoder) and config.exists():
        there = content(read_json(config, remedy="choose another folder"))
        if there != "an encoder":
            raise FileExistsError(f"{folder} holds {there}; choose another folder for an encoder")
    text = model_card(
        model,
        title or folder.resolve().name,
        run=None if run is None else _checked_run(model, Path(run)),
        license=license,
    )
    model.save(folder)
    write_bytes(card, text.encode())


def from_pretrained(
    kind: type[Model],
    place: str | Path,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    **loading: Any,  # noqa: ANN401
) -> Model:
    """The model of a folder or of a repository; see :meth:`nonneg.NCL.from_pretrained`."""
    folder = Path(place).expanduser()
    if not folder.is_dir():
        if not _is_repository(place):
            raise FileNotFoundError(f"there is no folder {place}")
        folder = _downloaded(kind, str(place), revision, token)
        _check_asks_nothing(folder, str(place))
    elif revision is not None:
        raise ValueError(f"{place} is a folder, which has no revision {revision!r}; leave it out")
    loaded: Model = kind.load(folder, **loading)  # type: ignore[attr-defined]
    return loaded


def push_to_hub(
    model: Any,  # noqa: ANN401
    repo: str,
    *,
    run: str | Path | None,
    license: str | None,
    private: bool | None,
    token: str | bool | None,
    revision: str | None,
    message: str,
) -> str:
    """Upload a model with its card; see :meth:`nonneg.NCL.push_to_hub`."""
    hub = _huggingface_hub("push_to_hub")
    if not _is_repository(repo):
        raise ValueError(f"{repo!r} names no repository of the hub; give owner/name")
    with TemporaryDirectory() as folder:
        save_pretrained(model, Path(folder), run=run, license=license, title=repo)
        api = hub.HfApi(token=token, library_name="nonneg", library_version=version("nonneg"))
        try:
            api.create_repo(repo, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo,
                folder_path=folder,
                allow_patterns=[*_names(type(model)), CARD_FILE],
                commit_message=message,
                revision=revision,
            )
        except _failures() as error:
            raise OSError(f"cannot upload to {repo}: {_first_line(error)}") from error
    return str(commit.commit_url)


def _checked_run(model: Any, run: Path) -> Path:  # noqa: ANN401
    """The run folder, if its weights are the model's."""
    if "" not in getattr(model, "_encoder_folders", {"": ""}).values():
        raise ValueError(f"no run is of a {type(model).__name__}; leave out run={str(run)!r}")
    if not (run / WEIGHTS_FILE).is_file():
        raise FileNotFoundError(f"{run} holds no finished run: {WEIGHTS_FILE} is missing")
    if _saved_digest(model) != model_digest(run):
        # Saved by 0.1, which kept thinning elsewhere, it has another digest than saved today.
        is_old = "max_active" not in read_json(run / CONFIG_FILE).get("settings", {})
        if not is_old or _saved_digest(model) != _saved_digest(type(model).load(run)):
            raise ValueError(
                f"{run} is the run of other features than those of this {type(model).__name__}; "
                "load the model from that folder, or give its own run"
            )
    return run


def _saved_digest(model: Any) -> str:  # noqa: ANN401
    with TemporaryDirectory() as folder:
        model.save(folder)
        return model_digest(folder)


def _names(kind: type[Any]) -> list[str]:
    """The files of a model by their places, of which a repository may hold others beside."""
    places = getattr(kind, "_encoder_folders", {"": ""}).values()
    inner = [f"{place}/{name}" for place in places if place for name in _FILES[:2]]
    return [*_FILES, *inner]


def _downloaded(kind: type[Any], repo: str, revision: str | None, token: str | bool | None) -> Path:
    hub = _huggingface_hub("from_pretrained of a repository")
    try:
        folder = hub.snapshot_download(
            repo,
            revision=revision,
            token=token,
            allow_patterns=_names(kind),
            library_name="nonneg",
            library_version=version("nonneg"),
        )
    except _failures() as error:
        raise OSError(
            f"there is no folder {repo}, and it cannot be read from the hub: {_first_line(error)}"
        ) from error
    if not (Path(folder) / CONFIG_FILE).is_file():
        raise FileNotFoundError(
            f"{repo} holds no {kind.__name__}: {CONFIG_FILE} is missing; give a repository that "
            "push_to_hub wrote"
        )
    return Path(folder)


def _check_asks_nothing(folder: Path, repo: str) -> None:
    """Raise a sentence where a download asks for files or models beyond those it may have."""
    for path in sorted(folder.rglob(CONFIG_FILE)):
        config = read_json(path)
        if not isinstance(config, dict):
            raise ValueError(f"{repo}: {path.name} describes no model")
        facts, settings = config.get(ESTIMATOR, {}), config.get("settings", {})
        files = facts.get("files", {}) if isinstance(facts, dict) else {}
        allowed = {*_FILES, *(f"{side}/{name}" for side in "xy" for name in _FILES[:2])}
        if others := [str(name) for name in files if name not in allowed]:
            raise ValueError(f"{repo} asks for the file {others[0]!r}, which no model has; refused")
        backbone = settings.get("backbone") if isinstance(settings, dict) else None
        if asked := next(_fetches(backbone), None):
            raise ValueError(
                f"{repo} asks to fetch another model ({asked}), which is not done for a model of "
                "the hub; refused"
            )


def _fetches(backbone: Any) -> Iterator[str]:  # noqa: ANN401
    """What a backbone's settings would have a library fetch or run, in words."""
    if not isinstance(backbone, dict):
        return
    if backbone.get("pretrained"):
        yield f"{backbone.get('name')!r} with published weights"
    config = backbone.get("config")
    if str(backbone.get("name")).startswith("transformers:") and not config:
        yield f"{backbone['name']!r} without its configuration"
    yield from _fetching_entries(config)


def _fetching_entries(config: Any) -> Iterator[str]:  # noqa: ANN401
    if isinstance(config, list):
        for inner in config:
            yield from _fetching_entries(inner)
    for key, value in config.items() if isinstance(config, Mapping) else ():
        # Attention may be named by a repository, from which a kernel would be fetched and run.
        is_kernel = "attn_implementation" in key and isinstance(value, str) and "/" in value
        if is_kernel or (key in _FETCHING and value):
            yield key
        yield from _fetching_entries(value)


def _is_repository(place: str | Path) -> bool:
    """Whether this may be owner/name; that of a folder that is not there may look like one."""
    owner, slash, name = str(place).partition("/")
    return bool(owner and slash and name) and "/" not in name and owner[0] not in ".~\\"


def _huggingface_hub(what: str) -> Any:  # noqa: ANN401
    try:
        return import_module("huggingface_hub")
    except (ImportError, RuntimeError, OSError) as error:
        raise ImportError(
            f"{what} needs huggingface_hub, which cannot be imported ({error}); install it with: "
            "pip install 'nonneg[hub]'"
        ) from error


def _failures() -> tuple[type[Exception], ...]:
    """What goes wrong between here and the hub: its errors, and those of the connection."""
    return OSError, import_module("huggingface_hub.errors").HTTPError


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
