"""Runs the snippets of pages of the documentation, in their order, against the server that each page starts.

docs_snippets.py BIN [LANGUAGE...]: the folder of lion-server and lion; which blocks are run (all of them, unless given).

A block is fenced and begins with its language:
  ```sh server       starts the server that everything else talks to; without it: QUICKSTART
  ```python, ```sh   run from the root of the repository; must succeed and print something
  ```cpp NAME        any other language with a name: written to that file
  ```text            to the letter what the block before it prints
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = "README.md", "client/python/README.md", "docs/clients.md"
QUICKSTART = "build/release/bin/lion-server --model models/mnist-lion-s"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)


def blocks_of(page):
    """Tuples: language, name, content, line."""
    text = (ROOT / page).read_text()
    return [(*found.groups(), text[:found.start()].count("\n") + 1) for found in BLOCK.finditer(text)]


def tree_with(folder, binaries):
    """The repository as the snippets see it, where they may write."""
    tree = folder / "tree"
    (tree / "build" / "release").mkdir(parents=True)
    (tree / "build" / "release" / "bin").symlink_to(binaries)
    for entry in ROOT.iterdir():
        if entry.name not in ("build", "CMakeLists.txt"):
            (tree / entry.name).symlink_to(entry)
    return tree


@contextlib.contextmanager
def server_of(content, tree, binaries):
    """Its address."""
    log = tree.parent / "server.log"
    environment = {**os.environ, "LION_HOST": "127.0.0.1", "LION_GRPC_PORT": "0", "LION_METRICS_PORT": "-1"}
    with open(log, "wb") as output:
        shell = subprocess.Popen(["bash", "-e", "-c", content], cwd=tree, env=environment, stdout=output, stderr=output,
                                 start_new_session=True)
    try:
        end = time.monotonic() + 120
        while not (port := re.search(r"listening on .* port (\d+)", log.read_text(errors="replace"))):
            if shell.poll() is not None or time.monotonic() > end:
                sys.exit(f"the server did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)
        address = f"127.0.0.1:{port[1]}"
        subprocess.run([binaries / "lion", "health", "--wait", "120", "--server", address], check=True,
                       stdout=subprocess.DEVNULL)
        yield address
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGTERM)
        shell.wait()


def run(language, content, tree, environment):
    command = {"python": [sys.executable, "-B", "-W", "error", "-"], "sh": ["bash", "-e", "-o", "pipefail"]}[language]
    return subprocess.run(command, input=content, cwd=tree, env=environment, text=True, stdout=subprocess.PIPE,
                          check=False)


def run_page(page, languages, tree, binaries):
    """How many were run."""
    count, printed = 0, None
    blocks = blocks_of(page)
    start = [content for _, name, content, _ in blocks if name == "server"] or [QUICKSTART]
    with server_of(start[0].replace("/tmp/texts", f"{tree}/texts"), tree, binaries) as address:
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("LION_") or key == "LION_PREFIX"}
        environment.update(LION_SERVER=address, PATH=f"{binaries}:{os.environ['PATH']}")
        for language, name, content, line in blocks:
            where = f"{page}:{line}"
            if language == "text" and printed not in (None, content):
                sys.exit(f"{where}: the snippet before it printed\n{printed}")
            printed = None
            if language == "text" or name == "server" or (languages and language not in languages):
                continue
            content = content.replace("localhost:8001", address)
            if name:
                (tree / name).write_text(content)
            elif language in ("python", "sh"):  # others are parts of a program
                done = run(language, content, tree, environment)
                if done.returncode or not done.stdout:
                    sys.exit(f"{where}: exit status {done.returncode}, and it printed {done.stdout!r}")
                count, printed = count + 1, done.stdout
                print(f"{where}: {language}, as it should be", flush=True)
    return count


def main():
    binaries, *languages = sys.argv[1:]
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            binaries = pathlib.Path(binaries).resolve()
            if not run_page(page, languages, tree_with(pathlib.Path(folder), binaries), binaries):
                sys.exit(f"{page}: no snippet was run")


if __name__ == "__main__":
    main()
