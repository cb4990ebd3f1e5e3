"""Models in folders and on a hub that this file plays; no test asks the network for anything."""

import fnmatch
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import create_autospec

import numpy as np
import pytest
import torch
from torch import nn

import nonneg
from nonneg.backbones import BackboneSettings
from nonneg.evaluation.evaluation import Evaluation, Measured
from nonneg.interchange.model_card import IS_OURS
from nonneg.metrics.figures import Figure
from nonneg.runs.fitting import fit_run
from nonneg.runs.record import model_digest
from nonneg.runs.vector_fits import VectorFiles, vector_experiment


def vectors(n=60, d=12):
    generator = np.random.default_rng(0)
    return generator.normal(size=(n, d)).astype(np.float32)


@pytest.fixture(scope="module")
def ncl():
    return nonneg.NCL(n_components=16, max_steps=20, random_state=0).fit(vectors())


@pytest.fixture(scope="module")
def cross():
    both = nonneg.CrossNCL(8, max_steps=10, random_state=0)
    return both.fit(vectors(), vectors(d=7))


@pytest.fixture(scope="module")
def encoder():
    backbone = BackboneSettings(name="resnet10", width=4)
    settings = nonneg.EncoderSettings(backbone=backbone, projector={"n_features": 8})
    torch.manual_seed(0)
    return nonneg.Encoder(settings, (3, 8, 8)).eval()


@pytest.fixture
def models(ncl, cross, encoder):
    X, y = vectors(9), vectors(9, 7)
    images = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    return [
        (ncl, lambda model: model.transform(X)),
        (cross, lambda model: np.hstack(model.transform(X, y))),
        (encoder, lambda model: model.encode(images).features.numpy()),
    ]


class Hub:
    """Repositories in memory, with the part of huggingface_hub that is used."""

    def __init__(self, cache):
        self.repos, self.cache, self.said = {}, cache, []

    def HfApi(self, **given):  # noqa: N802
        self.said.append(given)
        return self

    def create_repo(self, repo, *, private, exist_ok):
        assert exist_ok
        self.said.append({"private": private})
        self.repos.setdefault(repo, {})

    def upload_folder(self, *, repo_id, folder_path, allow_patterns, commit_message, revision):
        from pathlib import Path

        for path in sorted(Path(folder_path).rglob("*")):
            name = path.relative_to(folder_path).as_posix()
            if path.is_file() and any(fnmatch.fnmatch(name, p) for p in allow_patterns):
                self.repos[repo_id][name] = path.read_bytes()
        self.said.append({"message": commit_message, "revision": revision})
        return SimpleNamespace(commit_url=f"https://hub.test/{repo_id}/commit/1")

    def snapshot_download(self, repo, *, revision, token, allow_patterns, **_):
        if repo not in self.repos:
            raise OSError(f"404 for {repo}\n\nCheck the name\nRequest ID: 12")
        self.said.append({"revision": revision, "token": token})
        folder = self.cache / repo / "snapshots" / "1"
        for name, content in self.repos[repo].items():
            if any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)


class NoConnectionError(Exception):
    """What the client behind huggingface_hub raises."""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    played = Hub(tmp_path / "cache")
    monkeypatch.setitem(sys.modules, "huggingface_hub", played)
    errors = SimpleNamespace(HTTPError=NoConnectionError)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    return played


@pytest.fixture
def no_hub(monkeypatch):
    """Without the extra."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)


def test_a_folder_gives_the_same_features_without_the_extra(models, tmp_path, no_hub):
    for number, (model, features) in enumerate(models):
        model.save_pretrained(tmp_path / str(number))
        loaded = type(model).from_pretrained(tmp_path / str(number))
        np.testing.assert_array_equal(features(loaded), features(model))
        assert features(model).any()


def test_a_repository_gives_the_same_features(models, hub, tmp_path):
    for number, (model, features) in enumerate(models):
        address = model.push_to_hub(f"me/model-{number}", private=True, token="secret")
        assert address == f"https://hub.test/me/model-{number}/commit/1"
        loaded = type(model).from_pretrained(f"me/model-{number}", revision="main")
        np.testing.assert_array_equal(features(loaded), features(model))
    assert hub.said[0]["token"] == "secret"
    assert hub.said[0]["library_name"] == "nonneg"
    assert {"private": True} in hub.said
    assert {"revision": "main", "token": None} in hub.said
    assert sorted(hub.repos["me/model-0"]) == [
        "README.md", "config.json", "coverage.safetensors", "model.safetensors",
    ]  # fmt: skip
    assert sorted(hub.repos["me/model-1"]) == [
        "README.md", "config.json",
        *(f"{side}/{name}" for side in "xy" for name in ("config.json", "model.safetensors")),
    ]  # fmt: skip


def test_the_encoder_of_an_estimator(ncl, hub):
    ncl.push_to_hub("me/ncl")
    encoder = nonneg.Encoder.from_pretrained("me/ncl")
    X = torch.from_numpy(vectors(5))
    np.testing.assert_array_equal(encoder.encode(X).features.numpy(), ncl.transform(X))


def test_an_encoder_around_a_module_of_ones_own(tmp_path):
    def mine():
        return nn.Linear(6, 5)

    own = nonneg.Encoder(nonneg.EncoderSettings(), (6,), backbone=mine())
    own.save_pretrained(tmp_path / "own")
    assert 'from_pretrained("own", backbone=module)' in (tmp_path / "own/README.md").read_text()
    loaded = nonneg.Encoder.from_pretrained(tmp_path / "own", backbone=mine())
    X = torch.rand(3, 6)
    assert torch.equal(loaded.encode(X).features, own.encode(X).features)


def test_only_the_files_of_a_model_are_downloaded(ncl, hub, tmp_path):
    ncl.push_to_hub("me/ncl")
    hub.repos["me/ncl"] |= {
        "run.py": b"", "pickle.bin": b"", "x/config.json": b"{}", "deep/config.json": b"{}",
        "model.safetensors.index.json": b"{}",
    }  # fmt: skip
    nonneg.NCL.from_pretrained("me/ncl")
    downloaded = tmp_path / "cache" / "me/ncl" / "snapshots" / "1"
    assert sorted(path.name for path in downloaded.iterdir()) == [
        "config.json", "coverage.safetensors", "model.safetensors",
    ]  # fmt: skip


def changed(hub, repo, change):
    config = json.loads(hub.repos[repo]["config.json"])
    change(config)
    hub.repos[repo]["config.json"] = json.dumps(config).encode()


def set_backbone(model, **backbone):
    model["settings"]["backbone"] = backbone


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda c: c["estimator"]["files"].update({"../../secret": "0"}),
            r"me/ncl asks for the file '\.\./\.\./secret', which no model has; refused",
        ),
        (
            lambda c: c["estimator"]["files"].update({"weights.bin": "0"}),
            "asks for the file 'weights.bin'",
        ),
        (
            lambda c: set_backbone(c, name="timm:resnet18", pretrained=True),
            r"asks to fetch another model \('timm:resnet18' with published weights\)",
        ),
        (
            lambda c: set_backbone(c, name="transformers:evil/model"),
            r"\('transformers:evil/model' without its configuration\)",
        ),
        (
            lambda c: set_backbone(
                c, name="transformers:x", config={"model_type": "vit", "auto_map": {"A": "b.C"}}
            ),
            r"fetch another model \(auto_map\)",
        ),
        (
            lambda c: set_backbone(
                c, name="transformers:x",
                config={"text": [{"_attn_implementation": "evil/kernel"}]},
            ),
            r"\(_attn_implementation\)",
        ),
        (
            lambda c: set_backbone(c, name="timm:x", config={"checkpoint_path": "/a.pth"}),
            r"\(checkpoint_path\)",
        ),
    ],
)  # fmt: skip
def test_a_repository_that_asks_for_more_is_refused(ncl, hub, change, said):
    ncl.push_to_hub("me/ncl")
    changed(hub, "me/ncl", change)
    for kind in (nonneg.NCL, nonneg.Encoder):
        with pytest.raises(ValueError, match=said):
            kind.from_pretrained("me/ncl")


def test_what_is_wrong_is_one_sentence(ncl, cross, hub, tmp_path):
    ncl.push_to_hub("me/ncl")
    with pytest.raises(FileNotFoundError, match=r"there is no folder \./none"):
        nonneg.NCL.from_pretrained("./none")
    with pytest.raises(FileNotFoundError, match="there is no folder a/b/c"):
        nonneg.NCL.from_pretrained("a/b/c")
    with pytest.raises(OSError, match=r"no folder me/none, and it cannot be read .*: 404 for me/n"):
        nonneg.NCL.from_pretrained("me/none")
    with pytest.raises(ValueError, match="is a folder, which has no revision 'v1'; leave it out"):
        nonneg.NCL.from_pretrained(tmp_path, revision="v1")
    with pytest.raises(ValueError, match="does not describe a fitted CrossNCL but a fitted NCL"):
        nonneg.CrossNCL.from_pretrained("me/ncl")
    with pytest.raises(ValueError, match="'model' names no repository of the hub; give owner/name"):
        ncl.push_to_hub("model")
    with pytest.raises(ValueError, match="'All rights' is no licence of the hub"):
        ncl.save_pretrained(tmp_path / "a", license="All rights")
    hub.repos["me/empty"] = {"README.md": b""}
    with pytest.raises(FileNotFoundError, match=r"me/empty holds no NCL: config.json is missing"):
        nonneg.NCL.from_pretrained("me/empty")
    assert not (tmp_path / "a").exists()


def test_without_the_extra_its_command_is_named(ncl, no_hub):
    for call in (lambda: ncl.push_to_hub("me/a"), lambda: nonneg.NCL.from_pretrained("me/a")):
        with pytest.raises(ImportError, match=r"pip install 'nonneg\[hub\]'"):
            call()


@pytest.mark.parametrize("kind", [OSError, NoConnectionError])
def test_a_failed_upload_is_one_sentence(ncl, hub, monkeypatch, kind):
    def refuse(**_):
        raise kind("403 Forbidden\n\nno rights")

    monkeypatch.setattr(hub, "upload_folder", refuse)
    with pytest.raises(OSError, match=r"^cannot upload to me/a: 403 Forbidden$"):
        ncl.push_to_hub("me/a")


def test_the_calls_are_those_that_huggingface_hub_has(ncl, tmp_path, monkeypatch):
    real = pytest.importorskip("huggingface_hub")
    ncl.save_pretrained(tmp_path / "there")
    played = {
        "create_repo": create_autospec(real.HfApi.create_repo),
        "upload_folder": create_autospec(
            real.HfApi.upload_folder, return_value=SimpleNamespace(commit_url="https://there")
        ),
    }
    for name, function in played.items():
        monkeypatch.setattr(real.HfApi, name, function)
    fetch = create_autospec(real.snapshot_download, return_value=str(tmp_path / "there"))
    monkeypatch.setattr(real, "snapshot_download", fetch)
    assert ncl.push_to_hub("me/a", token="x", revision="main") == "https://there"
    assert nonneg.NCL.from_pretrained("me/a").n_alive_ == ncl.n_alive_
    assert fetch.call_count == played["upload_folder"].call_count == 1


# What is in a folder already.


def test_a_readme_of_ones_own_is_kept(ncl, tmp_path):
    place = tmp_path / "a"
    place.mkdir()
    (place / "README.md").write_text("mine")
    with pytest.raises(FileExistsError, match="was not written by nonneg, or was edited"):
        ncl.save_pretrained(place)
    assert [path.name for path in place.iterdir()] == ["README.md"]
    (place / "README.md").unlink()
    ncl.save_pretrained(place)
    ncl.save_pretrained(place)  # its own is written anew
    assert IS_OURS in (place / "README.md").read_text()


def test_an_estimator_is_not_overwritten_by_its_encoder(ncl, encoder, tmp_path):
    ncl.save_pretrained(tmp_path / "a")
    with pytest.raises(FileExistsError, match="holds a fitted NCL; choose another folder"):
        encoder.save_pretrained(tmp_path / "a")
    encoder.save_pretrained(tmp_path / "b")
    encoder.save_pretrained(tmp_path / "b")
    with pytest.raises(FileExistsError, match="would overwrite an encoder"):
        ncl.save_pretrained(tmp_path / "b")


# The card.


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A fitted run with an evaluation that was not all measured."""
    place = tmp_path_factory.mktemp("run")
    np.save(place / "private|name.npy", vectors(80))
    files = VectorFiles.at(vectors=str(place / "private|name.npy"))
    experiment, _ = vector_experiment(files, ["n_components=16", "max_steps=20"])
    fit_run(experiment, out=place / "mine")
    figures = {
        "active_per_sample": Figure.of("active_per_sample", 7.25),
        "top20_purity": Figure.of("top20_purity", 0.8123, null=0.2346),
        "beside_train_precision": Figure.of("beside_train_precision", 0.91, vectors=0.885, k=10),
        "probe_hidden": Figure.of("probe_hidden", None, because="no labels"),
    }
    data = {"train": {"name": "a", "n_samples": 72}, "test": {"name": "b|c", "n_samples": 8}}
    measured = Measured(figures, {}, 1.0, {}, "better by 2.5 points.")
    evaluation = Evaluation(model_digest(place / "mine"), data, {"properties": measured})
    evaluation.write(place / "mine" / "evaluation.json")
    return place / "mine"


def test_the_card_says_what_was_measured_and_nothing_else(run, tmp_path):
    model = nonneg.NCL.load(run)
    model.save_pretrained(tmp_path / "mine", run=run, license="mit")
    card = (tmp_path / "mine" / "README.md").read_text()
    assert card.startswith('---\nlicense: "mit"\nlibrary_name: "nonneg"\n')
    digest = json.loads((run / "run.json").read_text())["settings"]["data"]["digests"]["vectors"]
    assert f"- vectors: private\\|name.npy, SHA-256 `{digest}`" in card
    assert "on 8 test samples of b\\|c." in card
    assert "| Active features per sample | 7.25 |  |" in card
    assert "| Top-20 purity | 0.812 | 0.235 by chance |" in card
    assert "| Precision@10, among train | 91.0 % | 88.5 % by the vectors, 10 neighbours |" in card
    assert "better by 2.5 points." in card
    assert f"- last loss: {model.history_[-1]['loss']:.3g}" in card
    assert f"- features on for some training sample: {model.n_alive_} of " in card
    assert 'nonneg.NCL.from_pretrained("mine")' in card
    assert "probe" not in card
    assert str(run.parent) not in card  # no place on this machine
    assert str(run.parent) not in (tmp_path / "mine" / "config.json").read_text()


def test_the_card_without_a_run(encoder, tmp_path):
    encoder.save_pretrained(tmp_path / "a")
    card = (tmp_path / "a" / "README.md").read_text()
    assert "8 sparse, non-negative features of images of 3 × 8 × 8." in card
    assert "license" not in card
    for heading in ("Learnt from", "Measured", "In training"):
        assert heading not in card


def test_the_front_matter_is_read_by_the_hub(run, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    nonneg.NCL.load(run).save_pretrained(tmp_path / "a", run=run, license="cc-by-4.0")
    data = hub.ModelCard.load(tmp_path / "a" / "README.md").data
    assert (data.library_name, data.license) == ("nonneg", "cc-by-4.0")
    assert data.pipeline_tag == "feature-extraction"
    assert "sparse-features" in data.tags


def test_the_encoder_of_a_run_has_its_card_too(run, tmp_path):
    nonneg.Encoder.load(run).save_pretrained(tmp_path / "a", run=run)
    assert "Top-20 purity" in (tmp_path / "a" / "README.md").read_text()


def test_figures_of_other_weights_are_refused(ncl, cross, run, tmp_path):
    with pytest.raises(ValueError, match="is the run of other features than those of this NCL"):
        ncl.save_pretrained(tmp_path / "a", run=run)
    with pytest.raises(ValueError, match="no run is of a CrossNCL; leave out run="):
        cross.save_pretrained(tmp_path / "a", run=run)
    with pytest.raises(FileNotFoundError, match="holds no finished run"):
        ncl.save_pretrained(tmp_path / "a", run=tmp_path)
    later = tmp_path / "later"
    shutil.copytree(run, later)
    evaluation = json.loads((later / "evaluation.json").read_text()) | {"model": "0" * 64}
    (later / "evaluation.json").write_text(json.dumps(evaluation))
    model = nonneg.NCL.load(later)
    with pytest.raises(ValueError, match="is of other features than the run has now; run nonneg"):
        model.save_pretrained(tmp_path / "a", run=later)
    assert not (tmp_path / "a").exists()


def test_a_curated_model_is_that_of_its_curated_run(run, tmp_path):
    model = nonneg.NCL.load(run).hide([0])
    with pytest.raises(ValueError, match="is the run of other features"):
        model.save_pretrained(tmp_path / "a", run=run)


def test_the_run_of_an_estimator_of_0_1_is_its_own(tmp_path):
    """Its thinning was kept elsewhere, and is not in the digest that its figures are of."""
    place = Path(__file__).parents[1] / "goldens" / "runs-0.1" / "vectors-ncl"
    ncl = nonneg.NCL.load(place)
    assert ncl.threshold_ > 0
    ncl.save_pretrained(tmp_path / "card", run=place)
    ncl.threshold_ = ncl.threshold_ / 2
    with pytest.raises(ValueError, match="is the run of other features"):
        ncl.save_pretrained(tmp_path / "other", run=place)
