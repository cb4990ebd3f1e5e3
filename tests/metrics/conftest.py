import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """These arrays are tiny: a second thread only makes the first one wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
