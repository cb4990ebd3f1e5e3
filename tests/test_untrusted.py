import os

import pytest

from nonneg.io import digest_of_file, read_json, read_tensors
from nonneg.untrusted import MAX_DEPTH, json_value, read_regular, toml_table


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("read", [json_value, lambda text: toml_table(f"a = {text}")["a"]])
def test_depth_is_limited(read):
    assert read(nested(MAX_DEPTH - 1)) == json_value(nested(MAX_DEPTH - 1))
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(ValueError, match=r"^it is nested more than 64 levels deep$"):
            read(nested(depth))


def test_the_limit_is_exact():
    assert json_value(nested(MAX_DEPTH)) is not None
    with pytest.raises(ValueError, match="levels deep"):
        json_value(nested(MAX_DEPTH + 1))


def test_dotted_keys_count_as_levels():
    """tomllib reads them in a loop, and whoever goes through the tables later would fail."""
    with pytest.raises(ValueError, match="levels deep"):
        toml_table(".".join("a" * 5000) + " = 1")


@pytest.mark.parametrize("read", [read_regular, read_json, read_tensors, digest_of_file])
def test_pipes_and_devices_are_refused_at_once(tmp_path, read):
    """Reading from the one would wait for ever, from the other never end."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes in this file system")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        with pytest.raises(ValueError, match=rf"{name} is a pipe, a socket or a device, not a"):
            read(tmp_path / name)
