"""README.md's example runs as it stands and prints what its comments say."""

import re


def test_the_example_prints_what_it_says(request, tmp_path, monkeypatch, capsys):
    text = (request.config.rootpath / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(code.splitlines()) <= 14
    (tmp_path / "notebooks").symlink_to(request.config.rootpath / "notebooks")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"print\(.*\)\s+# (.*)", code)
    assert len(said) == 3
    for comment, line in zip(said, printed):
        assert comment.replace(" ", "") == line.replace(" ", "")
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_the_pictures_and_pages_it_links_exist(request):
    root = request.config.rootpath
    links = re.findall(r"\]\(([^)#]+)\)", (root / "README.md").read_text())
    assert len(links) > 6
    for link in links:
        assert (root / link).exists(), link
