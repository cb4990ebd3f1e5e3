"""Tables of texts: the same records as the csv module, errors that name lines, little memory."""

import csv
import gzip
import io
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg.data.text_table import is_table, read_table

FIELD = st.text(
    st.characters(codec="utf-8", exclude_characters="\r"), max_size=12
) | st.sampled_from(['a "word"', "two\nlines", ",", "\t", "\ufeff", "  ", "ünï ✓"])


def written(path, rows, **how):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, **how).writerows(rows)
    return path


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(FIELD, FIELD, FIELD), min_size=1, max_size=8),
    ending=st.sampled_from(["\n", "\r\n"]),
    kind=st.sampled_from([("csv", ","), ("tsv", "\t")]),
    has_bom=st.booleans(),
    is_packed=st.booleans(),
)
def test_records_are_those_of_the_csv_module(
    tmp_path_factory, rows, ending, kind, has_bom, is_packed
):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=kind[1], lineterminator=ending)
    writer.writerows([("id", "body", "more"), *rows])
    content = file.getvalue().encode()
    path = tmp_path_factory.mktemp("table") / f"t.{kind[0]}{'.gz' if is_packed else ''}"
    content = b"\xef\xbb\xbf" + content if has_bom else content
    path.write_bytes(gzip.compress(content) if is_packed else content)
    expected = [
        row[1] for row in csv.reader(io.StringIO(file.getvalue(), newline=""), delimiter=kind[1])
    ][1:]
    table = read_table(path, text="body")
    assert list(table.texts) == expected == [row[1] for row in rows]
    assert table.texts[::-1] == expected[::-1]
    assert table.texts[-1] == expected[-1]
    assert table.is_empty.tolist() == [not text.strip() for text in expected]


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.none() | st.text(max_size=12), min_size=1, max_size=8))
def test_jsonl_and_parquet_agree(tmp_path_factory, texts):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("table")
    lines = [json.dumps({"n": n, "body": text}) for n, text in enumerate(texts)]
    (folder / "t.jsonl").write_text("\n".join([*lines, "", ""]))
    table = arrow.table({"n": range(len(texts)), "body": arrow.array(texts, arrow.string())})
    parquet.write_table(table, folder / "t.parquet")
    for name in ("t.jsonl", "t.parquet"):
        found = read_table(folder / name, text="body", label="n")
        assert list(found.texts) == [text or "" for text in texts]
        assert found.labels.tolist() == list(range(len(texts)))


def test_a_text_file_has_one_text_per_line(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes("one, two\r\n\n  \nlast ünï".encode())
    table = read_table(path)
    assert list(table.texts) == ["one, two", "", "  ", "last ünï"]
    assert table.is_empty.tolist() == [False, True, True, False]
    assert (table.labels, table.dates, len(table)) == (None, None, 4)
    with pytest.raises(ValueError, match="no column 'body'; leave it out"):
        read_table(path, text="body")


def test_labels_are_numbered_in_order_and_dates_are_days(tmp_path):
    rows = [
        ("body", "kind", "size", "day"),
        ("a", "tea", "10", "2024"),
        ("b", "ale", "9", "2024-02"),
        ("c", "tea", "10", "2024-02-29"),
        ("d", "gin", "-", "2024-02-29T23:59:59+02:00"),
        ("e", "gin", "-", "20240301"),
    ]
    path = written(tmp_path / "t.csv", rows)
    table = read_table(path, text="body", label="kind", date="day")
    assert table.class_names == ("ale", "gin", "tea")
    assert table.labels.tolist() == [2, 0, 2, 1, 1]
    days = ["2024-01-01", "2024-02-01", "2024-02-29", "2024-02-29", "2024-03-01"]
    assert table.dates.dtype == "datetime64[D]"
    assert table.dates.astype(str).tolist() == days
    written(path, rows[:4])  # the file has changed: it is read again
    table = read_table(path, text="body", label="size")
    assert (table.class_names, table.labels.tolist()) == (("9", "10"), [1, 0, 1])


def test_dates_of_other_formats(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    days = np.array(["1969-12-31", "2024-02-29"], "datetime64[D]")
    for kind in ("datetime64[D]", "datetime64[ns]"):
        table = arrow.table({"body": ["a", "b"], "day": arrow.array(days.astype(kind))})
        parquet.write_table(table, tmp_path / f"{kind}.parquet")
        found = read_table(tmp_path / f"{kind}.parquet", text="body", date="day")
        assert found.dates.tolist() == days.tolist()
    (tmp_path / "t.jsonl").write_text('{"body": "a", "day": 1969}\n')
    found = read_table(tmp_path / "t.jsonl", text="body", date="day").dates
    assert found.astype(str).tolist() == ["1969-01-01"]


HEADER = b"body,kind,day\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (HEADER + b"a,b,2024\n\xff,b,2024\n", r"line 3 of .* is not UTF-8 \(byte 0xff\); save"),
        (HEADER + b'"a\nb",k,2024\nc,k\n', r"line 4 of .* has 2 fields, the header 3; quote"),
        (HEADER + b"a,k,2024\nb, ,2024\n", "line 3 of .* has no label in column 'kind'"),
        (HEADER + b"a,k,2024\nb,k,\n", "line 3 of .* has no date in column 'day'; write dates as"),
        (HEADER + b"a,k,2024\nb,k,31.5.2024\n", "line 3 .* the date '31.5.2024', which cannot be"),
        (HEADER + b"a,k,2024-13\n", "line 2 .* the date '2024-13', which cannot be"),
        (HEADER + b'a,k,2024\n"b,k,2024\nc,k,2024\n', "the record in line 3 of .* cannot be read"),
        (HEADER + b'"a"b,k,2024\n', "the record in line 2 of .* cannot be read .* write each"),
        (HEADER, "holds no texts"),
        (b"", "is empty; give a header"),
        (b"body,kind,body,day\na,b,c,2024\n", "several columns 'body'"),
        (b"text,kind,day\na,b,c\n", "no column 'body' for --text; it has: text, kind, day"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, content, sentence):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        read_table(path, text="body", label="kind", date="day")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('{"body": "a"}\n{"body": 3}', "line 2 of .* holds int in 'body'; give a text or null"),
        ('{"body": "a"}\n{"text": "b"}', "line 2 of .* has no column 'body' .*it has: text"),
        ('{"body": "a"}\nb', "line 2 of .* is not JSON"),
        ('["a"]', "line 1 of .* is no object"),
    ],
)
def test_what_is_wrong_in_jsonl(tmp_path, lines, sentence):
    (tmp_path / "t.jsonl").write_text(lines)
    with pytest.raises(ValueError, match=sentence):
        read_table(tmp_path / "t.jsonl", text="body")


def test_files_that_cannot_be_read(tmp_path):
    written(tmp_path / "t.csv", [("id", "body"), (1, "a")])
    with pytest.raises(ValueError, match=r"has the columns id, body; name the one .* with --text"):
        read_table(tmp_path / "t.csv")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_table(tmp_path / "u.csv", text="body")
    with pytest.raises(IsADirectoryError, match=r"is a folder; give a \.csv"):
        read_table(tmp_path, text="body")
    (tmp_path / "t.docx").write_text("a")
    with pytest.raises(ValueError, match=r"cannot read texts from .*; give a \.csv"):
        read_table(tmp_path / "t.docx", text="body")
    packed = gzip.compress(b"body\n" + b"text\n" * 1000)
    (tmp_path / "t.csv.gz").write_bytes(packed[:-10])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        read_table(tmp_path / "t.csv.gz", text="body")


def test_a_column_of_numbers_holds_no_texts(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table({"body": [1.5]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="column 'body' holds double, not texts"):
        read_table(tmp_path / "t.parquet", text="body")
    (tmp_path / "u.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="not a readable parquet file"):
        read_table(tmp_path / "u.parquet", text="body")


def test_names_tell_tables():
    assert all(map(is_table, ["a.CSV", "a.tsv", "a.jsonl", "a.txt", "a.csv.gz"]))
    assert not any(map(is_table, ["a.npy", "a.npz", "a.parquet", "a.gz", "csv"]))


def test_half_a_character_is_replaced(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"body": "a\\ud800b"}')
    table = read_table(tmp_path / "t.jsonl", text="body")
    assert list(table.texts) == ["a?b"]


def check_memory(path, n_rows):
    """Reading takes the places of the records, and no more than a few texts."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["body", "kind", "day"])
        writer.writerows([f"text {n}\n" + "x" * 1000, n % 5, "2024"] for n in range(n_rows))
    tracemalloc.start()
    try:
        table = read_table(path, text="body", label="kind", date="day")
        n_letters = sum(map(len, table.texts))
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n_letters == sum(len(f"text {n}\n") + 1000 for n in range(n_rows))
    assert held < 40 * n_rows + 200_000
    assert most < 120 * n_rows + 500_000  # of 1,000 bytes per row


def test_texts_stay_in_their_file(tmp_path):
    check_memory(tmp_path / "t.csv", 5000)


@pytest.mark.slow
def test_texts_of_a_large_file_stay_there(tmp_path):
    check_memory(tmp_path / "t.csv", 80_000)


def test_texts_of_other_types_of_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    words = ["tea", "ale", None, "tea"]
    for kind in (arrow.large_string(), arrow.dictionary(arrow.int32(), arrow.string())):
        path = tmp_path / f"{len(str(kind))}.parquet"
        parquet.write_table(arrow.table({"body": arrow.array(words, kind)}), path)
        assert list(read_table(path, text="body").texts) == ["tea", "ale", "", "tea"]
