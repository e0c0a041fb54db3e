import gzip

import numpy as np
import pytest

from lrga.data.own.edge_list import load_edge_list, read_edge_list, read_pairs
from lrga.errors import DataError, DataMissingError, OptionError


@pytest.fixture
def file(tmp_path):
    def write(text, name="edges.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def names(listed):
    return [tuple(listed.node_ids[i] for i in pair) for pair in listed.edge.tolist()]


@pytest.mark.parametrize(
    "text",
    ["a,b\nb,c\n", "source,target\na,b\nb,c\n", "a\tb\nb\tc", "a;b\r\nb;c\r\n", "# a comment\na b\n\nb   c\n",
     "\ufefffrom,to\na,b\nb,c\n", "Tail,Head\nb,a\nc,b\n"],
)  # fmt: skip
def test_the_same_edges_in_any_dress(file, text):
    assert names(read_edge_list(file(text))) == [("a", "b"), ("b", "c")]


def test_numbers_are_ordered_as_numbers_and_a_header_of_any_words_is_seen(file):
    listed = read_edge_list(file("protein one,protein two\n10,9\n9,100\n"))
    assert listed.node_ids == ("9", "10", "100")
    assert names(listed) == [("10", "9"), ("9", "100")]
    assert read_edge_list(file("10,9\n9,100\n")).node_ids == ("9", "10", "100")


def test_further_columns_by_name_or_by_place(file):
    named = read_edge_list(file("time,w,source,target,split\n2001,.5,a,b,train\n2002,2,b,c,VALID\n"))
    assert named.weight.tolist() == [0.5, 2.0]
    assert named.time.tolist() == [2001.0, 2002.0]
    assert named.split.tolist() == [0, 1]
    placed = read_edge_list(file("a,b,3,7\nb,c,4,8\n"))
    assert (placed.weight.tolist(), placed.time.tolist()) == ([3.0, 4.0], [7.0, 8.0])
    dated = read_edge_list(file("source,target,date\na,b,2024-05-31\nb,c,2023-01-01\n"))
    assert dated.time[0] > dated.time[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty file"), ("source,target\n", "below the header"), ("a,b\nc\n", "line 2"), ("a,b\nc,\n", "line 2"),
        ("one\ntwo\n", "two nodes on each line"), ("a,b,x\n", "'x'"), ("a,b,1,2,3\n", "add a header"),
        ("source,target,split\na,b,maybe\n", "'maybe'"), ("source,target,time\na,b,soon\n", "'soon'"),
        ("source,src,target\na,b,c\n", "one column for source"), ('a,b\n"c,d\n', "quotation"),
        ("source,target,weight\na,b,1\nb,c,nan\n", "line 3"),
        ("user,friend,when\na,b,1\nb,c,2\n", "if it is a header, name its columns"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(file, text, message):
    with pytest.raises(DataError, match=message):
        read_edge_list(file(text))


def test_missing_and_foreign_files(file, tmp_path):
    with pytest.raises(DataMissingError, match="no such file"):
        read_edge_list(tmp_path / "none.csv")
    with pytest.raises(DataMissingError, match="a folder"):
        read_edge_list(tmp_path)
    (tmp_path / "odd.csv").write_bytes(b"a,\xff\n")
    with pytest.raises(DataError, match="UTF-8"):
        read_edge_list(tmp_path / "odd.csv")
    (tmp_path / "wide.csv").write_bytes("a,b\nb,c\n".encode("utf-16-le"))
    with pytest.raises(DataError, match="two nodes"):
        read_edge_list(tmp_path / "wide.csv")
    (tmp_path / "long.csv").write_text('a,b\n"x\ny",z\n')
    with pytest.raises(DataError, match="line break inside quotation marks"):
        read_edge_list(tmp_path / "long.csv")


def test_loops_and_repetitions_are_handled_and_said(file):
    rng = np.random.default_rng(0)
    pairs = [(i, (i + 1 + int(rng.integers(5))) % 40) for i in range(40)]
    text = "".join(f"{a},{b}\n" for a, b in pairs) + f"{pairs[0][1]},{pairs[0][0]}\n5,5\n"
    data = load_edge_list(file(text))
    assert data.meta["notes"] == ["1 edges from a node to itself left out", "1 repeated edges joined with their first"]
    assert sum(len(split.edge) for split in data.splits.values()) == 40
    assert load_edge_list(file(text), directed=True).meta["notes"] == ["1 edges from a node to itself left out"]


def test_pairs_to_score(file):
    assert read_pairs(file("source,target\na,b\nc,d\n")) == ([("a", "b"), ("c", "d")], [2, 3])
    assert read_pairs(file("1 2\n3 4\n"))[0] == [("1", "2"), ("3", "4")]
    for text in ("", "source,target\n"):
        with pytest.raises(DataError, match="none"):
            read_pairs(file(text))
    with pytest.raises(DataError, match="line 2"):
        read_pairs(file("a,b\nc\n"))
    with pytest.raises(DataMissingError, match="a folder"):
        read_pairs(file("").parent)


def test_a_first_pair_of_nodes_that_exist_is_no_header(file):
    path = file("node1,node2\n")
    assert read_pairs(path, nodes={"node1", "node2"}) == ([("node1", "node2")], [1])
    assert names(read_edge_list(file("node1,node2\nnode1,node3\n"))) == [("node1", "node2"), ("node1", "node3")]
    assert names(read_edge_list(file("node1,node2\nann,bob\n"))) == [("ann", "bob")]


@pytest.mark.parametrize(
    "header", ["source_id,target_id", "FromNodeId,ToNodeId", "id_1,id_2", "u,v,w", "drug,protein,weight"]
)
def test_a_header_in_other_words_above_names_is_seen(file, header):
    more = ",1" * (header.count(",") - 1)
    listed = read_edge_list(file(f"{header}\nann,bob{more}\nbob,cid{more}\n"))
    assert names(listed) == [("ann", "bob"), ("bob", "cid")]
    assert (listed.weight is None) == (more == "")


def test_columns_that_are_not_known_are_left_out(file):
    listed = read_edge_list(file("source_id,source_name,target_id,target_name\n1,a,2,b\n2,b,3,c\n"))
    assert names(listed) == [("1", "2"), ("2", "3")]
    assert listed.weight is None


def test_marks_within_values_do_not_divide_them(file):
    assert names(read_edge_list(file("Smith, J\tDoe\nRoe, K\tFoe\n"))) == [("Smith, J", "Doe"), ("Roe, K", "Foe")]
    assert names(read_edge_list(file('a, "b, c"\nd, "e f"\n'))) == [("a", "b, c"), ("d", "e f")]
    with pytest.raises(DataError, match="commas and semicolons"):
        read_edge_list(file("a;b;0,5\nb;c;1,5\n"))  # not the nodes "a;b;0" and "5"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (("2024", "now"), "'now'.*line 3"),
        (("today", "2024-05-31"), "'today'.*line 2"),
        (("1700000000", "soon"), "'soon'.*line 3"),
        (("2024-05-31", "1700000000"), "only numbers or only dates.*line 2"),
        (("1_000", "2000"), "'1_000'.*line 2"),
    ],
)
def test_times_that_are_neither_number_nor_date_are_named(file, column, message):
    with pytest.raises(DataError, match=message):
        read_edge_list(file("source,target,time\n" + "".join(f"a{i},b,{text}\n" for i, text in enumerate(column))))


def test_weights_with_underscores_and_files_of_comments_are_named(file):
    with pytest.raises(DataError, match="'1_000'"):
        read_edge_list(file("a,b,2\nb,c,1_000\n"))
    with pytest.raises(DataError, match="only blank lines and comments"):
        read_edge_list(file("# cats,# dogs\n#"))
    with pytest.raises(OptionError, match="fractions"):
        load_edge_list(file("a,b\n"), split=0.8)


def test_a_compressed_file_is_read_and_a_cut_one_refused(tmp_path):
    whole = gzip.compress(b"source,target\na,b\nb,c\n")
    (tmp_path / "edges.csv.gz").write_bytes(whole)
    assert names(read_edge_list(tmp_path / "edges.csv.gz")) == [("a", "b"), ("b", "c")]
    for damaged in (whole[:-9], b"a,b\n"):
        (tmp_path / "edges.csv.gz").write_bytes(damaged)
        with pytest.raises(DataError, match="a complete gzip file"):
            read_edge_list(tmp_path / "edges.csv.gz")


def test_names_that_look_like_numbers_stay_as_they_are(file):
    assert read_edge_list(file("007,08\n08,1_0\n")).node_ids == ("007", "08", "1_0")
    assert read_edge_list(file("1.1,1.10\n1.10,2\n")).node_ids == ("1.1", "1.10", "2")


@pytest.mark.parametrize("text", ["7,8\n007,9\n", "1,2.0\n2,3.0\n"])
def test_one_number_in_two_forms_is_refused_for_it_would_be_two_nodes(file, text):
    with pytest.raises(DataError, match="one spelling of every node"):
        read_edge_list(file(text))


@pytest.mark.parametrize("date", ["", "NaT"])
def test_a_missing_date_is_named_not_taken_for_the_earliest(file, date):
    with pytest.raises(DataError, match="line 3"):
        read_edge_list(file(f"source,target,date\na,b,2024-05-31\nb,c,{date}\n"))


def test_dates_of_any_zone_and_months(file):
    text = "source,target,date\na,b,2024-05-31T12:00:00Z\nb,c,2024-05-31T13:00:00+02:00\nc,d,2024-05\n"
    noon, earlier, month = read_edge_list(file(text)).time.tolist()
    assert noon - earlier == 3600
    assert noon - month == (30 * 24 + 12) * 3600


def test_only_line_ends_end_a_line(tmp_path):
    (tmp_path / "edges.csv").write_text("a\u2028x,b\nb,c\x85\n", encoding="utf-8")
    assert read_edge_list(tmp_path / "edges.csv").node_ids == ("a\u2028x", "b", "c")


@pytest.mark.parametrize("mark", "#%")
@pytest.mark.parametrize("header", ["", "source,target\n", "# who follows whom\n", "## who, follows, whom\n", "#\n"])
def test_nodes_whose_names_begin_as_comments_do_are_kept(file, mark, header):
    text = f"{mark}tag,ann\nann,bob\n{mark}tag,{mark}x\nbob,{mark}x\n"
    found = read_edge_list(file(header.replace("#", mark) + text))
    assert set(found.node_ids) == {f"{mark}tag", f"{mark}x", "ann", "bob"}
    assert len(found.edge) == 4


@pytest.mark.parametrize(
    "comment",
    ["# 4 edges\n", "# FromNodeId ToNodeId\n", "#FromNodeId ToNodeId\n", "%source target\n", "%%MatrixMarket matrix\n"],
)
def test_comments_above_the_edges_are_no_edges(file, comment):
    assert read_edge_list(file(comment + "1 2\n2 3\n# the end\n")).node_ids == ("1", "2", "3")


def test_nodes_that_begin_as_comments_may_be_a_whole_file_or_pairs_to_score(file):
    assert read_edge_list(file("#cats,#dogs\n#dogs,#cows\n")).node_ids == ("#cats", "#cows", "#dogs")
    pairs, lines = read_pairs(file("#tag,ann\n# a comment\nann,%x\n"), nodes={"#tag", "ann", "%x"})
    assert (pairs, lines) == ([("#tag", "ann"), ("ann", "%x")], [1, 3])
