import numpy as np
import pytest
import torch

from nonneg.data import ArrayData
from nonneg.data.dataset import of_split


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_are_fetched_as_float32_and_held_as_they_are(dtype):
    data = ArrayData(torch.tensor([[0.5, 2.0], [1.0, -4.0]], dtype=dtype))
    fetched = data.fetch(torch.tensor([1, 0, 1]))
    assert fetched.dtype == torch.float32
    assert fetched.tolist() == [[1.0, -4.0], [0.5, 2.0], [1.0, -4.0]]
    assert data.inputs.dtype == dtype


def test_bytes_are_fetched_as_bytes():
    data = ArrayData(torch.arange(24, dtype=torch.uint8).view(2, 3, 2, 2))
    assert data.sample_shape == (3, 2, 2)
    assert data.fetch(torch.tensor([1])).dtype == torch.uint8
    assert torch.equal(data.fetch(torch.tensor([1])), data.inputs[1:])


def test_what_is_fetched_can_be_changed_without_changing_the_data():
    data = ArrayData(torch.zeros(3, 2))
    data.fetch(torch.tensor([0, 1])).fill_(7)
    assert data.inputs.sum() == 0


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match=r"^unknown split 'valid'; known: train, test$"):
        of_split({"train": 1, "test": 2}, "valid")


@pytest.mark.parametrize("given", [np.zeros((3, 2)), [[0.0, 1.0]]])
def test_inputs_and_labels_are_tensors(given):
    with pytest.raises(TypeError, match=r"inputs must be a tensor, got .*torch\.as_tensor"):
        ArrayData(given)
    with pytest.raises(TypeError, match="labels must be a tensor"):
        ArrayData(torch.zeros(3, 2), labels=[0, 1, 1])
