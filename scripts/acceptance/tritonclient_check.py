"""The checks of tritonclient.sh: tritonclient_check.py FOLDER, where models are copied to."""

import pathlib
import queue
import shutil
import sys
import time

import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from server_process import ROOT, Server

DIGITS = sorted((ROOT / "models" / "mnist-lion-s" / "digits").glob("*.png"))
IMAGES, TEXTS = "digits", "texts"


def check(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def fails_with(code, words, call):
    """That `call` fails with that status, in these words."""
    try:
        call()
    except InferenceServerException as error:
        check(error.status() == f"StatusCode.{code}" and words in error.message(),
              f"want {code} with '{words}', got {error.status()}: {error.message()}")
        return
    sys.exit(f"FAILED: want {code} with '{words}', got an answer")


def tensor(name, values, datatype):
    made = triton.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values)
    return made


def of_bytes(name, elements):
    return tensor(name, np.array(elements, dtype=object).reshape(-1, 1), "BYTES")


def wanted(*names, **options):
    return [triton.InferRequestedOutput(name, **options) for name in names]


def with_contents(client, model, name, datatype, shape, field, values, output):
    """The same as infer(), with the elements as contents, which tritonclient itself never sends."""
    request = service_pb2.ModelInferRequest(model_name=model)
    made = request.inputs.add(name=name, datatype=datatype, shape=shape)
    getattr(made.contents, field).extend(values)
    request.outputs.add(name=output)
    return triton.InferResult(client._client_stub.ModelInfer(request)).as_numpy(output)


class Checks:
    def __init__(self, client):
        self.client = client
        self.requests = {IMAGES: 0, TEXTS: 0}
        self.inputs = {IMAGES: 0, TEXTS: 0}

    def infer(self, model, inputs, outputs=None, batch=None, **options):
        result = self.client.infer(model, inputs, outputs=outputs, **options)
        self.count(model, batch or inputs[0].shape()[0])
        return result

    def count(self, model, inputs):
        self.requests[model] += 1
        self.inputs[model] += inputs

    def server(self):
        check(self.client.is_server_live() and self.client.is_server_ready(), "the server is ready")
        check(self.client.is_model_ready(IMAGES) and self.client.is_model_ready(TEXTS, "1"), "models are ready")
        check(not self.client.is_model_ready("nope"), "an unknown model is not ready")
        extensions = list(self.client.get_server_metadata().extensions)
        print("extensions:", ", ".join(extensions))
        check({"statistics", "model_configuration", "model_repository", "classification"} <= set(extensions),
              "extensions")

    def descriptions(self):
        for model in (IMAGES, TEXTS):
            metadata = self.client.get_model_metadata(model)
            config = self.client.get_model_config(model).config
            check(config.max_batch_size > 0 and config.HasField("dynamic_batching"), "the configuration batches")
            for described, configured in ((metadata.inputs, config.input), (metadata.outputs, config.output)):
                check([(one.name, list(one.shape)) for one in described]
                      == [(one.name, [-1, *one.dims]) for one in configured], "metadata and configuration agree")
            print(f"{model}: {', '.join(one.name for one in metadata.inputs)} -> "
                  f"{', '.join(one.name for one in metadata.outputs)}")

    def images(self):
        files = [path.read_bytes() for path in DIGITS]
        result = self.infer(IMAGES, [of_bytes("image", files)])
        probabilities = result.as_numpy("probabilities")
        right = [int(path.stem) for path in DIGITS] == list(probabilities.argmax(axis=1))
        check(right, "every digit is classified")
        check(np.allclose(probabilities.sum(axis=1), 1, atol=1e-5), "probabilities add up to 1")
        as_contents = with_contents(self.client, IMAGES, "image", "BYTES", [len(files)], "bytes_contents", files,
                                    "probabilities")
        self.count(IMAGES, len(files))
        check(np.array_equal(probabilities, as_contents), "raw files and contents give the same")
        classes = self.infer(IMAGES, [of_bytes("image", files)], wanted("probabilities", class_count=2))
        for row, of_image in zip(classes.as_numpy("probabilities"), probabilities):
            score, index, label = row[0].decode().split(":")
            check(int(index) == of_image.argmax() and float(score) == of_image.max() and label == index,
                  "classification names the highest")
        print(f"images: {len(files)} of {len(files)} digits right, raw = contents, classification e.g. "
              f"{classes.as_numpy('probabilities')[0][0].decode()}")

    def pixels(self):
        rng = np.random.default_rng(1)
        small = rng.integers(0, 256, size=(3, 3, 28, 28), dtype=np.uint8)
        by_uint8 = self.infer(IMAGES, [tensor("pixels", small, "UINT8")]).as_numpy("embeddings")
        contents = with_contents(self.client, IMAGES, "pixels", "UINT8", small.shape, "uint_contents",
                                 small.reshape(-1).tolist(), "embeddings")
        self.count(IMAGES, 3)
        check(np.array_equal(by_uint8, contents), "UINT8 as contents")
        floats = rng.standard_normal((2, 3, 28, 28), dtype=np.float32)
        by_fp32 = self.infer(IMAGES, [tensor("pixels", floats, "FP32")]).as_numpy("embeddings")
        contents = with_contents(self.client, IMAGES, "pixels", "FP32", floats.shape, "fp32_contents",
                                 floats.reshape(-1).tolist(), "embeddings")
        self.count(IMAGES, 2)
        check(np.array_equal(by_fp32, contents), "FP32 as contents")
        large = rng.standard_normal((1, 3, 2496, 2496), dtype=np.float32)
        begin = time.monotonic()
        result = self.infer(IMAGES, [tensor("pixels", large, "FP32")], wanted("embeddings", "token_count"))
        print(f"pixels: FP32 2496x2496, {large.nbytes / 1e6:.0f} MB, {result.as_numpy('token_count')[0, 0]} tokens in "
              f"{time.monotonic() - begin:.2f} s")

    def texts(self):
        texts = [b"the lion", b"lion", "na\u00efve lions by the river".encode()]
        raw = self.infer(TEXTS, [of_bytes("text", texts)]).as_numpy("embeddings")
        contents = with_contents(self.client, TEXTS, "text", "BYTES", [3, 1], "bytes_contents", texts, "embeddings")
        self.count(TEXTS, 3)
        check(np.array_equal(raw, contents), "raw texts and contents give the same")
        unit = self.infer(TEXTS, [of_bytes("text", texts)], wanted("embeddings"),
                          parameters={"normalize": True, "dimensions": 8}).as_numpy("embeddings")
        check(unit.shape == (3, 8) and np.allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-5),
              "normalize and dimensions")
        rows = [[2, 47, 76, 3], [2, 76, 3], [2, 5, 6, 7, 8, 9, 3]]
        alone = [self.infer(TEXTS, [tensor("input_ids", np.array([row], np.int64), "INT64")]).as_numpy("embeddings")
                 for row in rows]
        ids, mask = np.zeros((6, 7), np.int64), np.zeros((6, 7), np.int64)
        for i, row in enumerate(rows):
            ids[i, :len(row)], mask[i, :len(row)] = row, 1
            ids[3 + i, 7 - len(row):], mask[3 + i, 7 - len(row):] = row, 1
        padded = self.infer(TEXTS, [tensor("input_ids", ids, "INT64"), tensor("attention_mask", mask, "INT64")])
        check(np.array_equal(padded.as_numpy("embeddings"), np.concatenate(alone + alone)),
              "padding on the left and the right changes no bit")
        check(list(padded.as_numpy("token_count")[:, 0]) == 2 * [4, 3, 7], "tokens without padding are counted")
        masked = self.infer(TEXTS, [of_bytes("text", [b"the [MASK]", b"[MASK] lion"])],
                            wanted("token_ids", "tokens", "scores"), parameters={"top_k": 3})
        check(masked.as_numpy("tokens").shape == (2, 3) and masked.as_numpy("token_ids").dtype == np.int64
              and (np.diff(masked.as_numpy("scores"), axis=1) <= 0).all(), "predictions, likeliest first")
        print("texts: raw = contents; left and right padding = alone, bit for bit; masks e.g.",
              masked.as_numpy("tokens")[0].tolist())

    def streams(self, count=300):
        answers = queue.Queue()
        self.client.start_stream(lambda result, error: answers.put((result, error)))
        for i in range(count):
            text = b"" if i % 100 == 50 else b"lion " * (1 + i % 7)
            self.client.async_stream_infer(TEXTS, [of_bytes("text", [text])], request_id=str(i))
        errors = 0
        for i in range(count):
            result, error = answers.get(timeout=60)
            if i % 100 == 50:
                errors += 1
                check(error is not None and "the text is empty" in error.message(), f"request {i} fails alone")
                continue
            check(error is None and result.get_response().id == str(i), f"response {i} is to request {i}")
            self.count(TEXTS, 1)
        self.client.stop_stream()
        print(f"stream: {count} requests in order, {errors} of them bad, which failed alone")
        done = queue.Queue()
        for i in range(20):
            self.client.async_infer(TEXTS, [of_bytes("text", [b"a lion"])],
                                    lambda result, error: done.put((result, error)))
        for _ in range(20):
            result, error = done.get(timeout=60)
            check(error is None, "an asynchronous call is answered")
            self.count(TEXTS, 1)

    def statistics(self):
        for model in (IMAGES, TEXTS):
            stats = self.client.get_inference_statistics(model).model_stats[0]
            sums = stats.inference_stats
            parts = {name: getattr(sums, name).ns for name in ("queue", "compute_input", "compute_infer",
                                                               "compute_output")}
            check(sums.success.count == sums.queue.count == self.requests[model],
                  f"{model}: {self.requests[model]} requests, {sums.success.count} counted")
            check(stats.inference_count == self.inputs[model],
                  f"{model}: {self.inputs[model]} inputs, {stats.inference_count} counted")
            check(sum(parts.values()) <= sums.success.ns, "the stages are no more than the whole")
            check(sum(one.compute_infer.count for one in stats.batch_stats) == stats.execution_count, "batches")
            print(f"{model}: {sums.success.count} requests, {stats.inference_count} inputs, {stats.execution_count} batches;"
                  f" {sums.success.ns / 1e6:.1f} ms:",
                  ", ".join(f"{name} {100 * ns / sums.success.ns:.1f} %" for name, ns in parts.items()))

    def errors(self):
        pixels = np.zeros((1, 3, 28, 28), np.float32)
        call = self.client.infer
        fails_with("NOT_FOUND", "no model of the name 'nope'", lambda: call("nope", [of_bytes("text", [b"a"])]))
        fails_with("NOT_FOUND", "serves version 1",
                   lambda: call(TEXTS, [of_bytes("text", [b"a"])], model_version="7"))
        fails_with("INVALID_ARGUMENT", "takes 'text'", lambda: call(TEXTS, [tensor("pixels", pixels, "FP32")]))
        fails_with("INVALID_ARGUMENT", "want [N, 3, height, width]",
                   lambda: call(IMAGES, [tensor("pixels", pixels.transpose(0, 2, 3, 1).copy(), "FP32")]))
        fails_with("INVALID_ARGUMENT", "the datatype is INT32, want INT64",
                   lambda: call(TEXTS, [tensor("input_ids", np.zeros((1, 2), np.int32), "INT32")]))
        fails_with("INVALID_ARGUMENT", "output 'nope'",
                   lambda: call(IMAGES, [tensor("pixels", pixels, "FP32")], outputs=wanted("nope")))
        fails_with("DEADLINE_EXCEEDED", "Deadline Exceeded",
                   lambda: call(IMAGES, [tensor("pixels", np.zeros((1, 3, 2496, 2496), np.float32), "FP32")],
                                client_timeout=0.001))
        fails_with("UNIMPLEMENTED", "shared memory is not offered", self.client.get_system_shared_memory_status)
        fails_with("UNIMPLEMENTED", "not offered", self.client.get_log_settings)
        print("errors: as documented")

    def repository(self):
        index = {one.name: one.state for one in self.client.get_model_repository_index().models}
        check(index == {IMAGES: "READY", TEXTS: "READY"}, "the index")
        self.client.unload_model(TEXTS)
        check(not self.client.is_model_ready(TEXTS), "an unloaded model is not ready")
        fails_with("NOT_FOUND", "no model", lambda: self.client.infer(TEXTS, [of_bytes("text", [b"a"])]))
        fails_with("NOT_FOUND", "no model", lambda: self.client.load_model("nope"))
        fails_with("INVALID_ARGUMENT", "loaded from its folder", lambda: self.client.load_model(TEXTS, config="{}"))
        self.client.load_model(TEXTS)
        check(self.client.is_model_ready(TEXTS), "a loaded model is ready")
        self.client.infer(TEXTS, [of_bytes("text", [b"a"])])
        versions = {one.name: one.version for one in self.client.get_model_repository_index().models}
        print("repository: unloaded and loaded; versions now", versions)


def main():
    repository = pathlib.Path(sys.argv[1]) / "repository"
    shutil.copytree(ROOT / "models" / "mnist-lion-s", repository / IMAGES)
    shutil.copytree(ROOT / "tests" / "golden" / "text" / "lion_s_mlm", repository / TEXTS)
    with Server(sys.argv[1], "--model-repository", repository, "--allow-model-control", "--compute-type",
                "float32") as server:
        checks = Checks(triton.InferenceServerClient(server.address))
        for step in (checks.server, checks.descriptions, checks.images, checks.pixels, checks.texts, checks.streams,
                     checks.statistics, checks.errors, checks.repository):
            step()
        checks.client.close()
        check(server.stop() == 0, "the server stops")
    print("everything is as expected")


if __name__ == "__main__":
    main()
