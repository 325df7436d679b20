"""Options of workers, and of handing over, as the command line takes them."""

import pytest


@pytest.mark.parametrize(
    "argv",
    [["index", "corpus.jsonl"], ["views", "--complete", "x"], ["reembed", "--encoder", "other"], ["cluster"]],
    ids=lambda argv: argv[0],
)
def test_no_workers_are_wrong_usage(indexed, argv):
    assert indexed(*argv, "--workers", "0").failed_with(2, "0 workers embed nothing.", "--workers 1 or more")


def test_workers_meet_the_errors_of_a_model_that_cannot_be_loaded(run, fake, write):
    # The fake encoder is known to this process alone: what a worker says of its name is what `index` would.
    write([{"id": "a", "text": "a kettle"}])
    argv = ["index", "corpus.jsonl", "--encoder", "letters", "--plain", "none"]
    ran = run(*argv, "--workers", "1")
    assert ran.failed_with(1, "The index was made by letters, which cannot be loaded: Unknown encoder 'letters'.")
    assert run(*argv).code == 0


def test_parquet_goes_out_and_comes_back(indexed):
    ran = indexed("export", "out", "--to", "parquet")
    assert ran.out.startswith("out: 5 documents, 1 views, ")
    assert indexed("import", "out", "--index", "again").out.startswith("again: 5 documents, 1 views, made ")
    assert indexed("status", "--index", "again", "--json").document["documents"] == 5
    assert indexed("export", "out", "--to", "parquet").failed_with(2, "out exists already.")


def test_qdrant_takes_a_folder_and_says_what_is_in_it(indexed):
    document = indexed("export", "out", "--to", "qdrant", "--collection", "reviews", "--json").document
    assert list(document) == (
        "schema_version index location collection stored_in points sent vectors indexed left".split()
    )
    assert (document["points"], document["vectors"]) == (5, {"base": ""})
    assert document["indexed"] == {"id": "keyword", "metadata.category": "keyword", "metadata.stars": "integer"}
    ran = indexed("export", "other", "--to", "qdrant")
    assert ran.out == "default at other: 5 documents, 5 of them sent now, 1 vectors each.\n  base: the base view\n"
    assert indexed("export", "third", "--collection", "x").failed_with(2, "--collection is for --to qdrant.")
