"""Bulk runs of both clients against a server in this process: order, bounds, errors, lost streams, cancellation."""

import asyncio
import contextlib
import io
import itertools
import threading
import unittest

import grpc

from lion_client import AsyncClient, BulkOptions, Client, LionError, RetryPolicy
from lion_client.progress import Progress, format_progress
from tests.fake_server import LOOP, FakeServer, abort, answers, embed, embed_stream, environment, error_response

Code = grpc.StatusCode
QUICK = RetryPolicy(first_wait_s=0.001, largest_wait_s=0.001)
SINGLY = BulkOptions(max_texts=1)


def values_of(results):
    return [int(result.vector[0]) for result in results]


class BulkCases:
    """`many` yields the results of embed_many."""

    def setUp(self):
        without = environment()
        without.__enter__()
        self.addCleanup(without.__exit__, None, None, None)

    def results(self, server, inputs, bulk=SINGLY, **options):
        results = []
        for result in self.many(server.address, inputs, bulk=bulk, **options):
            results.append(result)
        return results

    def test_results_come_in_the_order_of_the_inputs_whatever_that_of_the_answers(self):
        def backwards(requests, _):
            numbered = enumerate(requests)
            while batch := list(itertools.islice(numbered, 4)):  # all that the client sends before an answer
                for sequence, request in reversed(batch):
                    response = embed(request)
                    response.sequence = sequence
                    yield response

        with FakeServer(EmbedStream=backwards) as server:
            results = self.results(server, (str(n) for n in range(400)), BulkOptions(max_texts=1, max_requests=4))
        self.assertEqual(values_of(results), list(range(400)))

    def test_inputs_share_requests(self):
        sizes = []

        def count(request):
            sizes.append(len(request.inputs))
            return embed(request)

        with FakeServer(EmbedStream=lambda requests, _: answers(requests, count)) as server:
            results = self.results(server, [str(n) for n in range(200)], BulkOptions())
        self.assertEqual(values_of(results), list(range(200)))
        self.assertEqual(sorted(sizes), [8, 64, 64, 64])

    def test_memory_is_bounded_by_the_bounds_of_the_options(self):
        read, most, seen = itertools.count(), 0, 0

        def endless():
            while True:
                yield str(next(read))

        with FakeServer(EmbedStream=embed_stream) as server:
            bulk = BulkOptions(max_texts=5, max_requests=2)
            for result in self.many(server.address, endless(), bulk=bulk):
                self.assertEqual(int(result.vector[0]), seen)
                seen += 1
                most = max(most, int(repr(read)[6:-1]) - seen)
                if seen == 500:
                    break
        # Groups that are taken and not delivered, that is delivered, the next.
        self.assertLessEqual(most, 5 * (3 * 2 + 2))

    def test_an_input_that_fails_has_the_error_in_its_place(self):
        with FakeServer(EmbedStream=embed_stream) as server:
            results = self.results(server, ["0", "bad", "2", b"", "bad"], BulkOptions(max_texts=2))
        self.assertEqual([result.ok for result in results], [True, False, True, True, False])
        self.assertEqual([(r.error.code, r.error.input_index) for r in results if r.error],
                         [(Code.INVALID_ARGUMENT, 1), (Code.INVALID_ARGUMENT, 4)])

    def test_a_refused_request_is_sent_again_and_the_stream_goes_on(self):
        seen = set()

        def refuse_once(request):
            text = request.inputs[0].text
            if text not in seen and int(text) % 3 == 0:
                seen.add(text)
                return error_response(Code.RESOURCE_EXHAUSTED, "the queue is full")
            return embed(request)

        streams = []

        def stream(requests, _):
            streams.append(1)
            return answers(requests, refuse_once)

        with FakeServer(EmbedStream=stream) as server:
            results = self.results(server, [str(n) for n in range(20)])
        self.assertEqual((values_of(results), len(seen), len(streams)), (list(range(20)), 7, 1))

    def test_what_a_lost_stream_left_unanswered_is_sent_again(self):
        streams = []

        def drain_after_five(requests, context):
            streams.append(1)
            if len(streams) > 3:
                yield from embed_stream(requests)
                return
            yield from embed_stream(itertools.islice(requests, 5))
            abort(context, Code.UNAVAILABLE, "draining")

        with FakeServer(EmbedStream=drain_after_five, Embed=embed) as server:
            results = self.results(server, [str(n) for n in range(60)], retry=QUICK)
        self.assertEqual(values_of(results), list(range(60)))
        self.assertGreater(len(streams), 1)

    def test_a_server_without_streams_gets_calls(self):
        with FakeServer(Embed=embed) as server:
            self.assertEqual(values_of(self.results(server, ["1", "2", "3"])), [1, 2, 3])

    def test_an_error_that_every_input_would_meet_is_raised_after_the_results_before_it(self):
        def stop_at_ten(request):
            if int(request.inputs[0].text) >= 10:
                return error_response(Code.NOT_FOUND, "no model of the name 'm'")
            return embed(request)

        got = []
        with FakeServer(EmbedStream=lambda requests, _: answers(requests, stop_at_ten)) as server:
            with self.assertRaises(LionError) as raised:
                for result in self.many(server.address, (str(n) for n in itertools.count()), bulk=SINGLY):
                    got.append(result)
        self.assertEqual((raised.exception.code, values_of(got)), (Code.NOT_FOUND, list(range(10))))

    def test_a_server_that_says_nothing_is_given_up_after_the_timeout(self):
        cancelled = threading.Event()

        def hang(requests, context):
            context.add_callback(cancelled.set)
            for request in requests:
                self.assertEqual(request.options.timeout_ms, 50)
            yield from ()

        with FakeServer(EmbedStream=hang) as server:
            results = self.results(server, ["1"], BulkOptions(timeout_s=0.05))
        self.assertEqual(results[0].error.code, Code.DEADLINE_EXCEEDED)
        self.assertTrue(cancelled.wait(30))

    def test_leaving_the_loop_cancels_the_stream(self):
        cancelled = threading.Event()

        def answer_one(requests, context):
            context.add_callback(cancelled.set)
            yield from embed_stream(itertools.islice(requests, 1))
            for _ in requests:
                pass

        with FakeServer(EmbedStream=answer_one) as server:
            for result in self.many(server.address, (str(n) for n in itertools.count()), bulk=SINGLY):
                self.assertEqual(int(result.vector[0]), 0)
                break
            self.assertTrue(cancelled.wait(30))

    def test_the_stream_is_ended_in_good_order(self):
        ended = threading.Event()

        def stream(requests, context):
            yield from embed_stream(requests)
            if context.is_active():
                ended.set()  # the requests are over, and not because of a cancellation

        with FakeServer(EmbedStream=stream) as server:
            self.results(server, ["1"])
            self.assertTrue(ended.wait(30))

    def test_an_answer_to_no_request_ends_the_stream(self):
        def stray(requests, _):
            for request in requests:
                response = embed(request)
                response.sequence = 77
                yield response

        with FakeServer(EmbedStream=stray, Embed=embed) as server:
            self.assertEqual(values_of(self.results(server, ["1", "2"])), [1, 2])  # as calls

    def test_errors_of_the_inputs_iterable_are_raised(self):
        def broken():
            yield "1"
            raise KeyError("mine")

        with FakeServer(EmbedStream=embed_stream) as server:
            with self.assertRaisesRegex(KeyError, "mine"):
                self.results(server, broken())
            with self.assertRaises(TypeError):
                self.results(server, ["1", 2])

    def test_options_are_checked_before_anything_is_read(self):
        with FakeServer() as server:
            for options in ({"timeout": 3}, {"partial_results": True}, {"top_k": 3}):
                with self.assertRaises(TypeError):
                    self.results(server, ["1"], **options)
        with self.assertRaises(ValueError):
            BulkOptions(max_requests=0)


class SyncBulkTest(BulkCases, unittest.TestCase):
    def many(self, address, inputs, retry=RetryPolicy(), **options):
        with Client(address, retry=retry) as client:
            with contextlib.closing(client.embed_many(inputs, **options)) as results:
                yield from results


class AsyncBulkTest(BulkCases, unittest.TestCase):
    def many(self, address, inputs, retry=RetryPolicy(), **options):
        async def open_client():
            client = AsyncClient(address, retry=retry)
            return client, client.embed_many(inputs, **options)

        async def close():
            await results.aclose()
            await client.close()

        client, results = LOOP.run_until_complete(open_client())
        try:
            while True:
                try:
                    yield LOOP.run_until_complete(results.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            LOOP.run_until_complete(close())

    def test_asynchronous_inputs(self):
        async def numbers():
            for n in range(100):
                await asyncio.sleep(0)
                yield str(n)

        with FakeServer(EmbedStream=embed_stream) as server:
            self.assertEqual(values_of(self.results(server, numbers())), list(range(100)))


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressTest(unittest.TestCase):
    def test_the_line(self):
        self.assertEqual(format_progress(30, 120, 2, 10.0),
                         "[######..................] 30/120  25 %  3.0 inputs/s  30 s left  2 failed")
        self.assertEqual(format_progress(5000, None, 0, 2.0), "5000  2500 inputs/s")
        self.assertEqual(format_progress(0, 10, 0, 0.0), "[........................] 0/10  0 %")

    def test_it_is_drawn_on_a_terminal_alone_and_taken_away(self):
        for stream, enabled, drawn in ((Terminal(), True, True), (Terminal(), False, False),
                                       (io.StringIO(), True, False)):
            with Progress(enabled, 2, stream) as progress:
                progress._drawn -= 1  # a second ago
                progress.input_done(False)
            self.assertEqual("1 failed" in stream.getvalue(), drawn)
            self.assertTrue(stream.getvalue().endswith("\r\x1b[K" if drawn else ""))


if __name__ == "__main__":
    unittest.main()
