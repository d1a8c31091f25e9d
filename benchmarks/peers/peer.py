"""One peer, in a process of its own: loads a model and images, then answers commands like lion_runner (README.md)."""

import argparse
import ctypes
import json
import os
import pathlib
import sys
import time

import numpy


def status_bytes(key):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    return 0


def torch_run(o, images):
    import torch
    import torch_model

    torch.set_num_threads(o.threads)
    encoder = torch_model.Encoder(o.model, o.side, o.form, getattr(torch, o.type)).eval()
    encode = torch.compile(encoder, dynamic=False) if o.framework == "PyTorch compiled" else encoder
    pixels = torch.from_numpy(images)

    def run():
        with torch.inference_mode():
            return encode(pixels).numpy()

    if o.framework == "PyTorch compiled":
        run()  # compiles
    return run


def onnxruntime_run(o, images):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = o.threads
    options.inter_op_num_threads = 1
    path = o.onnx
    if o.type == "int8":
        from onnxruntime.quantization import quantize_dynamic

        path = o.onnx.with_suffix(".int8.onnx")
        quantize_dynamic(o.onnx, path, op_types_to_quantize=["MatMul", "Gemm"])
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"images": images})[0]


def openvino_run(o, images):
    import openvino

    core = openvino.Core()
    if o.type == "bfloat16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise SystemExit("OpenVINO has no bfloat16 on this CPU")
    model = core.compile_model(core.read_model(o.onnx), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": o.threads,
        "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[o.type]})
    request = model.create_infer_request()
    return lambda: request.infer({0: images}, share_inputs=True, share_outputs=True)[0]


FRAMEWORKS = {"PyTorch": torch_run, "PyTorch compiled": torch_run, "ONNX Runtime": onnxruntime_run,
              "OpenVINO": openvino_run}


def serve(run, turn_ms):
    ctypes.CDLL(None).malloc_trim(0)
    baseline = status_bytes("VmRSS:")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again at the present size
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints does not come between the answers
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "run":
            times = []
            while not times or sum(times) < turn_ms:
                start = time.perf_counter()
                embeddings = run()
                times.append(1e3 * (time.perf_counter() - start))
            answer = {"ms": times}
        elif command == "write":
            numpy.asarray(embeddings, numpy.float32).tofile(argument)
            answer = {}
        elif command == "memory":
            answer = {"peak_bytes": status_bytes("VmHWM:") - baseline}
        else:
            raise SystemExit(f"expected run, write PATH or memory, found {command}")
        print(json.dumps(answer), file=answers, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("model", type=pathlib.Path, help="folder with model.safetensors and config.json")
    add("--framework", choices=FRAMEWORKS, required=True)
    add("--form", choices=("chunk", "attention", "recurrent", "softmax"), required=True)
    add("--type", choices=("float32", "bfloat16", "int8"), required=True)
    add("--images", type=pathlib.Path, required=True, help="float32 [batch, 3, side, side], normalised")
    add("--onnx", type=pathlib.Path, help="what export_onnx.py wrote of the model, for ONNX Runtime and OpenVINO")
    add("--side", type=int, required=True)
    add("--batch", type=int, default=1)
    add("--threads", type=int, default=2)
    add("--turn-ms", type=float, default=0)
    o = parser.parse_args()
    images = numpy.fromfile(o.images, numpy.float32).reshape(o.batch, 3, o.side, o.side)
    serve(FRAMEWORKS[o.framework](o, images), o.turn_ms)


if __name__ == "__main__":
    main()
