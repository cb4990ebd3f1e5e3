"""What did the paper report? Its figures by data set and method, in our names.

From Wang, Zhang, Guo and Wang, *Non-negative Contrastive Learning*, ICLR 2024: means and standard
deviations of three runs, of a ResNet-18 trained for 200 epochs (CIFAR) or 100 (ImageNet-100). Its
retrieval is precision@10, called mAP@10 there; its SEPIN has no stated unit and cannot be nats, so
it is left out here, as ours is in nats.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A figure of the paper, as a share, with its spread where one is given."""

    value: float
    std: float | None = None


def _percent(value: float, std: float | None = None) -> Published:
    return Published(value / 100, None if std is None else std / 100)


PAPER: dict[tuple[str, str, str], Published] = {
    # (data set, method, figure)
    ("cifar10", "CL", "probe_hidden"): _percent(87.6, 0.2),
    ("cifar10", "NCL", "probe_hidden"): _percent(87.8, 0.2),
    ("cifar10", "CL", "fine_tune"): _percent(92.3, 0.1),
    ("cifar10", "NCL", "fine_tune"): _percent(92.6, 0.1),
    ("cifar100", "CL", "probe_hidden"): _percent(58.6, 0.2),
    ("cifar100", "NCL", "probe_hidden"): _percent(59.7, 0.4),
    ("cifar100", "CL", "fine_tune"): _percent(72.6, 0.1),
    ("cifar100", "NCL", "fine_tune"): _percent(73.0, 0.2),
    ("imagenet100", "CL", "probe_hidden"): _percent(68.7, 0.3),
    ("imagenet100", "NCL", "probe_hidden"): _percent(69.4, 0.3),
    ("imagenet100", "CL", "fine_tune"): _percent(77.3, 0.5),
    ("imagenet100", "NCL", "fine_tune"): _percent(79.2, 0.4),
    ("imagenet100", "CL", "robust_stylised"): _percent(19.6),
    ("imagenet100", "NCL", "robust_stylised"): _percent(21.2),
    ("imagenet100", "CL", "robust_corruption"): _percent(34.5),
    ("imagenet100", "NCL", "robust_corruption"): _percent(36.1),
    ("imagenet100", "CL", "robust_sketch"): _percent(27.1),
    ("imagenet100", "NCL", "robust_sketch"): _percent(28.0),
    ("imagenet100", "CL", "selection_probe_all"): _percent(66.8),
    ("imagenet100", "NCL", "selection_probe_all"): _percent(68.9),
    ("imagenet100", "CL", "selection_retrieval_all"): _percent(10.9),
    ("imagenet100", "NCL", "selection_retrieval_all"): _percent(14.2),
    ("imagenet100", "CL", "selection_transfer_all"): _percent(17.2),
    ("imagenet100", "NCL", "selection_transfer_all"): _percent(19.9),
    ("imagenet100", "CL", "selection_probe_512_random"): _percent(66.2),
    ("imagenet100", "NCL", "selection_probe_512_random"): _percent(64.3),
    ("imagenet100", "CL", "selection_retrieval_512_random"): _percent(10.0),
    ("imagenet100", "NCL", "selection_retrieval_512_random"): _percent(8.2),
    ("imagenet100", "CL", "selection_transfer_512_random"): _percent(16.6),
    ("imagenet100", "NCL", "selection_transfer_512_random"): _percent(16.7),
    ("imagenet100", "CL", "selection_probe_512_ea_signed"): _percent(66.3),
    ("imagenet100", "NCL", "selection_probe_512_ea_signed"): _percent(66.7),
    ("imagenet100", "CL", "selection_retrieval_512_ea_signed"): _percent(9.9),
    ("imagenet100", "NCL", "selection_retrieval_512_ea_signed"): _percent(11.1),
    ("imagenet100", "CL", "selection_transfer_512_ea_signed"): _percent(16.5),
    ("imagenet100", "NCL", "selection_transfer_512_ea_signed"): _percent(17.7),
    ("imagenet100", "CL", "selection_probe_512_ea_rectified"): _percent(66.5),
    ("imagenet100", "NCL", "selection_probe_512_ea_rectified"): _percent(68.9),
    ("imagenet100", "CL", "selection_retrieval_512_ea_rectified"): _percent(10.2),
    ("imagenet100", "NCL", "selection_retrieval_512_ea_rectified"): _percent(14.2),
    ("imagenet100", "CL", "selection_transfer_512_ea_rectified"): _percent(16.6),
    ("imagenet100", "NCL", "selection_transfer_512_ea_rectified"): _percent(19.8),
}
