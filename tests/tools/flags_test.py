"""docs/flags.md holds what --help prints, to the word. ctest runs it: LION_SERVER LION."""

import os
import pathlib
import re
import subprocess
import sys

FLAGS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "flags.md"


def help_of(command, name):
    # CLI11 shows the value of a variable that is set as the default.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LION_")}
    text = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, env=environment).stdout
    return re.sub(r"Usage: \S.*?(?= \[OPTIONS\])", f"Usage: {name}", text)


def main():
    server, lion = sys.argv[1:]
    lines = [line.strip() for line in FLAGS.read_text().splitlines()]
    missing = [line for text in (help_of([server], "lion-server"), help_of([lion, "bench"], "lion bench"))
               for line in map(str.strip, text.splitlines()) if line and line not in lines]
    printed = (help_of([server], "lion-server") + help_of([lion, "bench"], "lion bench")).split()
    gone = sorted({word for word in re.findall(r"^    +(--[a-z0-9-]+)", FLAGS.read_text(), re.M)} - set(printed))
    if missing or gone:
        sys.exit(f"{FLAGS.name} lacks these lines of --help: {missing}\nand has flags that are none: {gone}")


if __name__ == "__main__":
    main()
