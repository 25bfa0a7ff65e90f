#!/usr/bin/env python3
"""Compares a transcript of our tools, or of our broker, with the one Apache Kafka gave. One line for each command:
`ok - ...` or `not ok - ...` with the lines that differ. Times, ids and ports are masked; stack frames do not count;
a warning said twice counts once.

use: compare.py [--expected FILE] THEIRS OURS        (both in the format of reference/transcripts)

expected-differences holds blocks of `key: value` lines, separated by blank lines:
  scenario   a scenario's name, or several with blanks between, or *
  command    the command as the transcript has it, or *; `command~` takes a regular expression instead
  ours       regular expression of lines that only we print; `theirs` of lines that only Apache prints;
             both see a line as `1> text` or `2> text`
  order      stdout or stderr: the same lines in any order
  all        anything may differ
  with       shims or cluster: only where our tools, or our brokers, play
  reason     why; shown behind the command
A block for one command that makes no difference any more is reported, so that the list only shrinks.
"""
import fnmatch, os, re, sys

here = os.path.dirname(os.path.abspath(__file__))

MASKS = [
    (r'\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]', '[TIME]'),
    (r'\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,:]\d+)?Z?', 'TIME'),
    (r'\b1[5-9]\d{11}\b', 'MILLIS'),
    (r'\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b', 'UUID'),
    (r'(?<![A-Za-z0-9_/+=-])(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Z])[A-Za-z0-9_-]{22}(?![A-Za-z0-9_/+=-])', 'ID'),
    (r'(?<=\.id=)[A-Za-z0-9_-]{22}\b', 'ID'),
    (r'(directoryId(?:=|": "))[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])', r'\1ID'),
    (r'\b(Cluster ?I[Dd]: +|TopicId: )[A-Za-z0-9_-]{22}\b', r'\1ID'),
    (r'#\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}$', '#TIME'),
    (r'\bcrc: \d+', 'crc: CRC'),
    (r'console-(share-)?consumer-\d+', r'console-\1consumer-N'),
    (r'correlation id \d+', 'correlation id N'),
    (r'(?<=  Epoch: )\d+$', 'N'),
    (r'(?<=Local controller )\d+', 'N'),
    (r'(?<=timeout -s INT )\d+|(?<=timeout -s TERM )\d+', 'N'),
]
FRAMES = re.compile(r'^\[\d+ stack lines left out\]$|^\s+at |^\s+\.\.\. \d+ more')
LOG = re.compile(r'^\[TIME\] (WARN|ERROR) ')


def mask(text):
    for pattern, by in MASKS:
        text = re.sub(pattern, by, text)
    return text


class Command:
    def __init__(self, text):
        self.text, self.lines, self.exit = text, [], None

    def prepared(self):
        """Masked lines without frames, blanks at the end, and warnings that were said before."""
        out, said = [], set()
        for line in self.lines:
            stream, text = line[0], mask(line[3:].rstrip())
            if FRAMES.match(text):
                continue
            if LOG.match(text):
                if text in said:
                    continue
                said.add(text)
            out.append(stream + '> ' + text)
        return out


def read(path):
    commands = []
    for line in open(path, encoding='utf-8', errors='backslashreplace').read().split('\n'):
        if line.startswith('$ '):
            commands.append(Command(line[2:]))
        elif re.match(r'^[12]>', line) and commands:
            commands[-1].lines.append(line if line[2:3] == ' ' else line[:2] + ' ' + line[2:])
        elif line.startswith('= exit ') and commands:
            commands[-1].exit = line[7:]
    return commands


class Block:
    def __init__(self, fields):
        self.scenarios = fields.get('scenario', '*').split()
        self.command = fields.get('command')
        self.pattern = fields.get('command~')
        self.ours = fields.get('ours')
        self.theirs = fields.get('theirs')
        self.order = fields.get('order')
        self.player = fields.get('with')
        self.all = 'all' in fields
        self.reason = fields.get('reason', '')
        self.used = self.met = False

    def general(self):
        # An order that is left to chance may come out as Apache's.
        return self.pattern is not None or self.order is not None or self.command in (None, '*')

    def applies(self, scenario, text, players):
        if self.player and self.player not in players:
            return False
        if not any(fnmatch.fnmatch(scenario, s) for s in self.scenarios):
            return False
        if self.pattern is not None:
            return re.search(self.pattern, text) is not None
        return self.command in (None, '*') or mask(self.command) == mask(text)


def read_blocks(path):
    blocks, fields = [], {}
    if not os.path.exists(path):
        return blocks
    for line in open(path, encoding='utf-8').read().split('\n') + ['']:
        if line.startswith('#'):
            continue
        if not line.strip():
            if fields:
                blocks.append(Block(fields))
            fields = {}
            continue
        key, _, value = line.partition(':')
        fields[key.strip()] = value.strip()
    return blocks


def without(lines, pattern):
    return [l for l in lines if not re.search(pattern, l)]


def differences(theirs, ours):
    import difflib
    return [l for l in difflib.unified_diff(theirs, ours, lineterm='', n=0)
            if not l.startswith(('---', '+++', '@@'))]


def compare(scenario, theirs, ours, blocks, players=('shims',)):
    """Prints a line for each command and returns how many are not ok. `players` says what of ours takes part."""
    bad = 0
    if len(theirs) != len(ours):
        print('not ok - %s: %d commands, but %d in the transcript' % (scenario, len(ours), len(theirs)))
        bad += 1
    for t, o in zip(theirs, ours):
        left, right = t.prepared(), o.prepared()
        left.sort(key=lambda l: l[0])
        right.sort(key=lambda l: l[0])
        reasons, tolerated = [], False
        # Blocks only count as used where something differed to begin with.
        equal = left == right and t.exit == o.exit
        for block in blocks:
            if not block.applies(scenario, t.text, players):
                continue
            block.met = True
            if equal:
                continue
            before = (left, right)
            if block.ours:
                right = without(right, block.ours)
            if block.theirs:
                left = without(left, block.theirs)
            if block.order:
                tag = '1' if block.order == 'stdout' else '2'
                key = lambda l: (l[0], l if l[0] == tag else '')
                left, right = sorted(left, key=key), sorted(right, key=key)
            if block.all:
                tolerated = True
            if block.all or (left, right) != before:
                block.used = True
                reasons.append(block.reason)
        same = left == right and t.exit == o.exit
        note = '' if not reasons else '   # ' + '; '.join(dict.fromkeys(r for r in reasons if r))
        if same or tolerated:
            print('ok - %s: %s%s' % (scenario, o.text, note))
            continue
        bad += 1
        print('not ok - %s: %s' % (scenario, o.text))
        for line in differences(left, right):
            print('#   ' + line)
        if t.exit != o.exit:
            print('#   -exit %s\n#   +exit %s' % (t.exit, o.exit))
    for block in blocks:
        if block.met and not block.used and not block.general():
            print('not ok - %s: no longer differs: %s' % (scenario, block.command))
            bad += 1
    return bad


def main(arguments):
    expected = os.path.join(here, 'expected-differences')
    if arguments[:1] == ['--expected']:
        expected, arguments = arguments[1], arguments[2:]
    if len(arguments) != 2:
        sys.exit(__doc__)
    scenario = os.path.splitext(os.path.basename(arguments[0]))[0]
    return compare(scenario, read(arguments[0]), read(arguments[1]), read_blocks(expected))


if __name__ == '__main__':
    sys.exit(1 if main(sys.argv[1:]) else 0)
