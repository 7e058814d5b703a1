"""The life of an event's work, from its coming to the end of its last program: a state machine. Pure.

WHAT A WORK IS. The programs of one event, or of a delete that comes without an event, and the answer to the event. An
event at which no program may run here has no work: its answer is there at once. `Work` carries out what this module
decides, and reports what programs, timers, other adapters and the runtime do. Clocks, locks and processes are its own.

THE WAY. A work is QUEUED until the earlier works of its id and of its pod are over (`queue`). Then `Turns.take` locks
the id, or another adapter has it, and the work is BLOCKED and asks again. Whoever has the lock decides the fate of the
event in the same act (`turns`): that names the programs. An event that another adapter has answered has none, a delete
has those that are still owed. The programs run one after the other. When none is left to run, the work is ENDING, until
its answer has been sent and the programs that were left have ended. Then it is OVER: it gives the lock back, and the
works that wait for it go on.

THE ANSWER. It is given once: when no program is left to run, or when the time of the event is up, in whatever state
that is. So each state before ENDING exists with and without an answer. After the answer a work goes on in the same
states, and answers no more. When the runtime has got the answer (SENT), other adapters have been told.

THE HOLD. A container that starts can be held (HELD, in any state without an answer): the runtime is told that the
event is over (FREE_RUNTIME), and the container waits for the answer in its place. The event has more time then, and all
else is as before: a work that is held goes on in the same states, and ANSWER lets the container go, or refuses it if
the event has failed. So each state before the answer exists held, too.

WHAT FOLLOWS FROM THE TABLE.
- A plugin is late. TIME_IS_UP in RUNNING: if a create has a program that must not fail and is not done, the event
  fails, the program is left and nothing else runs. Else the event is answered, as at each delete, and the work goes on:
  each program gets until its LIMIT.
- An installer writes the program's file. The work is BUSY, and spawns the program again and again until the event is
  due. Then the program has failed, as one that could not be spawned.
- A container is held. Its time is up at the limit of holds, when the runtime has gone, and when somebody else has ended
  the hold. When the container or its pod is stopped, it is refused, whatever its programs do (`refuse`): the program
  that runs is left, no other one runs, and the delete waits until the left one has ended, or its time is over.
- The adapter is killed. What it has noted in the state directory is all that remains: in QUEUED and BLOCKED nothing;
  from the turn on that the event has begun, and each create before its program gets the request; of a delete that its
  program has ended; after SENT that the event is answered. Nobody waits for the program. The kernel ends the locks, and
  whoever gets the event next repeats what is not noted. The keeper ends what was held (`holder`).
- Two adapters get the event. The second one is asked after the first has answered, is late, or has been killed. Its
  work is QUEUED, and BLOCKED while the first one works on. If the first has answered, the second answers at once (fate
  DONE, or ANSWERED_ELSEWHERE before the turn), and runs at its turn the deletes that are still owed. Else it runs what
  is not noted (REPEAT).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from nri.errors import LocalProtocolError
from v010_adapter.base.keys import Key
from v010_adapter.errors import ProgramError
from v010_adapter.programs.step import Failure, Step


class Ends(Enum):
    """What ends the programs of a work before the last one."""

    AT_FAILURE = auto()
    """A failure that fails the event: creates and updates (containerd/nri client.go, InvokeWithSandbox)."""
    NEVER = auto()
    """Deletes: each plugin must get the delete that belongs to its create. The original ended these too."""
    AT_ANSWER = auto()
    """A failure that fails the event, and the answer: precreate hooks, whose edits are of no use after it."""


class LifeState(Key):
    """Where a work is."""

    QUEUED = auto()
    """Earlier works of the id or of its pod are not over."""
    BLOCKED = auto()
    """Another adapter works on the id. The queue asks again."""
    PREPARING = auto()
    """The first request of a large container is being made in a child process."""
    RUNNING = auto()
    """A program runs, or is about to be spawned, and has printed no complete result."""
    BUSY = auto()
    """The file of the program is being written, and so cannot be executed: it is spawned again after a pause."""
    PRINTED = auto()
    """A program has printed its result, works on, and is not waited for any longer."""
    ENDING = auto()
    """No program is left to run. The answer has not been sent yet, or programs that were left still run."""
    OVER = auto()


class Input(Key):
    """What happens to a work."""

    LOCKED = auto()
    """The earlier works are over, and another adapter has the lock of the id."""
    TURN = auto()
    """The earlier works are over, the id is locked, the fate is decided, and the programs are named."""
    TURN_OF_LARGE = auto()
    """Likewise, for a large container."""
    ANSWERED_ELSEWHERE = auto()
    """Another adapter has answered the event, and may still work on it."""
    RUNTIME_GONE = auto()
    """The connection is lost. Nobody knows whether the containers of creates that wait will be started: they lose their
    programs, and keep their place in the order."""
    PREPARED = auto()
    NOT_STARTED = auto()
    """The program could not be spawned."""
    BEING_WRITTEN = auto()
    """The program could not be spawned because its file is being written (ETXTBSY). This cannot happen to a work that
    has answered: there it is NOT_STARTED."""
    PAUSE_IS_OVER = auto()
    PRINTED = auto()
    """The time of the program is over, and its complete result has been read; the program still runs."""
    EXITED = auto()
    HELD = auto()
    """The container of the event is held. This cannot happen to a work that has answered, and only once."""
    TIME_IS_UP = auto()
    """The event must be answered now. This cannot happen to a work that has answered."""
    LIMIT = auto()
    """The program's own time limit is reached, or the limit for late programs."""
    LEFT_ENDED = auto()
    """A program that was left has exited, or its time is over."""
    SENT = auto()
    """The runtime has got the answer, or will never get it. Other adapters have been told (`Turns.end`)."""
    SETTLED = auto()
    """In place of the last LEFT_ENDED or SENT: the answer has been sent, and no program that was left runs."""


class Action(Key):
    """What `Work` must do, in the order of the list."""

    PREPARE = auto()
    """Let a child process make the first request. PREPARED must be reported."""
    SPAWN = auto()
    """Spawn the current program, write the request to its stdin, and set its limit.

    NOT_STARTED must be reported at once if it cannot be spawned.
    """
    PAUSE = auto()
    """Set the timer of the pause before the program is spawned again."""
    SET_LIMIT = auto()
    """Set the timer for the program's time limit."""
    FREE_RUNTIME = auto()
    """Tell the runtime that the event is over: its container is held."""
    ANSWER = auto()
    """Answer the event; if its container is held, let that go, or refuse it. Left out if the event is answered."""
    KILL_IF_ASKED = auto()
    """Kill the late program if its policy says so. The work still waits for its exit."""
    LEAVE = auto()
    """Stop waiting for a program without a result: its policy says whether it is killed."""
    LET_WORK = auto()
    """Stop waiting for a program that has printed its result."""
    SETTLE = auto()
    """Report SETTLED if it is so."""
    GIVE_BACK = auto()
    """Give the lock of the id back, and let the works go on that wait for this one."""


Actions: TypeAlias = tuple[Action, ...]
Transition: TypeAlias = tuple[LifeState, Actions]


class Branches(NamedTuple):
    """The two transitions of an input in a state: with a program that is left to run, and without one."""

    some_left: Transition
    none_left: Transition


Row: TypeAlias = Mapping[Input, Branches]

# A global name is faster than an enumeration's attribute.
AT_FAILURE, NEVER, AT_ANSWER = Ends
QUEUED, BLOCKED, PREPARING, RUNNING, BUSY, PRINTED, ENDING, OVER = LifeState
SPAWN, ANSWER = Action.SPAWN, Action.ANSWER
_TIME_IS_UP, _LIMIT, _EXITED, _SENT = Input.TIME_IS_UP, Input.LIMIT, Input.EXITED, Input.SENT
_HELD, _FREE = Input.HELD, Action.FREE_RUNTIME
_BEFORE_ANSWER = _TIME_IS_UP, Input.BEING_WRITTEN
"""These cannot happen to a work that has answered. Nor can HELD: see `Life.hold`."""


def _to(state: LifeState, *actions: Action) -> Transition:
    return state, actions


def _always(state: LifeState, *actions: Action) -> Branches:
    return Branches((state, actions), (state, actions))


_START = _to(RUNNING, SPAWN)
_END = _to(ENDING, ANSWER, Action.SETTLE)
_LEAVE_AND_END = _to(ENDING, Action.LEAVE, ANSWER, Action.SETTLE)
_BEFORE_TURN: Row = {
    Input.LOCKED: _always(BLOCKED),
    Input.TURN: Branches(_START, _END),
    Input.TURN_OF_LARGE: Branches(_to(PREPARING, Action.PREPARE), _END),
}

# An input that a state does not list cannot happen there.
TRANSITIONS: Mapping[LifeState, Row] = {
    QUEUED: {
        **_BEFORE_TURN,
        Input.ANSWERED_ELSEWHERE: Branches(_to(QUEUED, ANSWER), _END),
        Input.RUNTIME_GONE: _always(QUEUED),
        _HELD: _always(QUEUED, _FREE),
        _TIME_IS_UP: Branches(_to(QUEUED, ANSWER), _END),
        _SENT: _always(QUEUED),
    },
    BLOCKED: {
        **_BEFORE_TURN,
        Input.ANSWERED_ELSEWHERE: Branches(_to(BLOCKED, ANSWER), _END),
        Input.RUNTIME_GONE: _always(BLOCKED),
        _HELD: _always(BLOCKED, _FREE),
        _TIME_IS_UP: Branches(_to(BLOCKED, ANSWER), _END),
        _SENT: _always(BLOCKED),
    },
    PREPARING: {
        Input.PREPARED: Branches(_START, _END),
        _HELD: _always(PREPARING, _FREE),
        _TIME_IS_UP: Branches(_to(PREPARING, ANSWER), _END),
        _SENT: _always(PREPARING),
    },
    RUNNING: {
        Input.NOT_STARTED: Branches(_START, _END),
        Input.BEING_WRITTEN: _always(BUSY, Action.PAUSE),
        _EXITED: Branches(_START, _END),
        Input.PRINTED: _always(PRINTED, Action.LET_WORK),
        _HELD: _always(RUNNING, _FREE),
        _TIME_IS_UP: Branches(_to(RUNNING, ANSWER, Action.KILL_IF_ASKED, Action.SET_LIMIT), _LEAVE_AND_END),
        _LIMIT: Branches(_to(RUNNING, Action.LEAVE, SPAWN), _LEAVE_AND_END),
        Input.LEFT_ENDED: _always(RUNNING),
        _SENT: _always(RUNNING),
    },
    BUSY: {
        Input.PAUSE_IS_OVER: _always(RUNNING, SPAWN),
        _HELD: _always(BUSY, _FREE),
        _TIME_IS_UP: Branches(_to(RUNNING, ANSWER, SPAWN), _END),
        Input.LEFT_ENDED: _always(BUSY),
        _SENT: _always(BUSY),
    },
    PRINTED: {
        _HELD: Branches(_to(RUNNING, _FREE, SPAWN), _END),
        _TIME_IS_UP: Branches(_to(RUNNING, ANSWER, SPAWN), _END),
        _LIMIT: Branches(_START, _END),
    },
    ENDING: {
        Input.LEFT_ENDED: _always(ENDING),
        _SENT: _always(ENDING),
        Input.SETTLED: _always(OVER, Action.GIVE_BACK),
    },
    OVER: {},
}


S = TypeVar("S", bound=Step)


class Life(Generic[S]):
    """The state of one work, its programs, and what their outcomes mean for the event."""

    def __init__(self, ends: Ends, steps: Sequence[S] | None = None, *, is_answered: bool = False) -> None:
        """Takes what ends the programs early, and the programs in their order.

        Without programs, `set_steps` names them later: who is owed a delete is known when the turn has come.
        `is_answered` from the start is a work whose answer nobody waits for.
        """
        self.state = QUEUED
        self.is_answered = is_answered
        """Whether the event has been answered."""
        self.was_held = False
        """Whether the container of the event has been held; it is held until the event is answered."""
        self.results: list[Any] = []
        """The results of the programs that have succeeded."""
        self.error: ProgramError | None = None
        """The error that the event fails with, if it fails."""
        self.failures: Sequence[ProgramError] = ()
        """The failures that the last input has brought."""
        self._ends = ends
        self._has_steps = steps is not None
        self.steps = list(steps or ())
        """The programs that are not done, in their order; the first is the current one: to be run next, or running."""

    def set_steps(self, steps: Sequence[S]) -> None:
        """Names the programs."""
        self._has_steps = True
        self.steps = list(steps)

    @property
    def has_none_left(self) -> bool:
        """Whether no program is left to run."""
        return self._has_steps and not self.steps

    @property
    def is_held(self) -> bool:
        """Whether the container of the event is held."""
        return self.was_held and not self.is_answered

    @property
    def must_finish(self) -> bool:
        """Whether a program is not done that must not fail."""
        return any(step.policy.fail for step in self.steps)

    # Inputs

    def receive(self, input_: Input, failures: Sequence[ProgramError] = ()) -> Actions:
        """Goes on to the next state; returns what is to be done. The methods below are for inputs that tell more."""
        self.failures = failures
        branches = TRANSITIONS[self.state].get(input_)
        if branches is None or (self.is_answered and input_ in _BEFORE_ANSWER):
            raise self._impossible(input_)
        self.state, actions = branches.none_left if self._has_steps and not self.steps else branches.some_left
        if ANSWER in actions:
            if self.is_answered:
                return tuple(action for action in actions if action is not ANSWER)
            self.is_answered = True
        return actions

    def _impossible(self, input_: Input) -> LocalProtocolError:
        kind = ", answered" if self.is_answered else ", held" if self.was_held else ""
        return LocalProtocolError(f"{input_.name} in state {self.state.name}{kind}")

    def hold(self) -> Actions:
        """HELD: the container of the event is held."""
        if self.was_held or self.is_answered:
            raise self._impossible(_HELD)
        actions = self.receive(_HELD)
        self.was_held = True
        return actions

    def refuse(self, reason: str) -> Actions:
        """The held container must not start, or cannot start any more, whatever its programs do: no further one runs.

        This is TIME_IS_UP. `reason` is the error of the event; it counts as a failure of no program.
        """
        if self.steps:
            self.error = self.steps[0].error(reason)
            self.steps.clear()
        return self.receive(_TIME_IS_UP)

    def drop(self, input_: Input) -> Actions:
        """ANSWERED_ELSEWHERE, RUNTIME_GONE: no program runs, except for deletes that are owed at the turn."""
        if self._ends is not NEVER:
            self.set_steps(())
        return self.receive(input_)

    def not_started(self, reason: str) -> Actions:
        """The current program could not be spawned."""
        return self.receive(Input.NOT_STARTED, [self._fail(reason)])

    def exited(self, result: Any) -> Actions:
        """The current program has exited. `result` is its result, or a Failure."""
        return self.receive(_EXITED, self._judge(result))

    def printed(self, result: Any) -> Actions:
        """The current program still runs, but its time is over and it has printed a result: `result`, or a Failure.

        TIME_IS_UP or LIMIT must follow at once.
        """
        return self.receive(Input.PRINTED, self._judge(result))

    def time_is_up(self, reason: str) -> Actions:
        """The event must be answered now. `reason` says why the current program is not done.

        If programs are left to run afterwards, the work goes on after the answer. A program whose file is being written
        has failed.
        """
        return self.receive(_TIME_IS_UP, self._overdue(reason))

    def limit_reached(self, reason: str) -> Actions:
        """The current program's time is over."""
        return self.receive(_LIMIT, [self._fail(reason)] if self.state is RUNNING else ())

    # What outcomes mean

    def _judge(self, result: Any) -> Sequence[ProgramError]:
        if isinstance(result, Failure):
            return [self._fail(result.reason)]
        self.results.append(result)
        del self.steps[0]
        return ()

    def _fail(self, reason: str) -> ProgramError:
        """Takes the current program's failure and returns it as an error."""
        step = self.steps.pop(0)
        error = step.error(reason)
        if step.policy.fail:
            self.error = self.error or error
            if self._ends is not NEVER:
                self.steps.clear()
        return error

    def _overdue(self, reason: str) -> list[ProgramError]:
        """Judges the programs that are not done when the event must be answered; returns their failures."""
        errors: list[ProgramError] = []
        before = f"{self.steps[0].name}: " if self.state in (RUNNING, BUSY) else ""
        if self.state is BUSY:
            errors.append(self._fail(reason))
        if self._ends is AT_ANSWER:
            while self.steps:
                errors.append(self._fail("no time was left" if errors else reason))
        elif self._ends is AT_FAILURE and (step := next((one for one in self.steps if one.policy.fail), None)):
            if self.state is not RUNNING or step is not self.steps[0]:
                reason = f"not run: {before}{reason}"
            self.error = step.error(reason)
            self.steps.clear()
            errors.append(self.error)
        return errors
