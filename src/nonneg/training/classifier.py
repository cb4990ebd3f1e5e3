"""What is trained with labels? An encoder with a linear layer on top of its hidden output."""

from pathlib import Path

import torch
from torch import Tensor, nn

from nonneg.encoder import Encoder
from nonneg.files import write_tensors

HEAD_FILE = "head.safetensors"


class Classifier(nn.Module):
    """Samples in, a score for each class out. The projector is left out and does not learn.

    Args:
        encoder: Its backbone learns with the head; the module itself is used, not a copy.
        n_classes: At least two.

    Example:
        >>> from nonneg import EncoderSettings
        >>> encoder = Encoder(EncoderSettings(), (5,), backbone=nn.Linear(5, 4))
        >>> Classifier(encoder, 3)(torch.rand(2, 5)).shape
        torch.Size([2, 3])
    """

    def __init__(self, encoder: Encoder, n_classes: int) -> None:
        super().__init__()
        if n_classes < 2:
            raise ValueError(f"a classifier needs at least two classes, got {n_classes}")
        self.encoder = encoder
        self.head = nn.Linear(encoder.hidden_size, n_classes)
        # All classes equal: the first gradient is that of a probe, not of a random head.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        for parameter in encoder.projector.parameters():
            parameter.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits ``(n, n_classes)`` of samples ``(n, *sample_shape)``."""
        logits: Tensor = self.head(self.encoder.hidden(inputs))
        return logits

    @torch.no_grad()
    def predict(self, inputs: Tensor, batch_size: int = 512) -> Tensor:
        """The class of each sample, int64 ``(n,)``, on the CPU; in evaluation mode, put back."""
        device, was_training = self.head.weight.device, self.training
        self.eval()
        try:
            parts = [self(part.to(device)).argmax(1).cpu() for part in inputs.split(batch_size)]
        finally:
            self.train(was_training)
        return torch.cat(parts)

    def save(self, folder: Path) -> None:
        """Write the encoder, and the head beside it."""
        write_tensors(folder / HEAD_FILE, self.head.state_dict())
        self.encoder.save(folder)
