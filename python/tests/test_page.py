"""The page from Python."""

import json
import pathlib
import urllib.error
import urllib.parse
import urllib.request

import pytest
import stackline as sl


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 5, "pid": 1, "tid": 1}
    path.write_text(json.dumps({"traceEvents": [event]}))
    return path


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.status == 200
        return bytes(answer.read())


def test_a_page_is_served_until_it_is_closed(trace: pathlib.Path) -> None:
    with sl.view(trace) as page:
        assert b"<html" in get(page.url)
        assert b"trace.json" in get(f"{page.url}query/meta")
        assert page.url in page._repr_html_()
    with pytest.raises(urllib.error.URLError):
        get(page.url)
    page.close()


def test_page_of_two_runs(trace: pathlib.Path) -> None:
    with sl.view([trace], baseline=trace) as page:
        assert b'"schema": "stackline/diff/1"' in get(f"{page.url}query/compare")


def document(url: str) -> dict[str, object]:
    """The document of an answer: its length in four bytes, then JSON with it."""
    answer = get(url)
    length = int.from_bytes(answer[:4], "little")
    found = json.loads(answer[4 : 4 + length])["document"]
    assert isinstance(found, dict)
    return found


def test_source_text_can_be_switched_off(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "train.py"
    source.write_text("a = 1\n")
    event = {"ph": "X", "cat": "python_function", "name": f"{source}(1): f", "ts": 1, "dur": 5, "pid": 1, "tid": 1}
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [event]}))
    query_path = f"query/source?file={urllib.parse.quote(str(source))}"
    for run in ("", "&run=before"):
        with sl.view(tmp_path, baseline=tmp_path) as page:
            assert document(page.url + query_path + run)["text"] == "a = 1\n"
        with sl.view(tmp_path, baseline=tmp_path, no_source=True) as page:
            assert document(page.url + query_path + run)["text"] is None
    with pytest.raises(ValueError, match="give one of them"):
        sl.view(tmp_path, source_roots=[tmp_path], no_source=True)


def test_page_behind_a_jupyter_hub(trace: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/me/")
    with sl.view(trace) as page:
        assert 'src="/user/me/proxy/' in page._repr_html_()


def test_unservable_runs_raise(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(sl.ReadError, match=r"nothing\.json"):
        sl.view(tmp_path / "nothing.json")
    with sl.view(trace) as page:
        port = int(page.url.split(":")[2].split("/")[0])
        with pytest.raises(sl.AnalysisError, match="cannot listen on port"):
            sl.view(trace, port=port)
