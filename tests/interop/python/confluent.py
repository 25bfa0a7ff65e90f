"""confluent-kafka (librdkafka) against our broker. use: confluent.py BOOTSTRAP (the member mode is for checks.Member)"""
import signal, sys, time
from checks import check, equal, finish, group_of_three, static_members, tell, wait_for
from confluent_kafka import (ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, OFFSET_BEGINNING, OFFSET_END, Consumer,
                             Producer, TopicCollection, TopicPartition)
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic,
                                   OffsetSpec, ResourceType)

B = sys.argv[1]
N = 'confluent-kafka: '
ASSIGNORS = {'eager': 'range', 'cooperative': 'cooperative-sticky'}


def consumer_of(group='none', **more):
    return Consumer({'bootstrap.servers': B, 'group.id': group, 'enable.auto.commit': False, 'auto.offset.reset': 'earliest',
                     **{k.replace('_', '.'): v for k, v in more.items()}})


def member(topic, group, strategy, name, instance):
    changed, stopping = [], []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    more = {'group_instance_id': instance} if instance else {}
    consumer = consumer_of(group, client_id=name, partition_assignment_strategy=ASSIGNORS[strategy], enable_auto_commit=True,
                           auto_commit_interval_ms=200, session_timeout_ms=20000 if instance else 6000, heartbeat_interval_ms=500, **more)
    consumer.subscribe([topic], on_assign=lambda c, assigned: changed.append(1))
    while not stopping:
        for message in consumer.consume(100, timeout=0.2):
            if not message.error():
                tell('message', [message.partition(), message.offset(), message.value().decode()])
        if changed:
            changed.clear()
            tell('partitions', sorted(p.partition for p in consumer.assignment()))
    consumer.close()


def admin_checks(admin):
    names = lambda: set(admin.list_topics(timeout=10).topics)
    partitions = lambda: len(admin.describe_topics(TopicCollection(['ck']))['ck'].result().partitions)
    with check(N + 'topics are created, listed and described'):
        for f in admin.create_topics([NewTopic('ck', 3, 1, config={'retention.ms': '86400000'}), NewTopic('ck-going', 1, 1)]).values():
            f.result()
        wait_for('the topics', lambda: {'ck', 'ck-going'} <= names())
        equal(3, partitions())
    with check(N + 'an existing topic is refused'):
        try:
            admin.create_topics([NewTopic('ck', 3, 1)])['ck'].result()
            raise AssertionError('created twice')
        except KafkaException as error:
            equal('TOPIC_ALREADY_EXISTS', error.args[0].name())
    with check(N + 'partitions are added'):
        admin.create_partitions([NewPartitions('ck', 4)])['ck'].result()
        wait_for('four partitions', lambda: partitions() == 4)
    described = lambda: list(admin.describe_configs([ConfigResource(ResourceType.TOPIC, 'ck')]).values())[0].result()

    def alter(name, op, value=None):
        entry = ConfigEntry(name, value, incremental_operation=op)
        for f in admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, 'ck', incremental_configs=[entry])]).values():
            f.result()
    with check(N + 'configs are described and altered'):
        equal('86400000', described()['retention.ms'].value)
        alter('retention.ms', AlterConfigOpType.SET, '3600000')
        wait_for('the new value', lambda: described()['retention.ms'].value == '3600000')
        alter('retention.ms', AlterConfigOpType.DELETE)
        wait_for('the default', lambda: described()['retention.ms'].value == '604800000')
    with check(N + 'a topic is deleted'):
        admin.delete_topics(['ck-going'])['ck-going'].result()
        wait_for('the topic gone', lambda: 'ck-going' not in names())
    with check(N + 'the cluster is described'):
        equal(1, len(admin.describe_cluster().result().nodes))


def take(consumer, count, seconds=30):
    found, deadline = [], time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found += [m for m in consumer.consume(count - len(found), timeout=0.2) if not m.error()]
    return found


def send(records, **config):
    """Sends (key, value, headers, timestamp) to ck-0 and returns the offsets."""
    offsets, errors = [], []

    def done(error, message):
        (errors if error else offsets).append(error or message.offset())
    producer = Producer({'bootstrap.servers': B, **{k.replace('_', '.'): v for k, v in config.items()}})
    for key, value, headers, timestamp in records:
        producer.produce('ck', key=key, value=value, headers=headers, timestamp=timestamp, partition=0, on_delivery=done)
        producer.poll(0)
    equal(0, producer.flush(30))
    equal([], errors)
    return offsets


def data_checks(admin):
    reader = consumer_of()
    reader.assign([TopicPartition('ck', 0, OFFSET_BEGINNING)])
    end = lambda partition=0: reader.get_watermark_offsets(TopicPartition('ck', partition), timeout=10)[1]

    def back(first, count):
        reader.assign([TopicPartition('ck', 0, first)])
        return take(reader, count)
    for codec in ('none', 'gzip', 'snappy', 'lz4', 'zstd'):
        with check(N + codec + ': keys, values, headers and timestamps come back'):
            first = end()
            sent = [(b'k%d' % i, b'%d ' % i * 100, [('codec', b'x'), ('empty', b'')], 1700000000000 + i) for i in range(50)]
            equal(list(range(first, first + 50)), send(sent, compression_type=codec, linger_ms=50, acks='all'))
            equal(sent, [(m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in back(first, 50)])
    some = [(None, b'%d' % i, None, 0) for i in range(20)]
    for acks in ('0', '1', 'all'):
        with check(N + 'acks=%s' % acks):
            first = end()
            send(some, acks=acks)
            equal([v for _, v, _, _ in some], [m.value() for m in back(first, 20)])
    with check(N + 'an idempotent producer, many batches in flight'):
        first = end()
        many = [(None, b'%d' % i, None, 0) for i in range(500)]
        equal(list(range(first, first + 500)), send(many, enable_idempotence=True, batch_num_messages=5, linger_ms=0))
        equal([v for _, v, _, _ in many], [m.value() for m in back(first, 500)])
    with check(N + 'null keys and values, seek'):
        first = end()
        send([(b'gone', None, None, 0), (None, b'v', None, 0)])
        equal([(b'gone', None), (None, b'v')], [(m.key(), m.value()) for m in back(first, 2)])
        reader.seek(TopicPartition('ck', 0, first))
        equal([first], [m.offset() for m in take(reader, 1)])
    with check(N + 'offsets for times, earliest, latest and largest timestamp'):
        producer = Producer({'bootstrap.servers': B})
        for i in range(10):
            producer.produce('ck', value=b'%d' % i, partition=1, timestamp=1600000000000 + 1000 * i)
            producer.flush(30)
        equal(5, reader.offsets_for_times([TopicPartition('ck', 1, 1600000000000 + 4500)], timeout=10)[0].offset)
        equal(OFFSET_END, reader.offsets_for_times([TopicPartition('ck', 1, 1900000000000)], timeout=10)[0].offset)
        for spec, offset in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 10), (OffsetSpec.max_timestamp(), 9)):
            found = admin.list_offsets({TopicPartition('ck', 1): spec}, isolation_level=IsolationLevel.READ_COMMITTED)
            equal(offset, list(found.values())[0].result().offset)
    reader.close()


def commit_checks(admin):
    with check(N + 'offsets are committed and read back'):
        consumer = consumer_of('ck-commits')
        consumer.assign([TopicPartition('ck', 0)])
        equal(-1001, consumer.committed([TopicPartition('ck', 0)], timeout=10)[0].offset)
        consumer.commit(offsets=[TopicPartition('ck', 0, 7, metadata='note')], asynchronous=False)
        kept = consumer.committed([TopicPartition('ck', 0)], timeout=10)[0]
        equal((7, 'note'), (kept.offset, kept.metadata))
        consumer.close()
        again = consumer_of('ck-commits')
        again.assign([TopicPartition('ck', 0)])
        equal(7, take(again, 1)[0].offset())
        again.close()
        listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions('ck-commits')])['ck-commits'].result()
        equal([('ck', 0, 7)], [(p.topic, p.partition, p.offset) for p in listed.topic_partitions])
    with check(N + 'groups are listed, described and deleted'):
        listed = lambda: [g.group_id for g in admin.list_consumer_groups().result().valid]
        assert 'ck-commits' in listed()
        equal('EMPTY', admin.describe_consumer_groups(['ck-commits'])['ck-commits'].result().state.name)
        admin.delete_consumer_groups(['ck-commits'])['ck-commits'].result()
        assert 'ck-commits' not in listed()


def groups(admin):
    producer = Producer({'bootstrap.servers': B})

    def produce(topic, partition, values):
        for v in values:
            producer.produce(topic, value=v, partition=partition)
        equal(0, producer.flush(30))

    for strategy in ASSIGNORS:
        admin.create_topics([NewTopic('ck-' + strategy, 6, 1)])['ck-' + strategy].result()
        group_of_three(B, N + strategy, strategy, 'ck-' + strategy, produce)
    static_members(B, N + 'eager', 'eager', 'ck-eager')


if sys.argv[2:3] == ['member']:
    member(*sys.argv[3:])
else:
    admin = AdminClient({'bootstrap.servers': B})
    admin_checks(admin)
    data_checks(admin)
    commit_checks(admin)
    groups(admin)
    finish()
