"""One replica at work: requests wait, are admitted, decode together, and leave.

Time goes from event to event: between two of them all sequences have as many more tokens, which are counted at once.
After vLLM's scheduler (`v1/core/sched/scheduler.py` of 0.33): sequences first, then prompts while slots, blocks and the
tokens of a step allow; where a block is missing, the request that was admitted last is taken off, gives back all of its
blocks, and waits at the head of the queue for its prompt and what it has generated to be computed again.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil

from kvcalc.serving.pool import Pool
from kvcalc.serving.records import Active, Gauges, Times
from kvcalc.serving.rules import Scheduler
from kvcalc.serving.steps import StepClock
from kvcalc.serving.tiers import Tiers
from kvcalc.traffic.trace import Trace

__all__ = ["Replica"]

_NEVER = float("inf")


class Replica:
    """The state of one replica, advanced from arrival to arrival."""

    def __init__(self, trace: Trace, rules: Scheduler, clock: StepClock, times: Times, gauges: Gauges) -> None:
        self._trace, self._rules, self._clock, self._times, self._gauges = trace, rules, clock, times, gauges
        prefixes = trace.prefixes if rules.caching else None
        self._blocks = None if prefixes is None else prefixes.blocks
        self._unit = 0 if prefixes is None else prefixes.tokens
        self._answered = None if prefixes is None else prefixes.answered
        self.ended: list[int] = []  # requests that are answered or refused, where turns follow on them
        self.pool = Pool(rules.blocks, max(1, ceil(self._unit / rules.block)))
        self.now, self.busy = 0.0, 0.0  # seconds, and those of them in steps
        self.waiting: deque[tuple[int, int]] = deque()  # requests, each with the tokens that it has generated
        self._active: list[Active] = []  # in the order of admission
        self._ends: list[tuple[int, int, Active]] = []
        self._prefilling: deque[tuple[Active, int, int]] = deque()  # with tokens that are computed and generated before
        self._phases = [0] * rules.block
        self._step, self._count, self._attending, self._serial = 0, 0, 0.0, 0
        self.tokens = 0  # of all requests that are active
        self.refused = 0
        self.tiers = Tiers(rules.tiers)
        self._loading = 0.0  # seconds that the next step waits for blocks of tiers
        self._short = False  # a request was taken off, so that this step admits none
        self._more, self._latest = 0, _NEVER  # arrival that is in the next step, where one is scheduled already

    @property
    def load(self) -> int:
        """Requests that are here."""
        return self._count + len(self._prefilling) + len(self.waiting)

    @property
    def soonest(self) -> float:
        """Before then nothing ends here, whatever arrives."""
        if self._prefilling or self.waiting or not self._count:
            return self.now
        return self.now + (self._ends[0][0] - self._step) * (self._clock.passing(self._count) + self._attending)

    def push(self, index: int) -> None:
        """A request arrives."""
        if not self.load:
            self.now = max(self.now, self._times.arrived[index])
        self.waiting.append((index, 0))

    def advance(self, until: float = _NEVER, *, coming: bool = False) -> None:
        """Work until the clock has passed a time, at which somebody is `coming` for sure, or nothing is left to do."""
        self._more = int(coming and self._rules.limits.ahead)  # the step in which who comes cannot be yet
        while self.now < until and self.load:
            self.turn(until)

    def turn(self, until: float) -> None:
        """One step, or as many alike as last until something happens."""
        if not self._room_for(1):  # sequences come before prompts
            return
        if self.waiting and not (self._short and self._active):
            self._admit()
        if self._prefilling:
            self._mixed()
        elif self._count:
            self._decode(until)
        else:
            self._idle()

    def _idle(self) -> None:
        """Nothing is in the batch: what is at the head fits into no pool."""
        index, _ = self.waiting.popleft()
        if self._trace.turns is not None:
            self.ended.append(index)
        self.refused += 1

    def _admit(self) -> None:
        """Requests from the head of the queue, as long as slots, blocks and tokens of this step last."""
        rules, pool = self._rules, self.pool
        latest = self._latest if self._count or self._prefilling else _NEVER
        if not self.waiting or self._times.arrived[self.waiting[0][0]] > latest:
            return
        budget = rules.limits.tokens - self._count - sum(one.prompt - done for one, done, _ in self._prefilling)
        free = rules.blocks - (0 if rules.limits.whole else self._phases[(self._step + 1) % rules.block])
        while self.waiting and budget > 0 and self._count + len(self._prefilling) < rules.limits.sequences:
            index, generated = self.waiting[0]
            if self._times.arrived[index] > latest:
                break
            prompt = self._trace.prompts[index] + generated
            ids = self._ids(index)
            length = prompt + self._trace.outputs[index] - generated - 1 if rules.limits.whole else prompt
            own = -(-(length - self._unit * len(ids)) // rules.block)
            if pool.used + pool.missing(ids, own) > free:
                break
            self.waiting.popleft()
            found = self._found(ids, prompt, generated)
            pool.take(ids, own)
            one = Active(index, prompt, ids, own)
            self._active.append(one)
            self._join(one, found, generated)
            if self._times.begun[index] != self._times.begun[index]:  # NaN: the first time
                self._times.begun[index], self._times.found[index] = self.now, found
            self.tokens += found
            budget -= prompt - found

    def _join(self, one: Active, found: int, generated: int) -> None:
        """A request that was admitted waits for the steps that compute its prompt."""
        self._prefilling.append((one, found, generated))

    def _found(self, ids: Sequence[int], prompt: int, generated: int) -> int:  # noqa: ARG002 - decode pools ask
        """Tokens of a prompt that are not computed: in the pool, or loaded where that is quicker; never the last."""
        most, run = (prompt - 1) // self._rules.block * self._rules.block, self.pool.leading(ids)
        found = min(self._unit * run, most)
        if not self._rules.tiers or not ids:
            return found
        slower = 0
        for depth in range(len(self._rules.tiers), 0, -1):  # as far down as loads are quicker
            more = self.tiers.after(ids[run:], depth)
            count = sum(more.blocks)
            both = min(self._unit * (run + count), most)
            slower = max(slower, count)
            if both > found and more.seconds < self._clock.computing(both, found):
                self.tiers.load(more)
                self._loading, found, slower = self._loading + more.seconds, both, slower - count
                break
        self.tiers.slower += slower
        self.tiers.touch(ids)
        return found

    def _ids(self, index: int) -> Sequence[int]:
        """The whole blocks of a prompt."""
        return () if self._blocks is None else self._blocks[index][: self._trace.prompts[index] // self._unit]

    def _mixed(self) -> None:
        """One step with pieces of prompts in it."""
        budget, taken, seconds = self._rules.limits.tokens - self._count, 0, self._attending
        seconds, self._loading = seconds + self._loading, 0.0
        ready = []
        while self._prefilling and budget > 0:
            one, done, generated = self._prefilling[0]
            piece = min(one.prompt - done, budget)
            if not self._rules.limits.chunked and piece < one.prompt - done and taken:
                break
            seconds += self._clock.prompt(done + piece, done)
            taken, budget, done = taken + piece, budget - piece, done + piece
            if done < one.prompt:
                self._prefilling[0] = one, done, generated
            else:
                self._prefilling.popleft()
                ready.append((one, generated))
        self._pass(1, self._clock.passing(self._count + taken) + seconds, taken)
        for one, generated in ready:
            self._begin(one, generated)
        self._finish()

    def _begin(self, one: Active, generated: int) -> None:
        """A prompt is computed, and its next token is there."""
        times, index = self._times, one.index
        if not generated:
            times.first[index] = self.now
        left = self._trace.outputs[index] - generated - 1
        if left <= 0:
            self._leave(one, cached=one.prompt)
            self._end(index)
            return
        one.begun, one.until = self._step, self._step + left
        one.phase = (self._step + 1 - one.prompt) % self._rules.block
        one.attending = self._clock.attending(one.prompt, left)
        self._phases[one.phase] += 1
        self._count += 1
        self._attending += one.attending
        self._serial += 1
        heappush(self._ends, (one.until, self._serial, one))

    def _decode(self, until: float) -> None:
        """Steps of sequences alone: to the first that ends, to the next arrival, or as far as blocks last."""
        step = self._clock.passing(self._count) + self._attending
        steps = self._ends[0][0] - self._step
        if (stop := self._stop(until)) < _NEVER:
            steps = min(steps, max(1, ceil((stop - self.now) / step) + (self._more if stop == until else 0)))
        steps = self._room_for(steps)
        self._pass(steps, steps * step, 0)
        self._finish()

    def _stop(self, until: float) -> float:
        """When steps of sequences alone may not go on: an arrival behind others that wait changes nothing."""
        if not self.waiting:
            return until
        return self.now if self._times.arrived[self.waiting[0][0]] > self._latest else _NEVER

    def _room_for(self, steps: int) -> int:
        """As many of these steps as blocks last; for none, the request that was admitted last is taken off."""
        if self._rules.limits.whole or not self._count:
            return steps
        room, block = self._rules.blocks - self.pool.used, self._rules.block
        if room >= (steps // block + 1) * self._count:
            return steps
        possible = room // self._count * block  # each takes one block in so many steps
        room -= room // self._count * self._count
        while possible < steps:
            room -= self._phases[(self._step + possible + 1) % block]
            if room < 0:
                break
            possible += 1
        steps = min(steps, possible)
        if not steps:
            self._take_off()
        return steps

    def _pass(self, steps: int, seconds: float, taken: int) -> None:
        """Time goes on: each sequence has as many tokens more, and so many tokens of prompts are there."""
        block = self._rules.block
        if self._count and not self._rules.limits.whole:
            full, rest = divmod(steps, block)
            start = (self._step + 1) % block
            begun = sum(self._phases[start : start + rest]) + sum(self._phases[: max(0, start + rest - block)])
            self.pool.grow(full * self._count + begun)
        self._step += steps
        held, more = self.tokens - self._unit * self.pool.shared, steps * self._count + taken
        self._gauges.tokens.add(held, held + more, seconds)
        crowd = self._count + len(self._prefilling)
        self._gauges.sequences.add(crowd, crowd, seconds)
        if self._gauges.course is not None:
            self._gauges.course.add(self.now, seconds, held, held + more, len(self.waiting))
        if self._rules.limits.ahead:
            self._latest = self.now + seconds * (steps - 1) / steps
        self.now, self.busy, self.tokens = self.now + seconds, self.busy + seconds, self.tokens + more
        self._short = False

    def _finish(self) -> None:
        """Those whose last token is there leave."""
        ends = self._ends
        while ends and ends[0][0] <= self._step:
            one = heappop(ends)[2]
            if one.until != self._step:  # was taken off in between
                continue
            self._drop(one)
            self._leave(one, cached=one.prompt + one.until - one.begun)
            self._end(one.index)

    def _end(self, index: int) -> None:
        self._times.done[index] = self.now
        if self._trace.turns is not None:
            self.ended.append(index)

    def _drop(self, one: Active) -> None:
        self._phases[one.phase] -= 1
        self._count -= 1
        self._attending = self._attending - one.attending if self._count else 0.0

    def _leave(self, one: Active, cached: int) -> None:
        """Give back the blocks of a request, of which so many tokens are cached."""
        self._active.remove(one)
        own = one.own
        if not self._rules.limits.whole:
            own = -(-(cached - self._unit * len(one.ids)) // self._rules.block)
        kept: Sequence[int] = ()
        if self._answered is not None:  # blocks of the answer stay as well, for the next turn
            kept = self._answered[one.index][len(one.ids) : cached // self._unit]
            self.tiers.touch(kept)
        self.pool.give_back(one.ids, own, kept, keep=self._rules.caching)
        self.tokens -= cached

    def _take_off(self) -> None:
        """The request that was admitted last waits again, first of all, with what it has generated as its prompt."""
        one = self._active[-1]
        if one.until < 0:  # its prompt is not computed yet
            entry = next(each for each in self._prefilling if each[0] is one)
            self._prefilling.remove(entry)
            self._active.remove(one)
            self.pool.give_back(one.ids, one.own, keep=self._rules.caching)
            self.tokens -= entry[1]
            self.waiting.appendleft((one.index, entry[2]))
        else:
            cached = one.prompt + self._step - one.begun
            self._drop(one)
            self._leave(one, cached=cached)
            one.until = -2
            self.waiting.appendleft((one.index, cached + 1 - self._trace.prompts[one.index]))
        self._times.taken_off[one.index] += 1
        self._short = True
