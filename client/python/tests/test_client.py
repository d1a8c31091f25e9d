"""Calls of both clients against a server in this process: results, errors, retries, deadlines, credentials."""

import asyncio
import inspect
import math
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

import grpc
import numpy as np

from lion_client import NO_RETRIES, AsyncClient, Client, ImageOptions, LionError, RetryPolicy, Tls
from lion_client import lion_pb2 as pb
from tests.fake_server import LOOP, FakeServer, abort, embed, environment

Code = grpc.StatusCode
QUICK = RetryPolicy(first_wait_s=0.001, largest_wait_s=0.001)


class ClientCases:
    """`use` gives a client that was made with these arguments to a function, which may be a coroutine's."""

    def setUp(self):
        without = environment()
        without.__enter__()
        self.addCleanup(without.__exit__, None, None, None)

    def call(self, server, name, *arguments, client=None, **options):
        return self.use({"address": server.address, **(client or {})},
                        lambda client: getattr(client, name)(*arguments, **options))

    def fails(self, *arguments, **options):
        with self.assertRaises(LionError) as raised:
            self.call(*arguments, **options)
        return raised.exception

    def test_embed(self):
        with FakeServer(Embed=embed) as server:
            response = self.call(server, "embed", ["1", "xx2", "bad"], partial_results=True)
            vectors = self.call(server, "embed", ["4", "5"]).vectors
        self.assertEqual((len(response), response.model, response.model_version), (3, "fake", "3"))
        self.assertEqual((response.timing.total_ns, response.timing.batch_inputs), (7, 2))
        np.testing.assert_array_equal(response[1].vector, np.array([2, 3], np.float32))
        self.assertEqual([result.tokens for result in response], [1, 3, 0])
        self.assertEqual((response[2].error.code, response[2].error.input_index), (Code.INVALID_ARGUMENT, 2))
        with self.assertRaises(LionError):
            response[2].vector
        self.assertEqual((vectors.dtype, vectors.shape), (np.float32, (2, 2)))

    def test_packed_embeddings_of_all_tokens(self):
        rows = np.arange(6, dtype="<f4").reshape(3, 2)

        def embed_tokens(request, _):
            self.assertTrue(request.packed_bytes and request.pooling == pb.POOLING_NONE)
            data = pb.Embedding(rows=3, dimensions=2, data=rows.tobytes())
            return pb.EmbedResponse(results=[pb.EmbedResult(embedding=data, tokens=3)])

        with FakeServer(Embed=embed_tokens) as server:
            (result,) = self.call(server, "embed", ["a"], pooling="none")
        np.testing.assert_array_equal(result.rows, rows)
        with self.assertRaisesRegex(ValueError, "3 vectors"):
            result.vector

    def test_classify_fill_mask_and_tokenize(self):
        def classify(request, _):
            self.assertEqual((request.model, request.top_k, request.raw_scores), ("m", 2, True))
            self.assertEqual((request.options.truncation, request.options.priority), (pb.TRUNCATION_END, 3))
            self.assertEqual(request.options.image, pb.ImageOptions(
                resize=pb.ImageOptions.RESIZE_LONG_SIDE, size=96, apply_exif_orientation=False))
            scores = [pb.ClassScore(index=4, label="cat", score=2.5), pb.ClassScore(index=1, label="dog", score=-1)]
            return pb.ClassifyResponse(results=[pb.ClassifyResult(
                classification=pb.Classification(scores=scores), tokens=9, truncated=True)])

        def fill_mask(request, _):
            mask = pb.MaskPrediction(position=2, predictions=[pb.TokenPrediction(id=5, token="cat", probability=0.5)])
            return pb.FillMaskResponse(results=[pb.FillMaskResult(filled=pb.FilledMasks(masks=[mask]))])

        def tokenize(request, _):
            token = pb.TokenizedInput.Token(id=7, text="a", start_byte=1, end_byte=2, type_id=1)
            return pb.TokenizeResponse(results=[pb.TokenizedInput(tokens=[token])])

        image = ImageOptions("long_side", 96, apply_exif_orientation=False)
        with FakeServer(Classify=classify, FillMask=fill_mask, Tokenize=tokenize) as server:
            (classified,) = self.call(server, "classify", ["a"], model="m", top_k=2, raw_scores=True, truncation="end",
                                      priority=3, image=image)
            (filled,) = self.call(server, "fill_mask", ["[MASK]"])
            (tokenized,) = self.call(server, "tokenize", ["a"])
        self.assertEqual((classified.label, classified.score, classified.truncated), ("cat", 2.5, True))
        self.assertEqual([score.index for score in classified.scores], [4, 1])
        self.assertEqual((filled.masks[0].position, filled.masks[0].predictions[0].token), (2, "cat"))
        self.assertEqual(([*tokenized.ids], tokenized.pieces[0].start_byte, tokenized.tokens), ([7], 1, 1))

    def test_models(self):
        model = pb.Model(name="m", modality=pb.Model.MODALITY_TEXT, labels=["a", "b"], pooling=pb.POOLING_MEAN,
                         image_mean=[0.5], image=pb.ImageOptions(resize=pb.ImageOptions.RESIZE_STRETCH, size=28))
        with FakeServer(ListModels=lambda *_: pb.ListModelsResponse(models=[model, model]),
                        GetModel=lambda request, _: pb.Model(name=request.model)) as server:
            models = self.call(server, "list_models")
            self.assertEqual(self.call(server, "get_model", "x").name, "x")
        self.assertEqual(len(models), 2)
        self.assertEqual((models[0].modality, models[0].labels, models[0].pooling), ("text", ("a", "b"), "mean"))
        self.assertEqual(models[0].image, ImageOptions("stretch", 28))

    def test_an_error_carries_code_message_and_input(self):
        def refuse(_, context):
            abort(context, Code.INVALID_ARGUMENT, "input 3: is empty")

        with FakeServer(Embed=refuse) as server:
            error = self.fails(server, "embed", ["a"])
            self.assertEqual((error.code, error.message, error.input_index, error.pushback_s),
                             (Code.INVALID_ARGUMENT, "input 3: is empty", 3, None))
            self.assertEqual(self.fails(server, "classify", ["a"]).code, Code.UNIMPLEMENTED)

    def test_an_answer_with_too_few_results_is_an_error(self):
        with FakeServer(Embed=lambda *_: pb.EmbedResponse()) as server:
            error = self.fails(server, "embed", ["a"])
        self.assertEqual((error.code, error.message), (Code.INTERNAL, "the server sent 0 results for 1 inputs"))

    def test_a_pushback_is_waited_out(self):
        times = []

        def busy_twice(request, context):
            times.append(time.monotonic())
            if len(times) < 3:
                abort(context, Code.RESOURCE_EXHAUSTED, "full", pushback_ms=150)
            return embed(request)

        with FakeServer(Embed=busy_twice) as server:
            self.assertEqual(len(self.call(server, "embed", ["1"], client={"retry": QUICK})), 1)
        self.assertEqual(len(times), 3)
        self.assertGreaterEqual(min(times[1] - times[0], times[2] - times[1]), 0.15)

    def test_what_may_not_be_tried_again_is_not(self):
        calls = []
        for code, pushback_ms in ((Code.RESOURCE_EXHAUSTED, None), (Code.RESOURCE_EXHAUSTED, -1), (Code.INTERNAL, None),
                                  (Code.UNAVAILABLE, "later"), (Code.CANCELLED, 5)):
            def fail(_, context):
                calls.append(code)  # noqa: B023
                abort(context, code, "no", pushback_ms)  # noqa: B023

            with FakeServer(Embed=fail) as server:
                self.assertEqual(self.fails(server, "embed", ["1"], client={"retry": QUICK}).code, code)
        self.assertEqual(len(calls), 5)

    def test_a_pushback_beyond_the_deadline_is_not_waited_for(self):
        with FakeServer(Embed=lambda _, context: abort(context, Code.RESOURCE_EXHAUSTED, "full", 60_000)) as server:
            began = time.monotonic()
            error = self.fails(server, "embed", ["1"], timeout=5)
        self.assertEqual((error.code, error.pushback_s), (Code.RESOURCE_EXHAUSTED, 60.0))
        self.assertLess(time.monotonic() - began, 5)

    def test_deadlines(self):
        release = threading.Event()

        def hang(request, context):
            remaining.append(context.time_remaining())
            release.wait(30)
            return embed(request)

        remaining = []
        with FakeServer(Embed=hang) as server:
            self.addCleanup(release.set)
            self.assertEqual(self.fails(server, "embed", ["1"], timeout=0.2).code, Code.DEADLINE_EXCEEDED)
            self.assertEqual(self.fails(server, "embed", ["1"], client={"timeout": 0.2}).code, Code.DEADLINE_EXCEEDED)
            release.set()
            self.call(server, "embed", ["1"], timeout=math.inf)
            self.call(server, "embed", ["1"], timeout=100)
        self.assertTrue(remaining[2] is None or remaining[2] > 1e6, remaining)
        self.assertTrue(60 < remaining[3] < 110, remaining)  # gRPC rounds up

    def test_a_server_that_comes_back_is_found_by_the_retries(self):
        with FakeServer(Embed=embed) as server:
            address = server.address

        def come_back():
            servers.append(FakeServer(address, Embed=embed))

        servers = []
        timer = threading.Timer(0.4, come_back)
        timer.start()
        self.addCleanup(lambda: (timer.join(), servers[0].__exit__()))
        policy = RetryPolicy(unavailable_attempts=40)
        response = self.use({"address": address, "retry": policy}, lambda client: client.embed(["1"], timeout=30))
        self.assertEqual(len(response), 1)

    def test_no_server_is_unavailable(self):
        with FakeServer() as server:
            pass
        self.assertEqual(self.fails(server, "embed", ["1"], client={"retry": NO_RETRIES}).code, Code.UNAVAILABLE)

    def test_tokens(self):
        with tempfile.TemporaryDirectory() as folder, FakeServer(Embed=embed) as server:
            path = pathlib.Path(folder, "token")
            path.write_text("# mine\n\n  first \nsecond\n")
            for arguments, variables, expected in (
                    ({}, {}, None), ({"token": "abc"}, {"LION_TOKEN": "x"}, "Bearer abc"),
                    ({}, {"LION_TOKEN": "x"}, "Bearer x"), ({"token_file": path}, {"LION_TOKEN": "x"}, "Bearer first"),
                    ({}, {"LION_TOKEN": "x", "LION_TOKEN_FILE": str(path)}, "Bearer first")):
                with environment(**variables):
                    self.call(server, "embed", ["1"], client=arguments)
                self.assertEqual(server.metadata.get("authorization"), expected)
            path.write_text("a b\n")
            for arguments in ({"token": "a\n"}, {"token": "a", "token_file": path}, {"token_file": path}):
                with self.assertRaises(ValueError):
                    self.call(server, "embed", ["1"], client=arguments)

    def test_the_address_of_the_environment_and_unix_sockets(self):
        with tempfile.TemporaryDirectory() as folder:
            address = f"unix:{folder}/s"
            with FakeServer(address, Embed=embed), environment(LION_SERVER=address):
                self.assertEqual(len(self.use({}, lambda client: client.embed(["1"]))), 1)

    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = os.path.join(folder, "c.pem"), os.path.join(folder, "k.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
                            certificate, "-days", "1", "-subj", "/CN=lion", "-addext", "subjectAltName=DNS:lion.test"],
                           check=True, stderr=subprocess.DEVNULL)
            pem = [pathlib.Path(path).read_bytes() for path in (key, certificate)]
            credentials = grpc.ssl_server_credentials([tuple(pem)], pem[1], require_client_auth=True)
            with FakeServer(credentials=credentials, Embed=embed) as server:
                mine = Tls(certificate, certificate, key, server_name="lion.test")
                self.assertEqual(len(self.call(server, "embed", ["1"], client={"tls": mine, "token": "t"})), 1)
                self.assertEqual(server.metadata["authorization"], "Bearer t")
                for other in (Tls(certificate, certificate, key), Tls(certificate, server_name="lion.test"), True,
                              None):
                    error = self.fails(server, "embed", ["1"], client={"tls": other, "retry": NO_RETRIES})
                    self.assertEqual(error.code, Code.UNAVAILABLE)
            for tls in (Tls(key_file=key), Tls(certificate_file=certificate),
                        Tls(certificate_file=certificate, key_file=certificate)):
                with self.assertRaisesRegex(ValueError, "expected"):
                    self.use({"tls": tls}, lambda client: None)

    def test_options_that_there_are_not_are_refused(self):
        with FakeServer(Embed=embed) as server:
            for options in ({"poling": "mean"}, {"top_k": 3}):
                with self.assertRaises(TypeError):
                    self.call(server, "embed", ["1"], **options)
            with self.assertRaisesRegex(ValueError, "pooling is 'average'; expected one of .*'mean'"):
                self.call(server, "embed", ["1"], pooling="average")
            for arguments in ({"timeout": 0}, {"address": ""}, {"max_message_bytes": 2**31}):
                with self.assertRaisesRegex(ValueError, "expected"):
                    self.call(server, "embed", ["1"], client=arguments)


class SyncClientTest(ClientCases, unittest.TestCase):
    def use(self, arguments, function):
        with Client(**arguments) as client:
            return function(client)

    def test_a_token_file_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder, FakeServer(Embed=embed) as server:
            path = pathlib.Path(folder, "token")
            path.write_text("old")
            with Client(server.address, token_file=path) as client:
                end = time.monotonic() + 20
                for content, expected in (("new", "Bearer new"), ("# none", "Bearer new")):
                    path.write_text(content)
                    while True:
                        client.embed(["1"])
                        if server.metadata["authorization"] == expected:
                            break
                        self.assertLess(time.monotonic(), end)
                        time.sleep(0.05)


class AsyncClientTest(ClientCases, unittest.TestCase):
    def use(self, arguments, function):
        async def main():
            async with AsyncClient(**arguments) as client:
                result = function(client)
                return await result if inspect.isawaitable(result) else result

        return LOOP.run_until_complete(main())

    def test_cancelling_a_task_cancels_its_call(self):
        arrived, cancelled = threading.Event(), threading.Event()

        def hang(request, context):
            context.add_callback(cancelled.set)
            arrived.set()
            cancelled.wait(30)
            return embed(request)

        async def main(address):
            async with AsyncClient(address) as client:
                task = asyncio.ensure_future(client.embed(["1"]))
                await asyncio.to_thread(arrived.wait, 30)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                return await asyncio.to_thread(cancelled.wait, 30)

        with FakeServer(Embed=hang) as server:
            self.assertTrue(LOOP.run_until_complete(main(server.address)))


if __name__ == "__main__":
    unittest.main()
