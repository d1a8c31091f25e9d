"""Which errors are tried again, when, and within which bounds: without a server and without waiting."""

import unittest

import grpc

from lion_client import LionError, RetryPolicy, tasks
from lion_client.errors import StreamEnded
from lion_client.retry import RetryBudget
from lion_client.steps import Exchange, GroupCall, Patience, Pause, Streamed, Unary, Work, run
from tests.fake_server import embed

Code = grpc.StatusCode
UNAVAILABLE = LionError(Code.UNAVAILABLE, "gone")


def busy(pushback_s):
    return LionError(Code.RESOURCE_EXHAUSTED, "full", None, pushback_s)


class RetryPolicyTest(unittest.TestCase):
    def test_waits_double_up_to_the_largest_and_are_shortened_by_up_to_half(self):
        policy = RetryPolicy(unavailable_attempts=9)
        self.assertEqual([policy.next_wait(UNAVAILABLE, n, 0.0) for n in range(1, 10)],
                         [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, None])
        self.assertEqual(policy.next_wait(UNAVAILABLE, 3, 1.0), 0.2)

    def test_a_pushback_is_waited_out_in_full_and_a_negative_one_obeyed(self):
        policy = RetryPolicy()
        self.assertEqual(policy.next_wait(busy(7.5), 1, 0.9), 7.5)
        self.assertEqual(policy.next_wait(busy(0.0), 1, 0.0), 0.1)
        self.assertIsNone(policy.next_wait(busy(-1.0), 1, 0.0))
        self.assertIsNone(policy.next_wait(LionError(Code.UNAVAILABLE, "", None, -1.0), 1, 0.0))
        self.assertEqual([policy.next_wait(busy(0.0), n, 0.0) is None for n in (11, 12)], [False, True])

    def test_nothing_else_is_tried_again(self):
        for code in Code:
            if code is not Code.UNAVAILABLE:
                self.assertIsNone(RetryPolicy().next_wait(LionError(code, ""), 1, 0.0), code)


class PatienceTest(unittest.TestCase):
    def call(self, outcomes, policy=RetryPolicy(), budget=None, seconds_left=float("inf")):
        """The result, or the error, and the pauses made."""
        outcomes, pauses = iter(outcomes), []

        def perform(effect):
            if isinstance(effect, Pause):
                return pauses.append(effect.seconds)
            outcome = next(outcomes)
            if isinstance(outcome, LionError):
                raise outcome
            return outcome

        def once():
            return (yield Unary(tasks.LIST_MODELS, None))

        patience = Patience(policy, budget or RetryBudget(policy.budget))
        try:
            return run(patience.call(once, lambda: seconds_left), perform), pauses
        except LionError as error:
            return error, pauses

    def test_is_tried_until_it_succeeds_or_the_attempts_are_used_up(self):
        result, pauses = self.call([UNAVAILABLE, busy(2.0), "answer"])
        self.assertEqual((result, len(pauses)), ("answer", 2))
        self.assertTrue(0.05 < pauses[0] <= 0.1 and pauses[1] == 2.0, pauses)
        result, pauses = self.call([UNAVAILABLE] * 5)
        self.assertEqual((result, len(pauses)), (UNAVAILABLE, 4))

    def test_no_pause_outlasts_the_deadline(self):
        result, pauses = self.call([busy(3.0), "too late"], seconds_left=3.0)
        self.assertEqual((result.message, pauses), ("full", []))

    def test_all_calls_share_one_budget_which_successes_refill(self):
        policy = RetryPolicy(unavailable_attempts=100, budget=3)
        budget = RetryBudget(policy.budget)
        self.assertEqual(len(self.call([UNAVAILABLE] * 100, policy, budget)[1]), 3)
        self.assertEqual(len(self.call([UNAVAILABLE] * 100, policy, budget)[1]), 0)
        for _ in range(11):
            self.call(["answer"], policy, budget)
        self.assertEqual(len(self.call([UNAVAILABLE] * 100, policy, budget)[1]), 1)

    def test_the_budget_is_not_for_what_the_server_paces(self):
        policy = RetryPolicy(busy_attempts=6, budget=0)
        self.assertEqual(len(self.call([busy(0.0)] * 6, policy)[1]), 5)


class GroupCallTest(unittest.TestCase):
    """`script`: what meets each request in turn, an error or None, by its kind ("stream" or "call") and size."""

    def send(self, values, meet, max_stream_bytes=1 << 20, exchange=None):
        self.sent = []

        def perform(effect):
            if isinstance(effect, Work):
                return effect.function()
            self.assertIsInstance(effect, (Streamed, Unary))
            kind = "stream" if isinstance(effect, Streamed) else "call"
            self.sent.append((kind, len(effect.request.inputs)))
            error = meet(kind, effect.request)
            if error:
                raise error
            return embed(effect.request)

        policy = RetryPolicy(unavailable_attempts=1)
        prototype = tasks.EMBED.make_request(partial_results=True)
        exchange = exchange or Exchange(tasks.EMBED, max_stream_bytes)
        group = GroupCall(tasks.EMBED, prototype, Patience(policy, RetryBudget(0)), exchange)
        return run(group(100, values), perform)

    def test_errors_are_those_of_single_inputs_with_their_number(self):
        results = self.send(["1", "bad", "3"], lambda *_: None)
        self.assertEqual([result.ok for result in results], [True, False, True])
        self.assertEqual((results[1].error.code, results[1].error.input_index), (Code.INVALID_ARGUMENT, 101))
        self.assertEqual([*results[2].vector], [3.0, 1.0])

    def test_a_request_refused_as_a_whole_is_sent_again_in_halves(self):
        def meet(_, request):
            bad = any(value.text == "4" for value in request.inputs)
            return LionError(Code.INVALID_ARGUMENT, "input 0: no") if bad else None

        results = self.send([str(n) for n in range(8)], meet)
        self.assertEqual([n for n, result in enumerate(results) if not result.ok], [4])
        self.assertEqual(results[4].error.input_index, 104)
        self.assertEqual([size for _, size in self.sent], [8, 4, 4, 2, 1, 1, 2])

    def test_a_message_over_the_byte_limit_is_sent_again_as_calls_and_in_halves(self):
        def meet(kind, request):
            if len(request.inputs) <= 2:
                return None
            return (StreamEnded if kind == "stream" else LionError)(Code.RESOURCE_EXHAUSTED, "larger than max")

        exchange = Exchange(tasks.EMBED, 1 << 20)
        results = self.send([str(n) for n in range(8)], meet, exchange=exchange)
        self.assertTrue(all(result.ok for result in results))
        self.assertEqual([kind for kind, _ in self.sent], ["stream"] + ["call"] * 7)  # larger than half of what failed
        self.send(["1"], meet, exchange=exchange)
        self.assertEqual(self.sent, [("stream", 1)])

    def test_streams_are_given_up_where_there_are_none(self):
        exchange = Exchange(tasks.EMBED, 1 << 20)
        no_streams = lambda kind, _: StreamEnded(Code.UNIMPLEMENTED, "") if kind == "stream" else None  # noqa: E731
        for _ in range(2):
            self.assertTrue(self.send(["1"], no_streams, exchange=exchange)[0].ok)
        self.assertEqual(self.sent, [("call", 1)])

    def test_a_stream_that_another_requests_timeout_ended_is_no_reason_to_give_streams_up(self):
        exchange = Exchange(tasks.EMBED, 1 << 20)
        self.send(["1"], lambda kind, _: StreamEnded(Code.CANCELLED, "") if kind == "stream" else None,
                  exchange=exchange)
        self.send(["1"], lambda *_: None, exchange=exchange)
        self.assertEqual(self.sent, [("stream", 1)])

    def test_large_requests_go_beside_the_stream(self):
        self.send(["1" * 50], lambda *_: None, max_stream_bytes=40)
        self.assertEqual(self.sent, [("call", 1)])

    def test_what_every_call_would_meet_is_raised(self):
        for code in (Code.NOT_FOUND, Code.UNAUTHENTICATED, Code.FAILED_PRECONDITION, Code.UNAVAILABLE):
            with self.assertRaises(LionError) as raised:
                self.send(["1", "2"], lambda *_: LionError(code, "no"))  # noqa: B023
            self.assertEqual(raised.exception.code, code)
        results = self.send(["1", "2"], lambda *_: LionError(Code.INTERNAL, "no"))
        self.assertEqual([result.error.code for result in results], [Code.INTERNAL] * 2)


if __name__ == "__main__":
    unittest.main()
