"""Small files that would be large: refused before they are read, in every format that compresses or
names one object many times."""

import os
import zipfile

import numpy as np
import pytest

from apscope._dumps.conversion import convert

torch = pytest.importorskip("torch")


def refused(path, said, tmp_path):
    with pytest.raises(ValueError, match=said) as told:
        convert(path, tmp_path / "out", reduction="mean", workers=1, step_axis="none")
    assert path.name in str(told.value) and "\n" not in str(told.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("record", ["data.pkl", "data/0"])
def test_a_compressed_record_of_a_torch_file(tmp_path, record):
    """It would be inflated into memory, or mapped as if it were numbers."""
    torch.save({"w": torch.arange(1000.0)}, tmp_path / "right.pt")
    with (
        zipfile.ZipFile(tmp_path / "right.pt") as source,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_STORED) as archive,
    ):
        for about in source.infolist():
            data = source.read(about)
            if about.filename.endswith(record):
                data = data + bytes(2**24)
                archive.writestr(about.filename, data, zipfile.ZIP_DEFLATED)
            else:
                archive.writestr(about.filename, data)
    assert os.path.getsize(tmp_path / "bomb.pt") < 2**17
    refused(tmp_path / "bomb.pt", f"record .*{record} is compressed", tmp_path)


@pytest.mark.parametrize("legacy", [False, True])
def test_one_list_named_many_times(tmp_path, legacy):
    """Twenty lists of ten are 10^20 objects."""
    inner = [torch.ones(2)]
    for _ in range(20):
        inner = [inner] * 10
    torch.save(inner, tmp_path / "many.pt", _use_new_zipfile_serialization=not legacy)
    assert os.path.getsize(tmp_path / "many.pt") < 10_000
    refused(tmp_path / "many.pt", "hold more than 1000000 objects", tmp_path)


def test_lists_nested_deep(tmp_path):
    inner = [torch.ones(2)]
    for _ in range(100):
        inner = [inner]
    torch.save(inner, tmp_path / "deep.pt")
    refused(tmp_path / "deep.pt", "nested more than 64 deep", tmp_path)


def test_a_tensor_of_one_number_repeated(tmp_path):
    torch.save({"w": torch.zeros(1).expand(2**44)}, tmp_path / "wide.pt")
    refused(tmp_path / "wide.pt", "needs 64.0 TiB of memory", tmp_path)


def test_right_files_are_read(tmp_path):
    torch.save({"a": [torch.ones(3), {"b": torch.zeros(2)}]}, tmp_path / "right.pt")
    convert(tmp_path / "right.pt", tmp_path / "out", reduction="mean", workers=1, step_axis="none")
    np.testing.assert_array_equal(sorted(p.name for p in tmp_path.iterdir()), ["out", "right.pt"])
