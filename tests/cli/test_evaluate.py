"""Evaluating and comparing runs, as a user types it."""

import json
import shutil

import numpy as np
import pytest
import torch

from nonneg import Encoder, metrics
from nonneg.data import load

QUICK = [
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=32",
    "training.epochs=2",
    "training.warmup_epochs=1",
]
FEW = ["n_permutations=2", "n_bootstrap=2", "n_draws=2", "selection=[0.5]", "severities=[3]"]
FEW += ["robustness_samples=50", "fine_tune.epochs=1", "fine_tune.warmup_epochs=0"]
SMALL = [part for setting in FEW for part in ("--set", setting)]


def trained(nonneg, folder, method, seed):
    out = folder / f"{method}-{seed}"
    settings = [part for setting in [*QUICK, f"seed={seed}"] for part in ("--set", setting)]
    ended = nonneg("train", f"digits-{method}", *settings, "--out", out)
    assert ended.returncode == 0, ended.stderr
    return out


@pytest.fixture(scope="module")
def runs(nonneg, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    made = [trained(nonneg, folder, method, seed) for method in ("ncl", "cl") for seed in range(3)]
    for run in made:
        ended = nonneg("evaluate", run, "--only", "properties,probe", *SMALL)
        assert ended.returncode == 0, ended.stderr
    return made


@pytest.fixture
def run(runs, tmp_path):
    """A copy, which a test may change."""
    return shutil.copytree(runs[0], tmp_path / "run")


def evaluation(run):
    return json.loads((run / "evaluation.json").read_text())


def test_figures_are_those_of_the_library(runs):
    found = evaluation(runs[0])["sections"]["properties"]["figures"]
    test = load("digits", split="test")
    features = Encoder.load(runs[0]).encode(test).features
    assert found["sparsity"]["value"] == pytest.approx(metrics.sparsity(features).value)
    consistency = metrics.class_consistency(features, test.labels)
    assert found["class_consistency"]["value"] == pytest.approx(consistency.value)
    assert found["alive_rate"]["beside"]["n_dead"] == consistency.n_dead


def test_all_sections_that_apply_are_measured_and_the_rest_says_why(nonneg, run):
    ended = nonneg("evaluate", run, *SMALL)
    assert ended.returncode == 0, ended.stderr
    found = evaluation(run)
    assert set(found["sections"]) == {
        "properties", "probe", "few_labels", "neighbours", "sepin", "selection", "robustness",
    }  # fmt: skip
    assert set(found["skipped"]) == {
        "hierarchy", "classification", "beside_dense", "transfer", "factors",
    }  # fmt: skip
    assert "not measured: beside_dense: digits holds images; only vectors" in ended.stdout
    assert "not measured: factors: the factors behind digits are not known" in ended.stdout
    assert "name one with --transfer-to" in ended.stdout
    assert "probe, corrupted" in ended.stdout
    assert "severity" not in ended.stdout
    assert found["data"]["test"] == {"name": "digits", "n_samples": 360}
    section = found["sections"]["robustness"]
    assert section["settings"]["severities"] == [3]
    assert any("severity 3" in figure["beside"] for figure in section["figures"].values())
    assert section["seconds"] > 0


def test_the_ranking_is_made_on_the_training_set(runs):
    ranking = json.loads((runs[0] / "ranking.json").read_text())
    train = load("digits", split="train")
    scores = Encoder.load(runs[0]).encode(train).scores
    assert ranking["on"] == {"name": "digits", "n_samples": 1437}
    expected = metrics.expected_activation(scores).per_feature
    assert ranking["rectified"] == pytest.approx(expected.tolist())
    assert ranking["order"] == metrics.select(scores, 32).tolist()


def test_a_narrow_terminal_cuts_no_word(nonneg, run):
    asked = ("--only", "properties,selection")
    said = nonneg("evaluate", run, *asked, *SMALL, columns=80).stdout
    table = said.partition("all figures")[0]
    assert "alive, " in table
    assert "_" not in table
    assert "…" not in table
    assert max(map(len, table.splitlines())) == 80


def test_sections_that_are_not_asked_for_stay(nonneg, run):
    before = evaluation(run)["sections"]["properties"]
    ended = nonneg("evaluate", run, "--only", "neighbours", *SMALL)
    assert ended.returncode == 0, ended.stderr
    assert list(evaluation(run)["sections"]) == ["properties", "probe", "neighbours"]
    assert evaluation(run)["sections"]["properties"] == before


def test_figures_of_other_weights_are_not_mixed_in(nonneg, run, runs):
    for name in ("model.safetensors", "config.json"):
        shutil.copy(runs[1] / name, run / name)
    nonneg("evaluate", run, "--only", "neighbours", *SMALL)
    assert list(evaluation(run)["sections"]) == ["neighbours"]


def test_figures_of_other_data_do_not_take_the_place_of_those_there(nonneg, run, tmp_path):
    digits = load("digits", split="test")
    inputs = digits.fetch(torch.arange(100)).numpy()
    np.savez(tmp_path / "mine.npz", inputs=inputs, labels=digits.labels[:100].numpy())
    before = (run / "evaluation.json").read_bytes()
    ended = nonneg("evaluate", run, "--data", tmp_path / "mine.npz", "--only", "properties", *SMALL)
    assert ended.returncode == 1
    said = "has figures of another test set (digits with 360 samples, now mine with 100 samples)"
    assert said in ended.stderr
    assert (run / "evaluation.json").read_bytes() == before


def test_a_run_on_a_file_is_measured_on_another_file(nonneg, tmp_path):
    for split, n in (("train", 200), ("test", 60)):
        digits = load("digits", split=split)
        inputs = digits.fetch(torch.arange(n)).numpy()
        np.savez(tmp_path / f"{split}.npz", inputs=inputs, labels=digits.labels[:n].numpy())
    own = [f"data.name={tmp_path / 'train.npz'}", "data.held_out=0", "training.batch_size=64"]
    settings = [part for setting in [*QUICK, *own] for part in ("--set", setting)]
    ended = nonneg("train", "digits", *settings, "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    ended = nonneg("evaluate", tmp_path / "run", "--only", "properties", *SMALL)
    assert "which has no test split; name a file of test samples with --data" in ended.stderr
    ended = nonneg(
        "evaluate", tmp_path / "run", "--data", tmp_path / "test.npz", "--only", "probe", *SMALL
    )
    assert ended.returncode == 0, ended.stderr
    data = evaluation(tmp_path / "run")["data"]
    assert data["train"] == {"name": "train", "n_samples": 200}
    assert data["test"]["name"] == "test"
    assert data["test"]["n_samples"] == 60
    (tmp_path / "other").mkdir()
    test = np.load(tmp_path / "test.npz")
    np.savez(tmp_path / "other" / "test.npz", inputs=255 - test["inputs"], labels=test["labels"])
    other = ["--data", tmp_path / "other" / "test.npz", "--only", "neighbours"]
    ended = nonneg("evaluate", tmp_path / "run", *other, *SMALL)
    assert "another test set (test with 60 samples, the same name, other content)" in ended.stderr
    small = tmp_path / "small.npz"
    np.savez(small, inputs=np.zeros((9, 1, 5, 5), dtype=np.uint8))
    ended = nonneg("evaluate", tmp_path / "run", "--data", small, "--only", "probe", *SMALL)
    assert "has samples of shape (1, 5, 5), the run learnt from (1, 8, 8)" in ended.stderr


def test_held_out_samples_have_a_file_of_their_own(nonneg, run):
    before = evaluation(run)
    ended = nonneg("evaluate", run, "--only", "probe", "--split", "held-out", *SMALL)
    assert ended.returncode == 0, ended.stderr
    held_out = json.loads((run / "evaluation-held-out.json").read_text())
    assert held_out["data"]["test"]["n_samples"] == 200
    assert held_out["data"]["train"]["n_samples"] == 1237
    assert evaluation(run) == before


def test_fine_tuning_continues_and_is_not_done_twice(nonneg, run):
    ended = nonneg("evaluate", run, "--only", "fine_tune", *SMALL)
    assert ended.returncode == 0, ended.stderr
    first = evaluation(run)["sections"]["fine_tune"]["figures"]
    history = (run / "fine-tune" / "history.jsonl").read_bytes()
    nonneg("evaluate", run, "--only", "fine_tune", *SMALL)
    assert evaluation(run)["sections"]["fine_tune"]["figures"] == first
    assert (run / "fine-tune" / "history.jsonl").read_bytes() == history


def test_transfer_to_a_set_of_ones_choice(nonneg, run):
    few = ["--set", "train_samples=300", *SMALL]
    ended = nonneg("evaluate", run, "--only", "transfer", "--transfer-to", "sprites", *few)
    assert ended.returncode == 0, ended.stderr
    figures = evaluation(run)["sections"]["transfer"]["figures"]
    assert figures["transfer_hidden"]["beside"]["to"] == "sprites"
    note = "the images of sprites have 64 × 64 pixels, those of training had 8 × 8"
    assert figures["transfer_hidden"]["beside"]["note"] == note
    assert evaluation(run)["data"]["transfer_test"]["n_samples"] == 5000


def test_comparing_groups_by_method_and_pairs_by_seed(nonneg, runs):
    ended = nonneg("compare", *runs)
    assert ended.returncode == 0, ended.stderr
    assert "CL: 3 runs · NCL: 3 runs" in ended.stdout
    assert "NCL − CL" in ended.stdout
    assert "paper" not in ended.stdout  # it has no figure for digits
    lines = {line.split("│")[1].strip(): line for line in ended.stdout.splitlines() if "│" in line}
    sparsity = [evaluation(r)["sections"]["properties"]["figures"]["sparsity"] for r in runs]
    mean = 100 * sum(figure["value"] for figure in sparsity[:3]) / 3
    assert f"{mean:.2f} ±" in lines["sparsity"]
    consistency = "consistency of frequent features (≥ 20 active)"
    assert {"class consistency (all alive)", consistency} <= lines.keys()
    shown = [line.split("│")[1:4] for line in ended.stdout.splitlines() if "│" in line]
    place = next(at for at, cells in enumerate(shown) if "top-20 purity" in cells[0])
    assert shown[place + 1][0].strip() == "by chance"
    figures = [evaluation(r)["sections"]["properties"]["figures"]["top20_purity"] for r in runs]
    null = sum(figure["beside"]["null"] for figure in figures[:3]) / 3
    assert shown[place + 1][2].strip() == f"{null:.3g}"
    assert "differ by more" not in ended.stdout


def test_a_comparison_of_two_runs_names_no_winner(nonneg, runs):
    ended = nonneg("compare", runs[0], runs[3], "--only", "purity")
    assert ended.returncode == 0, ended.stderr
    assert "some figures have 1 paired seed only: too few to name a winner" in ended.stdout
    assert "*" not in ended.stdout
    assert "top-20 purity" in ended.stdout
    assert "sparsity" not in ended.stdout


def test_groups_without_a_seed_in_common_are_not_paired(nonneg, runs):
    ended = nonneg("compare", runs[0], runs[4])
    assert ended.returncode == 0, ended.stderr
    assert "some figures have no paired seeds: too few to name a winner" in ended.stdout
    assert "3 seeds of each, the same ones" in ended.stdout


def test_groups_that_differ_by_more_than_the_switch_are_said_to(nonneg, runs, run):
    record = json.loads((run / "run.json").read_text())
    record["settings"]["loss"]["temperature"] = 0.4
    (run / "run.json").write_text(json.dumps(record))
    ended = nonneg("compare", run, runs[1], runs[3])
    assert ended.returncode == 0, ended.stderr
    assert "differ by more than the transform: loss.temperature" in ended.stdout
    assert "NCL (temperature 0.4)" in " ".join(ended.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["evaluate", "nowhere"], "nowhere holds no run: run.json is missing"),
        (["evaluate", "RUN", "--only", "prob"], "unknown section 'prob'; nearest: probe"),
        (["evaluate", "RUN", "--set", "tops=3"], "unknown setting 'tops'; nearest: top"),
        (["evaluate", "RUN", "--split", "val"], "unknown split 'val'; known: test, held-out"),
        (["evaluate", "RUN", "--only", "probe", "--data", "nothing"], "'nothing' is neither a"),
        (
            ["evaluate", "RUN", "--data", "digits", "--split", "held-out"],
            "digits takes the place of the test set; leave out --split held-out",
        ),
        (["compare", "RUN"], "a comparison needs at least two runs, got 1"),
        (["compare", "RUN", "RUN"], "have the same settings and seed 0; give each run once"),
        (["compare", "RUN", "nowhere"], "nowhere holds no run"),
        (["compare", "RUN", "OTHER", "--only", "xyz"], "no figure has 'xyz' in its name"),
        (["compare", "RUN", "OTHER", "--split", "held-out"], "has no evaluation-held-out.json"),
    ],
)
def test_errors_are_one_sentence_and_leave_results_alone(nonneg, run, runs, arguments, said):
    before = (run / "evaluation.json").read_bytes()
    places = {"RUN": run, "OTHER": runs[1]}
    ended = nonneg(*(places.get(word, word) for word in arguments), cwd=run.parent)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (run / "evaluation.json").read_bytes() == before
