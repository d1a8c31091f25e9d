"""What python_client.sh runs: lion_client, as installed, against real servers."""

import asyncio
import concurrent.futures
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import grpc
import numpy as np
import PIL.Image

from lion_client import AsyncClient, BulkOptions, Client, LionError, Pixels, RetryPolicy, Tls, TokenIds
from server_process import BIN, ROOT, Server, make_model

sys.path.insert(0, str(ROOT / "tools"))
import safetensors_file  # noqa: E402

GOLDENS = ROOT / "tests" / "golden"
DIGITS = sorted((ROOT / "models" / "mnist-lion-s" / "digits").glob("*.png"))
# Of tests/end_to_end/goldens_test.cc and text_goldens_test.cc.
TOLERANCE = {"vision": 2e-5, "text": 2e-5}


def check(condition, *what):
    if not condition:
        raise SystemExit(f"FAILED: {' '.join(map(str, what))}")


def relative_error(got, want):
    want = np.asarray(want, np.float64)
    return np.linalg.norm(np.asarray(got, np.float64) - want) / np.linalg.norm(want)


def each(golden, name):
    return [golden[f"{name}.{n}"] for n in range(len(golden)) if f"{name}.{n}" in golden]


def inputs_of(golden):
    if "image.0" in golden:
        return [Pixels(image) for image in each(golden, "image")]
    return [TokenIds(ids.tolist(), types.tolist())
            for ids, types in zip(each(golden, "input_ids"), each(golden, "token_type_ids"))]


def scores_by_index(result):
    return [score.score for score in sorted(result.scores, key=lambda score: score.index)]


def golden_answers(client, model, golden):
    """Triples: what, the client's answer, the golden."""
    inputs = inputs_of(golden)
    many = client.embed_many(inputs, model=model, pooling="none", bulk=BulkOptions(max_images=2, max_texts=2))
    yield from zip(itertools.repeat("tokens"), [result.rows for result in many], each(golden, "tokens"))
    for pooling in ("mean", "cls", "pooler"):
        if f"{pooling}.0" in golden:
            response = client.embed(inputs, model=model, pooling=pooling, normalize=False)
            yield from zip(itertools.repeat(pooling), response.vectors, each(golden, pooling))
    if "embedding.0" in golden:
        vectors = client.embed(inputs, model=model).vectors
        yield from zip(itertools.repeat("embedding"), vectors, each(golden, "embedding"))
    if "logits.0" in golden:
        results = client.classify(inputs, model=model, raw_scores=True)
        yield from zip(itertools.repeat("logits"), map(scores_by_index, results), each(golden, "logits"))


def goldens(folder):
    for kind, tolerance in TOLERANCE.items():
        cases = sorted(path.parent for path in (GOLDENS / kind).glob("*/expected.safetensors"))
        models = [argument for case in cases for argument in ("--model", f"{case.name}={case}")]
        with Server(folder, "--compute-type", "float32", "--max-input-tokens", 2048, *models) as server:
            with Client(server.address) as client:
                answers, worst = 0, 0.0
                for case in cases:
                    golden = safetensors_file.read(case / "expected.safetensors")
                    for what, got, want in golden_answers(client, case.name, golden):
                        error = relative_error(got, want)
                        check(error <= tolerance, case.name, what, error)
                        answers, worst = answers + 1, max(worst, error)
                check(answers > 3 * len(cases), answers, "answers of", len(cases), "cases")
        print(f"goldens, {kind}: {answers} answers of {len(cases)} models, largest relative error {worst:.1e}")


def pictures(server):
    image = PIL.Image.open(DIGITS[4])
    with Client(server.address) as client:
        check([result.label for result in client.classify(DIGITS, top_k=1)] == list("0123456789"), "digits")
        vectors = client.embed([DIGITS[4], DIGITS[4].read_bytes(), image, image.convert("RGBA"), np.asarray(image),
                                np.asarray(image.convert("RGB"))]).vectors
        check((vectors == vectors[0]).all(), "path, bytes, PIL image and array differ")
        uint8 = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        check((client.embed([Pixels(uint8)]).vectors == vectors[0]).all(), "Pixels differ")
        turned = GOLDENS / "images" / "exif_6.jpg"
        vectors = client.embed([turned, PIL.Image.open(turned)]).vectors
        check((vectors[0] == vectors[1]).all(), "a PIL image is not turned as its file is")
        try:
            client.classify([DIGITS[0], b"no picture"])
            check(False, "no error")
        except LionError as error:
            check((error.code, error.input_index) == (grpc.StatusCode.INVALID_ARGUMENT, 1), repr(error))
    print("pictures: all ten digits; path, bytes, PIL image, array and Pixels give the same to the bit")


def bulk(server):
    count = 3000
    with Client(server.address) as client:
        alone = client.embed(DIGITS).vectors
        began = time.monotonic()
        results = list(client.embed_many(b"bad" if n % 100 == 7 else DIGITS[n % 10] for n in range(count)))
        seconds = time.monotonic() - began
    check([result.ok for result in results] == [n % 100 != 7 for n in range(count)], "which failed")
    check(all(result.error.input_index == n for n, result in enumerate(results) if result.error), "numbers of errors")
    check(all((result.vector == alone[n % 10]).all() for n, result in enumerate(results) if result.ok), "order")

    async def asynchronous():
        async with AsyncClient(server.address) as client:
            together = await asyncio.gather(*(client.embed(DIGITS) for _ in range(20)))
            check(all((response.vectors == alone).all() for response in together), "asynchronous calls")
            many = [result.vector async for result in client.embed_many(DIGITS[n % 10] for n in range(count))]
            check((np.stack(many) == np.tile(alone, (count // 10, 1))).all(), "asynchronous bulk run")

    asyncio.run(asynchronous())
    print(f"bulk: {count} pictures in {seconds:.1f} s, bad ones in their places, answers as of single calls to the bit")


def texts(folder):
    model = make_model(folder / "text", *("--modality text --width 64 --depth 2 --heads 2 --variant s "
                                          "--vocabulary 2000").split())
    text = "the [MASK] sleeps"
    with Server(folder, "--model", model) as server, Client(server.address) as client:
        lion = [BIN / "lion", "--server", server.address]
        command = [lion[0], "fill-mask", *lion[1:], "--text", text, "--top-k", "3", "--json"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        (result,) = client.fill_mask([text], top_k=3)
        for prediction in result.masks[0].predictions:
            check(f'"{prediction.token}"' in printed, prediction, "is not in", printed)
        tokens = client.tokenize([text, ("a", "b")])
        ids = TokenIds(tokens[0].ids.tolist())
        check((client.embed([text, ids]).vectors == client.embed([ids, text]).vectors).all(), "token ids")
        check([piece.type_id for piece in tokens[1].pieces] == [0, 0, 0, 1, 1], tokens[1].pieces)
        check(client.get_model().tasks == ("embed", "fill-mask"), client.get_model())
    print("texts: masks as the command line fills them, tokens, pairs")


def overload(folder):
    """More at once than the queue holds: refused, told when to come again, and served."""
    calls, errors = 400, []
    with Server(folder, "--model", "models/mnist-lion-s", "--max-batch-tokens", 340, "--max-queue-tokens",
                600) as server:
        def call(client):
            try:
                return client.embed(DIGITS * 2).vectors
            except LionError as error:
                errors.append(error)
                return None

        impatient = RetryPolicy(busy_attempts=1)
        with Client(server.address, retry=impatient) as client, concurrent.futures.ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda _: call(client), range(calls)))
            refused = len(errors)
        check(refused and all(error.pushback_s and error.pushback_s > 0 for error in errors), "refused:", errors[:1])
        errors.clear()
        patient = RetryPolicy(busy_attempts=1000)
        with Client(server.address, retry=patient) as client, concurrent.futures.ThreadPoolExecutor(32) as pool:
            vectors = list(pool.map(lambda _: call(client), range(calls)))
            check(not errors and all((v == vectors[0]).all() for v in vectors), errors[:1])
        with Client(server.address) as client:
            results = list(client.embed_many(DIGITS * 200, bulk=BulkOptions(max_images=4, max_requests=32)))
            check(all(result.ok for result in results), "a full queue failed a bulk run")
    print(f"full queue: of {calls} calls from 32 threads {refused} were refused with a pushback, none with retries")


def restart(folder):
    """The server goes and comes back in the middle of bulk runs, at the same Unix socket."""
    address = f"unix:{folder}/socket"
    arguments = ("--model", "models/mnist-lion-s", "--unix-socket", folder / "socket")
    count = 4000
    server = Server(folder, *arguments)
    done = []

    def run(client):
        for n, result in enumerate(client.embed_many((DIGITS[n % 10] for n in range(count)), bulk=one)):
            done.append(result.ok and (result.vector == alone[n % 10]).all())

    one = BulkOptions(max_images=1)
    with Client(address, retry=RetryPolicy(unavailable_attempts=200)) as client:
        alone = client.embed(DIGITS).vectors
        thread = threading.Thread(target=run, args=(client,))
        thread.start()
        while len(done) < count // 4:
            time.sleep(0.005)
        check(server.stop() == 0, "the server's exit code")
        before = len(done)
        server = Server(folder, *arguments)
        thread.join()
    server.stop()
    check(before < count, "the run was over before the server went")
    check(len(done) == count and all(done), len(done), "results,", sum(done), "right")
    print(f"restart: {count} results, all right; {before} had come when the server went")


def deadlines(folder):
    model = make_model(folder / "slow", "--size", "base", "--variant", "s")
    with Server(folder, "--model", model) as server, Client(server.address) as client:
        noise = np.random.default_rng(1).integers(0, 256, (3, 1024, 1024)).astype(np.uint8)
        began = time.monotonic()
        try:
            client.embed([Pixels(noise)] * 4, timeout=0.2)
            check(False, "no error")
        except LionError as error:
            check(error.code is grpc.StatusCode.DEADLINE_EXCEEDED, repr(error))
        check(time.monotonic() - began < 5, "the deadline came late")
        (result,) = client.embed_many([Pixels(noise)], bulk=BulkOptions(timeout_s=0.05))
        check(result.error and result.error.code is grpc.StatusCode.DEADLINE_EXCEEDED, result)
    print("deadlines: of a call and of a bulk run")


def security(folder):
    certificate, key, tokens = (str(folder / name) for name in ("cert.pem", "key.pem", "tokens"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "1", "-subj", "/CN=lion", "-addext", "subjectAltName=IP:127.0.0.1"], check=True,
                   stderr=subprocess.DEVNULL)
    pathlib.Path(tokens).write_text("a-token\n")
    os.environ["LION_TLS_CA"] = certificate  # of `lion health`, and of a client without tls
    with Server(folder, "--model", "models/mnist-lion-s", "--tls-cert", certificate, "--tls-key", key, "--token-file",
                tokens) as server:
        for arguments in ({"token_file": tokens}, {"token": "a-token", "tls": Tls(certificate)}):
            with Client(server.address, **arguments) as client:
                check(len(list(client.classify_many(DIGITS))) == 10, "TLS and a token")
        for arguments, code in (({}, grpc.StatusCode.UNAUTHENTICATED),
                                ({"token": "a-token", "tls": False}, grpc.StatusCode.UNAVAILABLE)):
            with Client(server.address, **arguments) as client:
                try:
                    client.classify(DIGITS)
                    check(False, "let in")
                except LionError as error:
                    check(error.code is code, repr(error))
    del os.environ["LION_TLS_CA"]
    print("security: TLS and tokens, and neither of them missing")


def main():
    for name in [name for name in os.environ if name.startswith("LION_")]:
        del os.environ[name]
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        goldens(folder)
        with Server(folder, "--model", "models/mnist-lion-s") as server:
            pictures(server)
            bulk(server)
        for step in (texts, overload, restart, deadlines, security):
            step(folder)


if __name__ == "__main__":
    main()
