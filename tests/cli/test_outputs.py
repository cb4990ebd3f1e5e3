"""Where commands write: never over what they read, and to a file of the right kind."""

import numpy as np
import pytest

from nonneg.io import check_output


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, features=np.eye(3, dtype=np.float32))
    return path


def test_what_is_read_is_not_written_over(vectors):
    link = vectors.with_name("link.npz")
    link.symlink_to(vectors)
    for out in (vectors, link):
        with pytest.raises(ValueError, match=r"is what the result is made from; give another"):
            check_output(out, ".npz", read=[None, "digits", vectors])


def test_another_kind_of_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"would be a \.npz file; let its name end in \.npz$"):
        check_output(tmp_path / "x.npy", ".npz", read=[])
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        check_output(tmp_path, ".npz", read=[])


def test_a_new_file_and_an_earlier_result_are_fine(vectors):
    check_output(vectors.with_name("new.npz"), ".npz", read=[vectors])
    check_output(vectors, ".npz", read=["digits"])


def test_commands_leave_their_input_alone(nonneg, vectors):
    before = vectors.read_bytes()
    for command in (
        ["embed", vectors.parent / "run", vectors, "--out", vectors],
        ["report", vectors, "--out", vectors],
    ):
        ended = nonneg(*command)
        assert ended.returncode == 1
        assert ended.stderr.startswith(f"error: {vectors} ")
        assert vectors.read_bytes() == before
