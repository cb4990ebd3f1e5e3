"""What are features good for? Protocols that turn features and labels into accuracies."""

from nonneg.evaluation.neighbours import knn_accuracy
from nonneg.evaluation.probe import ProbeResult, linear_probe
from nonneg.evaluation.summary import Summary, summary

__all__ = ["ProbeResult", "Summary", "knn_accuracy", "linear_probe", "summary"]
