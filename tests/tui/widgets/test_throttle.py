from perftui_tui.screens.timeline.widget import Throttle


class Clock:
    def __init__(self):
        self.now = 0.0
        self.timers = []
        self.done = []

    def throttle(self):
        return Throttle(
            lambda: self.done.append(round(self.now, 3)),
            lambda wait, run: self.timers.append((self.now + wait, run)),
            interval=0.1,
            clock=lambda: self.now,
        )

    def pass_to(self, now):
        self.now = now
        due, self.timers = self.timers, []
        for time, run in due:
            self.timers.append((time, run)) if time > now else run()


def test_a_burst_costs_the_first_and_the_last():
    clock = Clock()
    throttle = clock.throttle()
    for _ in range(40):
        throttle.request()
    assert clock.done == [0.0]
    clock.pass_to(0.1)
    assert clock.done == [0.0, 0.1]
    clock.pass_to(1.0)
    assert clock.done == [0.0, 0.1]


def test_slow_requests_are_answered_at_once():
    clock = Clock()
    throttle = clock.throttle()
    for now in (0.0, 0.5, 1.0):
        clock.pass_to(now)
        throttle.request()
    assert clock.done == [0.0, 0.5, 1.0]
