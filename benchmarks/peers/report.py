"""Tables (Markdown, JSON) and plots (SVG) of what compare.py measured: report.py RESULTS.json OUTPUT"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402

COLOURS = {"lion": "#c2410c", "PyTorch": "#7c3aed", "PyTorch compiled": "#db2777", "OpenVINO": "#0369a1",
           "ONNX Runtime": "#4d7c0f"}
LINES = {"chunk": "-", "attention": "--", "softmax": ":", "recurrent": "-."}
MARKS = {"chunk": "o", "attention": "s", "softmax": "^", "recurrent": "v"}
TYPES = ("float32", "bfloat16", "int8")


def ordered(values):
    return list(dict.fromkeys(values))


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


class Notes:
    """Long reasons of failures, numbered below the table."""

    def __init__(self):
        self.texts = []

    def short(self, failure):
        if failure.startswith(("over ", "out of memory", "time was up", "does not agree")):
            return failure.split(" (")[0].split(":")[0]
        if failure not in self.texts:
            self.texts.append(failure)
        return f"failed ({self.texts.index(failure) + 1})"


def table(results, title, cell):
    columns = ordered((result["side"], result["batch"]) for result in results)
    columns.sort(key=lambda column: (column[1], column[0]))
    rows = sorted(ordered((result["framework"], result["form"], result["type"]) for result in results),
                  key=lambda row: TYPES.index(row[2]))
    found = {(result["framework"], result["form"], result["type"], result["side"], result["batch"]): result
             for result in results}
    yield f"| {title} | form | type | " + " | ".join(
        f"{side}²" + (f" × {batch}" if batch > 1 else "") for side, batch in columns) + " |"
    yield "|---" * 3 + "|---:" * len(columns) + "|"
    for row in rows:
        cells = [cell(found[row + column], found.get(("lion", "chunk", row[2]) + column))
                 if row + column in found else "" for column in columns]
        name = "**LION Server**" if row[0] == "lion" else row[0]
        yield f"| {name} | {row[1]} | {row[2]} | " + " | ".join(cells) + " |"


def markdown(machine, results):
    notes = Notes()

    def latency(result, ours):
        if "failure" in result:
            return notes.short(result["failure"])
        ratio = f" ({result['ms'] / ours['ms']:.1f}×)" if ours and "ms" in ours and ours is not result else ""
        return number(result["ms"]) + ratio

    def memory(result, _):
        return notes.short(result["failure"]) if "failure" in result else number(result["peak_bytes"] / 2**20)

    yield (f"Measured on {machine['date']}: {machine['cpu']} (family/model {machine['family_model']}, "
           f"{', '.join(machine['instructions'])}), {machine['cores']} cores, {machine['threads']} threads for each, "
           f"{machine['memory_gib']} GiB of memory free, load {machine['load_at_start']:.1f} at the start and "
           f"{machine['load_at_end']:.1f} at the end; LION Server {machine['lion']}, "
           + ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
           + f", Python {machine['python']}. Method: benchmarks/peers/README.md.")
    for model in ordered(result["model"] for result in results):
        of_model = [result for result in results if result["model"] == model]
        size, variant, order = model.split("-")
        yield from ("", f"### {size}, LION-{variant.upper()}" + (", S order" if order == "s" else ""), "")
        yield from table(of_model, "ms", latency)
        yield ""
        yield from table(of_model, "MiB", memory)
    errors = {name: [r["error"] for r in results if "error" in r and r["type"] == name] for name in TYPES}
    yield ""
    yield "Largest relative error of an embedding: " + ", ".join(
        f"{name} {max(values):.1e}" for name, values in errors.items() if values) + "."
    for index, text in enumerate(notes.texts, 1):
        yield f"({index}) {text}  "


def plot(path, results, label, value):
    """One panel a type; value(result) against the image's side, both logarithmic. Failures are crosses at the top."""
    types = [name for name in TYPES[:2] if any(result["type"] == name for result in results)]
    figure, axes = pyplot.subplots(1, len(types), figsize=(5.2 * len(types), 5), sharey=True, squeeze=False)
    sides = sorted({result["side"] for result in results})
    series = {}
    for axis, name in zip(axes[0], types):
        for result in results:
            if result["type"] == name:
                series.setdefault((result["framework"], result["form"]), {}).setdefault(name, []).append(result)
        axis.set(xscale="log", yscale="log", title=name, xlabel="pixels a side")
        axis.set_xticks(sides, [str(side) for side in sides])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        for (framework, form), by_type in series.items():
            style = {"color": COLOURS[framework], "linestyle": LINES[form], "marker": MARKS[form], "markersize": 4,
                     "linewidth": 2.6 if framework == "lion" else 1.3}
            points = sorted((r["side"], value(r)) for r in by_type.get(name, []) if "failure" not in r)
            axis.plot([x for x, _ in points], [y for _, y in points], **style)
            for failed in (r for r in by_type.get(name, []) if "failure" in r):
                axis.plot(failed["side"], 0.97, "x", color=COLOURS[framework], transform=axis.get_xaxis_transform())
    axes[0][0].set_ylabel(label)
    handles = [Line2D([], [], color=COLOURS[framework], linestyle=LINES[form], marker=MARKS[form], markersize=4,
                      label=f"{'LION Server' if framework == 'lion' else framework}, {form}")
               for framework, form in series]
    if any("failure" in result for result in results):
        handles.append(Line2D([], [], color="grey", linestyle="", marker="x",
                              label="out of memory, too slow, or failed"))
    figure.legend(handles=handles, loc="lower center", ncols=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.02 + 0.035 * -(-len(handles) // 3), 1, 1))
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def write(folder, everything):
    machine, results = everything["machine"], everything["results"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps(everything, indent=1) + "\n")
    (folder / "peers.md").write_text("\n".join(markdown(machine, results)) + "\n")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lion", "font.family": "sans-serif"})
    for size in ("tiny", "base"):
        shown = [result for result in results if result["model"] == f"{size}-s-normal" and result["batch"] == 1]
        if len({result["side"] for result in shown}) < 2:
            continue
        plot(folder / f"latency_{size}.svg", shown, "ms", lambda result: result["ms"])
        if size == "tiny":
            plot(folder / "tokens_per_second.svg", shown, "tokens/s",
                 lambda result: 1e3 * result["tokens"] / result["ms"])
            plot(folder / "peak_memory.svg", shown, "MiB above the loaded model",
                 lambda result: max(result["peak_bytes"], 1 << 20) / 2**20)
    print(f"{folder}/peers.md, peers.json and plots")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[2]), json.loads(pathlib.Path(sys.argv[1]).read_text()))
