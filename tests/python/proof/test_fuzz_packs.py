"""The corpus of the fuzz target of conformance packs, without atheris: manifests of others are
read, or refused in one sentence."""

import json
from pathlib import Path

import pytest

from apscope import conformance
from tests.fuzz import fuzz_packs as target

CORPUS = Path(target.__file__).with_name("corpus") / "packs"


def test_the_corpus_is_taken_or_refused_in_one_sentence(tmp_path):
    for path in sorted(CORPUS.iterdir()):
        taken = target.answered(path.read_bytes(), tmp_path)
        assert taken or path.name not in ("whole_0", "whole_2", "text")


@pytest.mark.parametrize("file", ["/etc/passwd", "../pack/e2m1fn.table.bin", "..", "", 3, None])
def test_a_pack_names_files_of_its_own_folder(tmp_path, file):
    for name, content in target.whole().items():
        (tmp_path / name).write_bytes(content)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["formats"]["e2m1fn"]["table"]["file"] = file
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="a name in this folder"):
        list(conformance.pack_problems(tmp_path))
    del manifest["formats"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="formats is missing"):
        conformance.check(tmp_path, lambda x: x, format="e2m1fn")
