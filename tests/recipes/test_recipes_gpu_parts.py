import random

import gpu_parts
import pytest
from gpu_parts import cut, join, take

from retriever.core.errors import InputError

SIZE = 50_000


@pytest.fixture
def files(tmp_path):
    """Give a large file, a small one, an empty one and one that is as long as a part."""
    made = {"site/model.bin": random.Random(1).randbytes(120_000), "rows/a.gz": b"a", "empty": b"", "z": b"z" * SIZE}
    (tmp_path / "from").mkdir()
    found = {}
    for number, (name, content) in enumerate(made.items()):
        found[name] = tmp_path / "from" / str(number)
        found[name].write_bytes(content)
    return found


def content(folder):
    return {one.relative_to(folder).as_posix(): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_parts_carried_one_by_one_in_any_order_make_the_files(tmp_path, files):
    parts = cut(files, tmp_path / "out", SIZE)
    assert [part.size for part in parts[:-1]] == [SIZE] * 3
    assert {one.name for one in (tmp_path / "out").iterdir()} == {f"{n:02}" for n in range(1, len(parts) + 1)}
    left = parts
    for number in (3, 1, 4, 2):
        left = take(tmp_path / "out" / f"{number:02}", tmp_path / "inbox")
        assert parts[number - 1] not in left
    assert left == []
    join(tmp_path / "inbox", tmp_path / "there")
    assert content(tmp_path / "there") == {name: path.read_bytes() for name, path in files.items()}


def test_all_parts_can_come_at_once_and_equal_files_make_equal_parts(tmp_path, files):
    parts = cut(files, tmp_path / "out", SIZE)
    assert cut(files, tmp_path / "again", SIZE) == parts
    assert take(tmp_path / "out", tmp_path / "inbox") == []


def test_a_part_that_changed_on_the_way_is_refused(tmp_path, files):
    cut(files, tmp_path / "out", SIZE)
    (tmp_path / "out" / "02" / "part-02").write_bytes(b"x")
    take(tmp_path / "out" / "01", tmp_path / "inbox")
    with pytest.raises(InputError, match="part-02 is not what was packed"):
        take(tmp_path / "out" / "02", tmp_path / "inbox")


def test_parts_of_another_cut_are_thrown_away(tmp_path, files):
    cut(files, tmp_path / "old", SIZE)
    take(tmp_path / "old" / "01", tmp_path / "inbox")
    files["rows/a.gz"].write_bytes(b"b")
    new = cut(files, tmp_path / "new", SIZE)
    assert take(tmp_path / "new" / "02", tmp_path / "inbox") == [part for part in new if part.name != "part-02"]
    assert {one.name for one in (tmp_path / "inbox").iterdir()} == {gpu_parts.LIST, "part-02"}


def test_a_folder_without_parts_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no parts\.json"):
        take(tmp_path, tmp_path / "inbox")
