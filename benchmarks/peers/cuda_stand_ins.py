"""Makes PyPI's PyTorch importable without the gigabytes of CUDA libraries that it names as dependencies.

Its CPU code is in the same wheel, but the loader wants every library. So each missing one gets a stand-in beside
PyTorch's own, in which every function returns 100: cudaErrorNoDevice. CPU inference calls none of them.
Run by the virtual environment's Python. Needs gcc and readelf.
"""

import collections
import ctypes
import importlib.util
import pathlib
import re
import subprocess
import tempfile

NO_DEVICE = 100


def readelf(flag, library):
    return subprocess.run(["readelf", "-W", flag, library], check=True, capture_output=True, text=True).stdout


def can_load(name):
    try:
        ctypes.CDLL(name)
        return True
    except OSError:
        return False


def symbols(library):
    """Names that the library defines, and (name, version) of those it wants from others; "" for no version."""
    defined, wanted = set(), set()
    for line in readelf("--dyn-syms", library).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        name, _, version = fields[7].replace("@@", "@").partition("@")
        if fields[6] != "UND":
            defined.add(name)
        else:
            wanted.add((name, version))
    return defined, wanted


def version_owners(library):
    """{version: the library that is to define it}"""
    owners, owner = {}, None
    for line in readelf("--version-info", library).splitlines():
        if found := re.search(r"File: (\S+) +Cnt", line):
            owner = found[1]
        elif owner and (found := re.search(r"Name: (\S+) +Flags", line)):
            owners[found[1]] = owner
    return owners


def build(path, versions):
    """A shared library of functions that all return NO_DEVICE; versions: {version or "": names}."""
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "source.c"), pathlib.Path(folder, "versions")
        functions = sorted(set().union(*versions.values()))
        source.write_text("".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in functions))
        command = ["gcc", "-w", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", source, "-o", path]
        named = {version: names for version, names in versions.items() if version}
        if named:
            # A reference without a version finds a symbol of the library's first version as well.
            first = next(iter(named))
            named[first] = named[first] | versions.get("", set())
            script.write_text("".join(f"{version} {{ global: {'; '.join(sorted(names))}; }};\n"
                                      for version, names in named.items()))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main():
    folder = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"
    made_before = folder / "stand_ins.txt"
    for name in made_before.read_text().split() if made_before.exists() else []:
        (folder / name).unlink(missing_ok=True)
    libraries = sorted(folder.glob("*.so*"))
    needed = {name for library in libraries for name in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", library))}
    missing = sorted(name for name in needed if not (folder / name).exists() and not can_load(name))
    if not missing:
        return
    defined, wanted, owners = set(), set(), {}
    for library in libraries:
        its_own, others = symbols(library)
        defined |= its_own
        wanted |= others
        owners.update(version_owners(library))
    stand_ins = {name: collections.defaultdict(set) for name in missing}
    for name, version in wanted:
        if owners.get(version) in stand_ins:
            stand_ins[owners[version]][version].add(name)
        elif not version and name not in defined and re.fullmatch(r"[A-Za-z]\w*", name):
            for versions in stand_ins.values():  # which of them is to have it, nothing says
                versions[""].add(name)
    made_before.write_text("\n".join(missing))
    for name, versions in stand_ins.items():
        build(folder / name, versions)
    print("stand-ins for CUDA libraries that CPU inference does not use:", ", ".join(missing))


if __name__ == "__main__":
    main()
