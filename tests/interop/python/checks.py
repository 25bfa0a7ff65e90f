"""Results of checks, and the scenario of groups whose members are processes of their own, so that they can be killed."""
import contextlib, json, os, subprocess, sys, threading, time, traceback

failures = []


@contextlib.contextmanager
def check(name):
    """`with check('what'): assert ...` prints one result."""
    try:
        yield
        print('ok - ' + name, flush=True)
    except Exception as error:
        failures.append(name)
        print('not ok - %s: %s' % (name, str(error).split('\n')[0] or type(error).__name__), flush=True)
        for line in traceback.format_exc().rstrip().split('\n')[-6:]:
            print('#   ' + line, flush=True)


def equal(expected, found):
    assert expected == found, 'expected %.300r, found %.300r' % (expected, found)


def wait_for(what, condition, seconds=45):
    """Looks again and again until `condition` gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, 'no %s within %d s' % (what, seconds)
        time.sleep(0.05)


class Member:
    """One consumer of a group: this program called again as `PROGRAM B member TOPIC GROUP STRATEGY NAME INSTANCE`.
    Each line it prints is a JSON list of the partitions it now has, or of a message: partition, offset, value."""

    def __init__(self, bootstrap, topic, group, strategy, name, instance=''):
        self.partitions, self.messages, self.assigned = [], [], 0
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, sys.argv[0], bootstrap, 'member', topic, group, strategy, name, instance],
            stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            kind, what = json.loads(line)
            if kind == 'partitions':
                self.partitions, self.assigned = what, self.assigned + 1
            else:
                self.messages.append(tuple(what))

    def stop(self, signal='terminate'):
        getattr(self.process, signal)()
        self.process.wait(30)


def tell(kind, what):
    """What a member says to the process that started it."""
    print(json.dumps([kind, what]), flush=True)


def shared(members, partitions, each):
    """Whether all partitions are given away, once, and each member has `each` of them."""
    all_of_them = sorted(p for m in members for p in m.partitions)
    return all_of_them == list(range(partitions)) and all(len(m.partitions) == each for m in members)


def values(members, prefix):
    return sorted(v for m in members for _, _, v in list(m.messages) if v.startswith(prefix))


def group_of_three(bootstrap, kind, strategy, topic, produce):
    """Three members share six partitions; one is killed and the others take over. `produce(topic, partition, values)`."""
    group = 'group-' + topic
    members = [Member(bootstrap, topic, group, strategy, 'member-%d' % i) for i in range(3)]
    try:
        with check('%s: three members share six partitions' % kind):
            wait_for('even assignment', lambda: shared(members, 6, 2))
        with check('%s: each message once, each member its share' % kind):
            sent = ['first-%d-%d' % (p, i) for p in range(6) for i in range(10)]
            for p in range(6):
                produce(topic, p, [v for v in sent if v.startswith('first-%d-' % p)])
            wait_for('sixty messages', lambda: len(values(members, 'first-')) >= 60)
            equal(sorted(sent), values(members, 'first-'))
            equal([20, 20, 20], [len(m.messages) for m in members])
        with check('%s: a member is killed, the others take over' % kind):
            members[1].stop('kill')
            rest = [members[0], members[2]]
            wait_for('takeover', lambda: shared(rest, 6, 3))
            for p in range(6):
                produce(topic, p, ['second-%d' % p])
            wait_for('messages of all partitions', lambda: len(set(values(rest, 'second-'))) == 6)
    finally:
        for m in members:
            if m.process.poll() is None:
                m.stop()


def static_members(bootstrap, kind, strategy, topic):
    """A static member leaves and comes back with its partitions; the others notice nothing."""
    group = 'static-' + topic
    start = lambda i: Member(bootstrap, topic, group, strategy, 'static-%d' % i, 'instance-%d' % i)
    members = [start(i) for i in range(3)]
    try:
        with check('%s: a static member restarts without a rebalance' % kind):
            wait_for('even assignment', lambda: shared(members, 6, 2))
            before = [(m.partitions, m.assigned) for m in members]
            members[1].stop()
            members[1] = start(1)
            wait_for('the member back', lambda: members[1].partitions)
            # Two heartbeats of the others: a rebalance would have reached them.
            time.sleep(2)
            equal(before[1][0], members[1].partitions)
            equal([before[0], before[2]], [(m.partitions, m.assigned) for m in (members[0], members[2])])
    finally:
        for m in members:
            if m.process.poll() is None:
                m.stop()


def finish():
    sys.stdout.flush()
    os._exit(1 if failures else 0)
