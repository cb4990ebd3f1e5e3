"""What ``train`` is given: views that pair the samples, bare samples, a config, a fitting width."""

import pytest
from planted_parts import QUIET, config, encoder, noisy_pairs, planted

import nonneg
from nonneg.training import LossSettings, read_history


def too_few(batch):
    return batch.inputs, batch.inputs[:-2]


def three(batch):
    return (batch.inputs,) * 3


def arrays(batch):
    return batch.inputs.numpy(), batch.inputs.numpy()


@pytest.mark.parametrize("loss", ["info_nce", "queue"])
@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (too_few, r"too_few .* each of the 64 samples, got \(64, 16\) and \(62, 16\)"),
        (three, "three must give two tensors, .* got Tensor, Tensor, Tensor"),
        (arrays, "arrays must give two tensors, .* got ndarray, ndarray"),
        (lambda batch: batch.inputs, "must give two tensors, .* got Tensor$"),
        (lambda batch: (batch.inputs[:-1],) * 2, r"got \(63, 16\) and \(63, 16\)"),
    ],
)
def test_views_that_do_not_pair_the_samples_are_refused(pairs, sentence, loss, tmp_path):
    runs = config(batch_size=64).model_copy(update={"loss": LossSettings(name=loss)})
    with pytest.raises((TypeError, ValueError), match=sentence):
        nonneg.train(encoder(), planted(), pairs, runs, out=tmp_path / "run", console=QUIET)


def test_bare_samples_train_as_a_data_set_does(tmp_path):
    for name, samples in (("tensor", planted().inputs), ("array", planted().inputs.numpy())):
        nonneg.train(
            encoder(), samples, noisy_pairs, config(epochs=2), out=tmp_path / name, console=QUIET
        )
    found = [read_history(tmp_path / name)[-1]["loss"] for name in ("tensor", "array")]
    assert found[0] == found[1]


def test_what_is_no_config_or_of_another_width_is_one_sentence(tmp_path):
    with pytest.raises(
        TypeError, match=r"config must be a TrainConfig, got dict; .*TrainConfig\.read"
    ):
        nonneg.train(encoder(), planted(), noisy_pairs, {"epochs": 2}, out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"reads samples of shape \(16,\), got \(15,\)"):
        nonneg.train(
            encoder(), planted().inputs[:, :15], noisy_pairs, config(), out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def test_single_settings_are_keywords(tmp_path):
    result = nonneg.train(
        encoder(),
        planted(),
        noisy_pairs,
        config(epochs=5),
        out=tmp_path / "run",
        console=QUIET,
        epochs=2,
        warmup_epochs=0,
    )
    assert len(result.history) == 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epoch": 2}, "unknown setting 'epoch'; nearest: epochs"),
        ({"momentum": 0.5}, "momentum may mean loss.momentum or optimizer.momentum"),
        ({"lr": -1}, "optimizer.lr"),
    ],
)
def test_wrong_keywords_are_one_sentence(settings, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        nonneg.train(encoder(), planted(), noisy_pairs, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()
