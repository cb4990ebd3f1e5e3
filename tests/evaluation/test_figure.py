from nonneg.evaluation import Figure


def test_what_is_not_a_number_becomes_null():
    figure = Figure(float("inf"), beside={"null": float("nan"), "n": 3, "to": "mnist"})
    assert figure.value is None
    assert figure.beside == {"null": None, "n": 3, "to": "mnist"}
    assert figure.text() == "–"


def test_json_and_back():
    figure = Figure(0.5, higher_is_better=False, is_rate=True, beside={"null": 0.1})
    assert Figure.from_json(figure.as_json()) == figure
    assert figure.text() == "50.0 %"
