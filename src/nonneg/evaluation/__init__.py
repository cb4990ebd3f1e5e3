"""Evaluation: protocols that turn features and labels into accuracies."""

from nonneg.evaluation.beside_dense import BesideDense, Found, Represented, beside_dense
from nonneg.evaluation.evaluation import Evaluation, chosen_sections, evaluate
from nonneg.evaluation.few_labels import FewLabelResult, few_label_probe
from nonneg.evaluation.fine_tuning import FineTuned, fine_tune
from nonneg.evaluation.neighbours import KnnResult, knn_accuracy, knn_probe
from nonneg.evaluation.probe.linear import LinearProbe, ProbeResult, fitted_probe, linear_probe
from nonneg.evaluation.questionnaires import (
    AnswerScore,
    Question,
    intrusion_questions,
    score_answers,
    write_questionnaire,
)
from nonneg.evaluation.readability import readability
from nonneg.evaluation.robustness import Robustness, robustness
from nonneg.evaluation.sections import SECTIONS
from nonneg.evaluation.selection import SelectionRow, selection_table
from nonneg.evaluation.subject import (
    EvaluationSettings,
    FineTuneSettings,
    Known,
    NotMeasurableError,
    Subject,
)
from nonneg.metrics.figures import Figure, Figures

__all__ = [
    "SECTIONS",
    "AnswerScore",
    "BesideDense",
    "Evaluation",
    "EvaluationSettings",
    "FewLabelResult",
    "Figure",
    "Figures",
    "FineTuneSettings",
    "FineTuned",
    "Found",
    "KnnResult",
    "Known",
    "LinearProbe",
    "NotMeasurableError",
    "ProbeResult",
    "Question",
    "Represented",
    "Robustness",
    "SelectionRow",
    "Subject",
    "beside_dense",
    "chosen_sections",
    "evaluate",
    "few_label_probe",
    "fine_tune",
    "fitted_probe",
    "intrusion_questions",
    "knn_accuracy",
    "knn_probe",
    "linear_probe",
    "readability",
    "robustness",
    "score_answers",
    "selection_table",
    "write_questionnaire",
]
