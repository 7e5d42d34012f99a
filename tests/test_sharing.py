"""Models on the Hugging Face Hub: real requests of huggingface_hub to a server on this machine."""

import base64
import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from rembrandt import RembrandtClassifier, load
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import ModelError, OutputExistsError, RembrandtError, StorageError
from rembrandt.sharing import pull, push

pytest.importorskip("huggingface_hub")

REPOSITORY = "somebody/a-model"
COMMIT = "0" * 40
FILES = {"model.json", "weights.safetensors", "README.md"}


class Hub(ThreadingHTTPServer):
    """Repositories in memory, by name; each is a dictionary of files."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """The requests that uploads and downloads of small files make."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None: ...

    def answer(self, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def missing(self) -> None:
        print("no answer to", self.command, self.path)
        self.answer({"error": "no"}, 404, {"X-Error-Code": "RepoNotFound"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.split("?")[0]
        if path == "/api/repos/create":
            row = json.loads(content)
            name = (
                f"{row['organization']}/{row['name']}" if row.get("organization") else row["name"]
            )
            self.server.repositories.setdefault(name, {})
            # Versions of huggingface_hub say it in one of two ways.
            is_private = row.get("private") or row.get("visibility") == "private"
            self.server.private[name] = bool(is_private)
            self.answer({"url": f"{self.server.url}/{name}", "name": name, "id": name})
        elif path == "/api/validate-yaml":  # of the card
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = json.loads(content)["files"]
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer({"files": [{"path": file["path"]} | modes for file in files]})
        elif "/commit/" in path:
            name = path.removeprefix("/api/models/").split("/commit/")[0]
            for line in content.splitlines():
                row = json.loads(line)
                if row["key"] == "file":
                    data = base64.b64decode(row["value"]["content"])
                    self.server.repositories[name][row["value"]["path"]] = data
            url = f"{self.server.url}/{name}/commit/{COMMIT}"
            self.answer({"commitUrl": url, "commitOid": COMMIT, "hookOutput": "", "success": True})
        else:
            self.missing()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path.startswith("/api/models/"):
            name = "/".join(path.removeprefix("/api/models/").split("/")[:2])
            files = self.server.repositories.get(name)
            if files is None:
                self.missing()
                return
            if "/tree/" in path:
                entries = []
                for file, data in files.items():
                    entry = {"type": "file", "path": file, "size": len(data), "oid": etag(data)}
                    entries.append(entry)
                self.answer(entries)
                return
            siblings = [{"rfilename": file} for file in files]
            self.answer({"id": name, "sha": COMMIT, "siblings": siblings, "private": False})
            return
        name, _, rest = path.lstrip("/").partition("/resolve/")
        data = self.server.repositories.get(name, {}).get(rest.partition("/")[2])
        if data is None:
            self.missing()
            return
        self.answer(data, headers={"ETag": f'"{etag(data)}"', "X-Repo-Commit": COMMIT})

    do_HEAD = do_GET


def etag(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A server, and no account of whoever runs the tests."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    server = Hub()
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    train, _ = labelled_documents(200, n_topics=3, labels_per_topic=4)
    classifier = RembrandtClassifier("fast", parts=("centroids",), random_state=0)
    folder = tmp_path_factory.mktemp("sharing") / "model"
    classifier.fit_dataset(train).save(folder, sign_key="a secret")
    return folder


def test_a_model_comes_back_as_it_was(hub: Hub, model: Path, tmp_path: Path) -> None:
    address = push(model, REPOSITORY, private=True, endpoint=hub.url)
    assert address == f"{hub.url}/{REPOSITORY}/commit/{COMMIT}"
    assert set(hub.repositories[REPOSITORY]) == FILES and hub.private[REPOSITORY]
    target = tmp_path / "pulled"
    pull(REPOSITORY, target, endpoint=hub.url, require_signature="a secret")
    assert {path.name for path in target.iterdir()} == FILES
    for name in FILES:
        assert (target / name).read_bytes() == (model / name).read_bytes()
    texts = labelled_documents(200, n_topics=3, labels_per_topic=4)[1].texts
    np.testing.assert_array_equal(
        load(target).predict_proba(texts), load(model).predict_proba(texts)
    )
    with pytest.raises(OutputExistsError):
        pull(REPOSITORY, target, endpoint=hub.url)
    pull(REPOSITORY, target, force=True, endpoint=hub.url)


def test_what_is_not_a_sound_model_is_refused(hub: Hub, model: Path, tmp_path: Path) -> None:
    push(model, REPOSITORY, endpoint=hub.url)
    files = hub.repositories[REPOSITORY]
    target = tmp_path / "pulled"
    with pytest.raises(ModelError, match="nothing was written"):
        pull(REPOSITORY, target, endpoint=hub.url, require_signature="another secret")
    files["weights.safetensors"] = files["weights.safetensors"][:-1] + b"\x7f"
    with pytest.raises(ModelError, match="nothing was written"):
        pull(REPOSITORY, target, endpoint=hub.url)
    del files["model.json"]
    files["setup.py"] = b"raise SystemExit"
    with pytest.raises(ModelError, match="nothing was written"):
        pull(REPOSITORY, target, endpoint=hub.url)
    assert list(tmp_path.iterdir()) == []


def test_what_is_damaged_is_not_uploaded(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(ModelError):
        push(tmp_path, REPOSITORY, endpoint=hub.url)
    assert hub.repositories == {}


def test_errors_say_what_to_do(hub: Hub, tmp_path: Path) -> None:
    target = tmp_path / "pulled"
    with pytest.raises(StorageError, match="there is no repository somebody/nothing"):
        pull("somebody/nothing", target, endpoint=hub.url)
    with pytest.raises(StorageError, match="'account/model'"):
        pull("a b", target, endpoint=hub.url)
    with pytest.raises(StorageError, match="cannot be reached"):
        pull(REPOSITORY, target, endpoint="http://127.0.0.1:9")
    assert not target.exists()


def test_without_the_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(RembrandtError, match=r"pip install 'rembrandt\[hub\]'"):
        push(model, REPOSITORY)
    with pytest.raises(RembrandtError, match=r"pip install 'rembrandt\[hub\]'"):
        pull(REPOSITORY, tmp_path / "pulled")
