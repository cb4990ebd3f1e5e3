import threading

import torch

from nonneg.pairs.rendering import Buffers

CPU = torch.device("cpu")


def test_memory_is_kept_by_name_and_grows():
    buffers = Buffers()
    first = buffers.take("a", 2, 3, device=CPU)
    assert first.shape == (2, 3)
    assert first.dtype == torch.float32
    assert buffers.take("a", 5, device=CPU).data_ptr() == first.data_ptr()
    assert buffers.take("b", 2, 3, device=CPU).data_ptr() != first.data_ptr()
    larger = buffers.take("a", 4, 4, device=CPU)
    assert larger.shape == (4, 4)
    assert buffers.take("a", 2, 3, device=CPU).data_ptr() == larger.data_ptr()


def test_empty_shapes_are_given():
    assert Buffers().take("a", 0, 3, device=CPU).shape == (0, 3)


def test_threads_do_not_share_memory():
    buffers = Buffers()
    here = buffers.take("a", 4, device=CPU)
    there = []
    thread = threading.Thread(target=lambda: there.append(buffers.take("a", 4, device=CPU)))
    thread.start()
    thread.join()
    assert there[0].data_ptr() != here.data_ptr()


def test_memory_taken_in_inference_mode_can_be_written_later():
    buffers = Buffers()
    with torch.inference_mode():
        buffers.take("a", 4, device=CPU).zero_()
    assert buffers.take("a", 4, device=CPU).fill_(1).sum() == 4


def test_other_devices_get_fresh_memory():
    buffers = Buffers()
    meta = torch.device("meta")
    assert buffers.take("a", 4, device=meta).device == meta
    assert buffers.take("a", 4, device=CPU).device == CPU
