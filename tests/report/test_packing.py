import base64
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg.report.page import embedded_json, packed_array


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float32"]
)
def test_arrays_come_back_whatever_their_byte_order(dtype):
    array = np.arange(6, dtype=np.dtype(dtype).newbyteorder(">")).reshape(2, 3)
    found = packed_array(array, dtype)
    back = np.frombuffer(base64.b64decode(found["data"]), dtype=np.dtype(dtype).newbyteorder("<"))
    np.testing.assert_array_equal(back.reshape(found["shape"]), array)


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="numbers from -1 to 3 do not fit uint8"):
        packed_array(np.array([3, -1]), "uint8")
    with pytest.raises(ValueError, match="unknown type 'int64'"):
        packed_array(np.array([1]), "int64")


@given(st.text())
@settings(deadline=None)
def test_any_text_comes_back_and_cannot_end_its_element(text):
    found = embedded_json([text])
    assert not set("<>&\u2028\u2029") & set(found)
    assert json.loads(found) == [text]
    found.encode()


def test_a_lone_surrogate_can_be_written():
    assert json.loads(embedded_json("\ud800")) == "\ud800"


def test_numbers_of_numpy_and_nan():
    value = {"a": np.float32("nan"), "b": np.int64(3), "c": [float("inf"), 0.5], 4: (np.True_,)}
    assert json.loads(embedded_json(value)) == {"a": None, "b": 3, "c": [None, 0.5], "4": [True]}
