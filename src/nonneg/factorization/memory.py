"""How much memory does a computation need? The peak of its arrays and tensors, in bytes."""

import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_memory(run: Callable[[], object]) -> int:
    """The most bytes that a function's arrays and tensors fill at one time.

    What existed before does not count. NumPy's and Python's share comes from tracemalloc, torch's
    from following every tensor that an operation returns; workspace inside a library's C code is
    not seen. The two peaks are added, though they may not fall on the same moment. The function
    runs slower while it is watched: measure time in another run, and before this one, since
    modules that are imported for the first time count.

    Args:
        run: Called once, without arguments.

    Example:
        >>> peak_memory(lambda: torch.zeros(1000, dtype=torch.float64)) // 8000
        1
    """
    with _TensorBytes():
        torch.zeros(1)  # torch imports what its watching needs
    tensors = _TensorBytes()
    tracemalloc.start()
    try:
        with tensors:
            run()
        _, arrays = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return arrays + tensors.peak


class _TensorBytes(TorchDispatchMode):
    """Counts the bytes of tensors while they live."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        returned = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(returned):
            if isinstance(leaf, torch.Tensor):
                self._follow(leaf.untyped_storage())
        return returned

    def _follow(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._seen:
            return
        self._seen.add(key)
        n_bytes = storage.nbytes()
        self.now += n_bytes
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, key, n_bytes)

    def _forget(self, key: int, n_bytes: int) -> None:
        self._seen.discard(key)
        self.now -= n_bytes
