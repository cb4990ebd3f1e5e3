import pytest
from faults.commands import Workplace


@pytest.fixture(scope="package")
def workplace(tmp_path_factory):
    return Workplace(tmp_path_factory.mktemp("faults") / "workplace")
