"""Try the steps of the Dockerfile without Docker: ``sudo python -m tests.container MODEL``.

Linux only, as root. The steps are run in a chroot on a layer over this system, whose Python stands
for that of the base image. Then the layer is made read-only, and the entry point serves MODEL as
the user of the Dockerfile, without capabilities, with a /tmp in memory. The health check must
succeed, a prediction must be answered, and nothing may be written. Nothing outside the layer, which
is in memory, is changed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]
TOKEN = "only-for-this-one-test"
START_SECONDS = 300
KEPT = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "HTTPS_PROXY", "https_proxy")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile and what follows them."""
    without_comments = re.sub(r"^#.*\n", "", text, flags=re.M)
    joined = without_comments.replace("\\\n", " ")
    for line in joined.splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, rest.strip()


class Container:
    """The layer, and what the instructions have set."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.environment: dict[str, str] = {}
        self.settings: dict[str, str] = {}
        for name in ("root", "layer"):
            (folder / name).mkdir()
        mount("-t", "tmpfs", "tmpfs", folder / "layer")
        for name in ("upper", "work"):
            (folder / "layer" / name).mkdir()
        layers = f"lowerdir=/,upperdir={folder}/layer/upper,workdir={folder}/layer/work"
        mount("-t", "overlay", "overlay", "-o", layers, self.root)
        for name in ("proc", "dev", "sys"):
            mount("--rbind", f"/{name}", self.root / name)
        mount("-t", "tmpfs", "tmpfs", self.root / "tmp")
        # The Python of this system may be in the home of root; everybody can run that of the image.
        for parent in Path(sys.base_prefix).resolve().parents:
            opened = self.root / str(parent).lstrip("/")
            opened.chmod(opened.stat().st_mode | 0o555)

    def build(self, text: str) -> None:
        """Follow the instructions; stages share one layer, because only the last one is tried."""
        for name, rest in instructions(text):
            print(f"{name} {rest}", flush=True)
            if name == "FROM":
                self.environment = {}
            elif name == "COPY":
                self._copy(rest.split())
            elif name == "RUN":
                subprocess.run(self.command(["sh", "-c", rest]), env=self.variables(), check=True)
            elif name == "ENV":
                for word in rest.split():
                    variable, _, value = word.partition("=")
                    value = value.replace("$PATH", os.environ["PATH"])
                    self.environment[variable] = value
            else:
                self.settings[name] = rest

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        if sources[0].startswith("--from="):
            assert (self.root / target.lstrip("/")).exists(), f"{target} was not built"
            return
        destination = self.root / target.lstrip("/")
        if target.endswith("/"):
            destination.mkdir(parents=True, exist_ok=True)
        for source in sources:
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, destination, ignore=ignored)
            else:
                shutil.copy(ROOT / source, destination)

    def variables(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {"PATH": os.environ["PATH"], "HOME": "/nonexistent"} | kept | self.environment

    def command(self, words: list[str], user: str | None = None) -> list[str]:
        """Return a command in the layer, as a user without any rights."""
        prefix = ["chroot", str(self.root)]
        if user is not None:
            prefix += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            prefix += ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        return [*prefix, *words]

    def serve(self, model: Path) -> None:
        """Start the entry point and try the service."""
        (self.root / "model").mkdir()
        mount("--bind", "-o", "ro", model, self.root / "model")
        mount("-o", "remount,ro", self.root)
        user = self.settings["USER"]
        words = json.loads(self.settings["ENTRYPOINT"]) + json.loads(self.settings["CMD"])
        variables = self.variables() | {"REMBRANDT_TOKEN": TOKEN}
        start = time.monotonic()
        process = subprocess.Popen(self.command(words, user), env=variables)
        try:
            self._wait_until_healthy(process, user)
            print(f"healthy after {time.monotonic() - start:.1f} s", flush=True)
            print(f"answered: {predicted()}", flush=True)
            self._check_rights(process.pid, user)
        finally:
            process.terminate()
            code = process.wait(timeout=60)
        assert code == 0, f"the service ended with {code}"

    def _wait_until_healthy(self, process: subprocess.Popen[bytes], user: str) -> None:
        check = self.settings["HEALTHCHECK"]
        words = json.loads(check[check.index("CMD") + len("CMD") :])
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert process.poll() is None, "the service has ended"
            assert time.monotonic() < deadline, "the service is not healthy"
            tried = subprocess.run(
                self.command(words, user), env=self.variables(), capture_output=True, check=False
            )
            if tried.returncode == 0:
                return
            time.sleep(1)

    def _check_rights(self, pid: int, user: str) -> None:
        """The process is the user's, has no capabilities, and cannot write."""
        status = Path(f"/proc/{pid}/status").read_text()
        ids = re.search(r"^Uid:\s+(.+)$", status, re.M)
        effective = re.search(r"^CapEff:\s+(.+)$", status, re.M)
        assert ids is not None and set(ids[1].split()) == {user}, ids
        assert effective is not None and int(effective[1], 16) == 0, effective
        for path in ("/written", "/model/written", "/opt/rembrandt/written"):
            tried = subprocess.run(
                self.command(["touch", path], user), capture_output=True, check=False
            )
            assert tried.returncode != 0, f"{path} can be written"
        print(f"runs as user {user} without capabilities; nothing can be written")


def predicted() -> str:
    """Return the first label of a text."""
    body = json.dumps({"texts": ["a text about baking bread"], "top_k": 1}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    with urlopen(Request("http://127.0.0.1:8000/v1/predict", body, headers), timeout=60) as answer:
        document = json.load(answer)
    return str(document["predictions"][0])


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def main(model: str) -> None:
    """Run in mounts of its own, which disappear with the process."""
    if os.environ.get("TRY_CONTAINER") != "inside":
        command = ["unshare", "--mount", sys.executable, "-m", "tests.container", model]
        os.environ["TRY_CONTAINER"] = "inside"
        os.execvp("unshare", command)
    folder = Path(tempfile.mkdtemp(prefix="container-"))
    container = Container(folder)
    container.build((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    container.serve(Path(model).resolve())


if __name__ == "__main__":
    main(sys.argv[1])
