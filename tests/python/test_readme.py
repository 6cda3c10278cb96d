"""README.md's example runs as it stands and prints what its comments say."""

import re


def test_the_example_prints_what_it_says(request, tmp_path, monkeypatch, capsys):
    text = (request.config.rootpath / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(code.splitlines()) <= 17
    (tmp_path / "notebooks").symlink_to(request.config.rootpath / "notebooks")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"print\(.*\)\s+# (.*)", code)
    assert len(said) == 4
    for comment, line in zip(said, printed):
        assert comment.replace(" ", "") == line.replace(" ", "")
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_the_pictures_and_pages_it_links_exist(request):
    root = request.config.rootpath
    links = re.findall(r"\]\(([^)#]+)\)", (root / "README.md").read_text())
    assert len(links) > 6
    for link in links:
        assert (root / link).exists(), link


def test_the_table_of_schemes_is_what_its_command_writes(request, monkeypatch):
    """To the figures shown; transforms that use the C library's functions may differ in the last one elsewhere."""
    root = request.config.rootpath
    monkeypatch.syspath_prepend(root / "docs")
    import scheme_table

    text = (root / "README.md").read_text()
    shown = text[text.index(scheme_table.BEGIN) : text.index(scheme_table.END)].splitlines()
    made = scheme_table.table().splitlines()
    assert [line.split("|")[1] for line in shown if line.startswith("| `")] == [line.split("|")[1] for line in made[2:]]
    for line in made:
        assert line in shown or re.search(r"`.*(fft_sparse|thc).*`", line), line
    schemes = " ".join(made)
    import apscope

    assert all(d["name"] in schemes for d in apscope.schemes.definitions())
