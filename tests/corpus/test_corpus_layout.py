"""Tables as survey tools and spreadsheets export them: reports before the header, header rows behind it, odd names."""

import pytest

from retriever.core.errors import InputError
from retriever.core.types import Document
from retriever.corpus.readers import read_documents
from retriever.corpus.rows import ReadingOptions

LONG = "The courier left the parcel in the rain"


def read(tmp_path, data, name="a.csv", **settings):
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    rows = read_documents([path], **settings)
    documents = list(rows)
    (note,) = rows.notes or [""]
    return documents, note.removeprefix(f"{path}: ")


QUALTRICS = (
    "StartDate,ResponseId,Q1,Q2\n"
    'Start Date,Response ID,How satisfied are you?,"What, then,\nis to be better?"\n'
    '"{""ImportId"":""startDate""}","{""ImportId"":""_recordId""}","{""ImportId"":""QID1""}","{""ImportId"":""QID2""}"\n'
    f"2024-03-01 10:00:00,R_1,4,{LONG}\n2024-03-02 11:00:00,R_2,2,Nobody answers the phone when one calls\n"
)
MONKEY = (
    "Respondent ID,Start Date,What did you like?,,Which channels?,,\n"
    ",,Open-Ended Response,Comment,Phone,Mail,Chat\n"
    "1001,13/01/2024,The staff was friendly to us,,Phone,,Chat\n1002,14/01/2024,Quick answer to my ticket,x,,Mail,\n"
)
LABELLED = (
    "CASE,STARTED,V1,V2\nInterview number,Begun at,Satisfaction,What could be better?\n"
    f"1,2024-03-01,4,{LONG}\n2,2024-03-02,5,Nobody answers the phone when one calls\n"
)


@pytest.mark.parametrize("label", ["Response", "Open-Ended Response", "Antwort"])
def test_a_row_that_says_how_questions_are_answered_is_a_header_row(tmp_path, label):
    header = f"Respondent ID,Start Date,How satisfied are you?,What did you like?\n,,Response,{label}\n"
    documents, _ = read(tmp_path, f"{header}11,05/13/2024,5,{LONG}\n12,05/14/2024,3,{LONG}\n")
    assert [(row.id, row.metadata["How satisfied are you?"]) for row in documents] == [("11", 5), ("12", 3)]


@pytest.mark.parametrize(
    ("data", "first", "said"),
    [
        (
            QUALTRICS,
            Document("R_1", LONG, {"StartDate": "2024-03-01T10:00:00", "Q1": 4}),
            "2 more header rows skipped; id from 'ResponseId', text from 'Q2'; 'StartDate' read as date; "
            "'Q1' read as a number",
        ),
        (
            MONKEY,
            Document(
                "1001",
                "The staff was friendly to us",
                {"Start Date": "2024-01-13", "Which channels?": "Phone", "Which channels? (Chat)": "Chat"},
            ),
            "1 more header row skipped; id from 'Respondent ID', text from 'What did you like?'; "
            "'Start Date' read as date (day first)",
        ),
        (
            LABELLED,
            Document("ignored", LONG, {"CASE": 1, "STARTED": "2024-03-01", "V1": 4}),
            "1 more header row skipped; text from 'V2', ids made from the rows; 'CASE', 'V1' read as numbers",
        ),
    ],
)
@pytest.mark.parametrize("form", ["utf-8", "utf-8-sig", "crlf", "semicolons", "utf-16"])
def test_header_rows_of_surveys_are_skipped(tmp_path, data, first, said, form):
    data = data.replace("\n", "\r\n") if form == "crlf" else data
    data = data.replace('"What, then', '"What, then').replace(",", ";") if form == "semicolons" else data
    documents, note = read(tmp_path, data.encode(form if form.startswith("utf") else "utf-8"))
    assert len(documents) == 2
    assert (documents[0].text, documents[0].metadata) == (first.text, first.metadata)
    assert note.removeprefix("read as UTF-16; ") == said


@pytest.mark.parametrize(
    "rows",
    [
        "id,text,stars,price\n1,first,n/a,unknown\n2,b,3,4\n3,c,4,5\n",  # a row without values
        "id,text,stars,price\n1,first,bad,5\n2,b,3,4\n3,c,4,5\n",
        "id,text,stars\nx,first,bad\n2,b,3\n3,c,4\n",
        "id,text,a\nx,one,two\ny,three,four\n",
    ],
)
def test_a_first_row_of_another_kind_stays_a_row(tmp_path, rows):
    documents, note = read(tmp_path, rows)
    assert len(documents) == rows.count("\n") - 1
    assert "header" not in note


def test_header_rows_of_wide_surveys_are_found(tmp_path):
    ids = ",".join(f'"{{""ImportId"":""QID{number}"",""of"":""{"x" * 300}""}}"' for number in range(300))
    names, questions = (",".join(f"{word}{number}" for number in range(300)) for word in ("Q", "Question "))
    answers = ",".join(["7"] * 299 + [LONG])
    documents, note = read(tmp_path, f"{names}\n{questions}\n{ids}\n{answers}\n{answers}\n")
    assert [document.text for document in documents] == [LONG, LONG]
    assert note.startswith("2 more header rows skipped; text from 'Q299'")


def test_raw_skips_no_header_rows(tmp_path):
    documents, _ = read(tmp_path, QUALTRICS, text_field="Q2", options=ReadingOptions(raw=True))
    assert len(documents) == 4


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("sep=;\n", "the line 'sep=' skipped"),
        ('"sep=;"\n', "the line 'sep=' skipped"),
        ("App reviews\nMade: 2024-05-01\n\n", "3 lines before the header skipped"),
        ("App reviews;;\nMade;2024-05-01;\n", "2 lines before the header skipped"),
        ("sep=;\nApp reviews\n\n", "the line 'sep=' skipped; 2 lines before the header skipped"),
        ("# from the shop\n# all of May\n", "2 lines before the header skipped"),
        ("\n\n", ""),
        ("\n;;\n", ""),
    ],
)
def test_lines_before_the_header_are_skipped(tmp_path, before, said):
    documents, note = read(tmp_path, f"{before}id;text;stars\n1;good phone;5\n2;bad phone;1\n")
    assert documents == [Document("1", "good phone", {"stars": 5}), Document("2", "bad phone", {"stars": 1})]
    assert [document.line for document in documents] == [2 + before.count("\n"), 3 + before.count("\n")]
    assert note == "; ".join(filter(None, [said, "'stars' read as a number"]))


@pytest.mark.parametrize("before", ["Survey of May\nTwo answers\n", "Report,Survey\nFrom,2024-05-01\n\n"])
def test_a_header_of_unknown_names_is_found_behind_a_report(tmp_path, before):
    rows = f"1,2024-05-01,{LONG}\n2,2024-05-02,{LONG}\n"
    documents, _ = read(tmp_path, f"{before}No,Taken on,How was it?\n{rows}")
    assert [(row.text, row.metadata["No"]) for row in documents] == [(LONG, 1), (LONG, 2)]


@pytest.mark.parametrize(
    "data",
    [
        "text\nWell; I liked it\nWell; I did not\n",
        "text\nWell, I liked it\nWell, I did not\n",
        "review\na, b, c\n",
    ],
)
def test_a_header_of_one_column_is_no_report(tmp_path, data):
    documents, note = read(tmp_path, data.replace(", ", " "))
    assert len(documents) == data.count("\n") - 1
    assert "skipped" not in note


def test_a_column_without_a_name_is_called_by_its_number_or_left_out_where_it_counts_rows(tmp_path):
    documents, note = read(tmp_path, ",id,text,\n0,a,first,x\n1,b,second,\n")
    assert [document.metadata for document in documents] == [{"column 4": "x"}, {}]
    assert note == "the row numbers in 'column 1' left out"
    documents, note = read(tmp_path, "Unnamed: 0,text\n0,first\n1,second\n")
    assert [document.metadata for document in documents] == [{}, {}]
    documents, _ = read(tmp_path, "Unnamed: 0,text\n7,first\n3,second\n")
    assert [document.metadata for document in documents] == [{"Unnamed: 0": 7}, {"Unnamed: 0": 3}]


def test_a_name_that_appears_again_is_numbered(tmp_path):
    documents, note = read(tmp_path, "id,text,q,q (2),q,text\n1,good,a,b,c,d\n")
    assert documents == [Document("1", "good", {"q": "a", "q (2)": "b", "q (3)": "c", "text (2)": "d"})]
    assert note == "'q', 'text' appears more than once: numbered from (2) on"


@pytest.mark.parametrize("header", ["ID,Text,Title", "_ID,REVIEW,title", "Doc_Id,Content,TITLE"])
def test_usual_names_count_in_any_case(tmp_path, header):
    identifier, text, _ = header.split(",")
    documents, note = read(tmp_path, f"{header}\n1,It is ok,Meh\n2,,Great!\n3,Crashes,\n")
    assert [(document.id, document.text) for document in documents] == [
        ("1", "Meh\nIt is ok"), ("2", "Great!"), ("3", "Crashes"),
    ]  # fmt: skip
    assert note == f"id from {identifier!r}, text from {text!r}"


def test_wider_names_are_taken_where_there_is_no_usual_one(tmp_path):
    data = "Review ID,Package Name,Star Rating,Review Title,Review Text\nr1,com.x,5,Fine,Works\nr2,com.x,1,,Crashes\n"
    documents, note = read(tmp_path, data)
    assert documents == [
        Document("r1", "Fine\nWorks", {"Package Name": "com.x", "Star Rating": 5, "Review Title": "Fine"}),
        Document("r2", "Crashes", {"Package Name": "com.x", "Star Rating": 1}),
    ]
    assert note == "id from 'Review ID', text from 'Review Text'; 'Star Rating' read as a number"


@pytest.mark.parametrize("last", ["r1", ""])
def test_a_wider_id_that_rows_share_or_lack_is_none(tmp_path, last):
    rows = "".join(f"r{number},text {number}\n" for number in range(3000))
    documents, note = read(tmp_path, f"Review ID,text\n{rows}{last},last\n")
    assert len(documents) == 3001
    assert note == "ids made from the rows"
    assert documents[0].metadata == {"Review ID": "r0"}


def test_without_long_texts_the_text_column_is_to_be_named(tmp_path):
    with pytest.raises(InputError, match="has no text column"):
        read(tmp_path, "id,words,at\n1,short,2024-05-01T10:00:00Z\n2,words,2024-05-01T10:00:00Z\n")
