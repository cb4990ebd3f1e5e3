import pytest
from commands import nonneg_here


@pytest.fixture(scope="session")
def nonneg():
    return nonneg_here
