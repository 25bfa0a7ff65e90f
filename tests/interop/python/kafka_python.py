"""kafka-python against our broker. use: kafka_python.py BOOTSTRAP (the member mode is for checks.Member)"""
import signal, sys, time
from checks import check, equal, finish, group_of_three, static_members, tell, wait_for
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

B = sys.argv[1]
N = 'kafka-python: '
ASSIGNORS = {'eager': RangePartitionAssignor, 'cooperative': CooperativeStickyAssignor}


def member(topic, group, strategy, name, instance):
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked): pass
        def on_partitions_assigned(self, assigned): changed.append(1)
    changed, stopping = [], []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    consumer = KafkaConsumer(bootstrap_servers=B, group_id=group, group_instance_id=instance or None, client_id=name,
                             partition_assignment_strategy=[ASSIGNORS[strategy]], auto_offset_reset='earliest',
                             session_timeout_ms=20000 if instance else 6000, heartbeat_interval_ms=500, auto_commit_interval_ms=200)
    consumer.subscribe([topic], listener=Listener())
    while not stopping:
        for records in consumer.poll(timeout_ms=200).values():
            for r in records:
                tell('message', [r.partition, r.offset, r.value.decode()])
        if changed:
            changed.clear()
            tell('partitions', sorted(p.partition for p in consumer.assignment()))
    consumer.close()


def admin_checks(admin):
    with check(N + 'topics are created, listed and described'):
        admin.create_topics({'kp': {'num_partitions': 3, 'replication_factor': 1, 'configs': {'retention.ms': '86400000'}},
                             'kp-going': {'num_partitions': 1}}, wait_for_metadata=True)
        assert {'kp', 'kp-going'} <= set(admin.list_topics())
        equal(3, len(admin.describe_topics(['kp'])[0]['partitions']))
    with check(N + 'an existing topic is refused'):
        try:
            admin.create_topics({'kp': {'num_partitions': 1}})
            raise AssertionError('created twice')
        except Exception as error:
            equal('TopicAlreadyExistsError', type(error).__name__)
    with check(N + 'partitions are added'):
        admin.create_partitions({'kp': 4})
        wait_for('four partitions', lambda: len(admin.describe_topics(['kp'])[0]['partitions']) == 4)
    topic = lambda configs: ConfigResource(ConfigResourceType.TOPIC, 'kp', configs)
    described = lambda: admin.describe_configs([topic(None)], config_filter='all')['topic']['kp']
    with check(N + 'configs are described and altered'):
        equal('86400000', described()['retention.ms']['value'])
        admin.alter_configs([topic({'retention.ms': '3600000', 'max.message.bytes': '2000000'})])
        wait_for('the new value', lambda: described()['retention.ms']['value'] == '3600000')
        admin.reset_configs([topic({'max.message.bytes': None})])
        wait_for('the default', lambda: described()['max.message.bytes']['value'] == '1048588')
    with check(N + 'a topic is deleted'):
        admin.delete_topics(['kp-going'])
        wait_for('the topic gone', lambda: 'kp-going' not in admin.list_topics())
    with check(N + 'the cluster is described'):
        equal(1, len(admin.describe_cluster()['brokers']))


def take(consumer, count, seconds=30):
    found, deadline = [], time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=200).values():
            found += records
    return found


def data_checks():
    p0 = TopicPartition('kp', 0)
    reader = KafkaConsumer(bootstrap_servers=B, auto_offset_reset='earliest', enable_auto_commit=False)
    reader.assign([p0])
    for codec in (None, 'gzip', 'snappy', 'lz4', 'zstd'):
        with check(N + '%s: keys, values, headers and timestamps come back' % (codec or 'none')):
            first = reader.end_offsets([p0])[p0]
            producer = KafkaProducer(bootstrap_servers=B, acks='all', compression_type=codec, linger_ms=50)
            sent = [(b'k%d' % i, b'%d ' % i * 100, [('codec', b'x'), ('empty', b'')], 1700000000000 + i) for i in range(50)]
            futures = [producer.send('kp', value=v, key=k, headers=h, partition=0, timestamp_ms=t) for k, v, h, t in sent]
            equal(list(range(first, first + 50)), [f.get(30).offset for f in futures])
            producer.close()
            reader.seek(p0, first)
            equal(sent, [(r.key, r.value, [tuple(h) for h in r.headers], r.timestamp) for r in take(reader, 50)])
    for acks in (0, 1, 'all'):
        with check(N + 'acks=%s, not idempotent' % acks):
            first = reader.end_offsets([p0])[p0]
            producer = KafkaProducer(bootstrap_servers=B, acks=acks, enable_idempotence=False)
            for i in range(20):
                producer.send('kp', value=b'%d' % i, partition=0)
            producer.flush()
            producer.close()
            reader.seek(p0, first)
            equal([b'%d' % i for i in range(20)], [r.value for r in take(reader, 20)])
    with check(N + 'an idempotent producer, many batches in flight'):
        first = reader.end_offsets([p0])[p0]
        producer = KafkaProducer(bootstrap_servers=B, enable_idempotence=True, batch_size=200)
        futures = [producer.send('kp', value=b'%d' % i, partition=0) for i in range(500)]
        producer.flush()
        equal(list(range(first, first + 500)), [f.get(30).offset for f in futures])
        producer.close()
        reader.seek(p0, first)
        equal([b'%d' % i for i in range(500)], [r.value for r in take(reader, 500)])
    with check(N + 'null keys and values'):
        first = reader.end_offsets([p0])[p0]
        producer = KafkaProducer(bootstrap_servers=B)
        producer.send('kp', key=b'gone', value=None, partition=0)
        producer.send('kp', key=None, value=b'v', partition=0)
        producer.close()
        reader.seek(p0, first)
        equal([(b'gone', None), (None, b'v')], [(r.key, r.value) for r in take(reader, 2)])
    with check(N + 'offsets for times, beginning and end'):
        p1 = TopicPartition('kp', 1)
        producer = KafkaProducer(bootstrap_servers=B)
        for i in range(10):
            producer.send('kp', value=b'%d' % i, partition=1, timestamp_ms=1600000000000 + 1000 * i).get(30)
        producer.close()
        found = reader.offsets_for_times({p1: 1600000000000 + 4500})[p1]
        equal((5, 1600000005000), (found.offset, found.timestamp))
        equal(None, reader.offsets_for_times({p1: 1900000000000})[p1])
        equal((0, 10), (reader.beginning_offsets([p1])[p1], reader.end_offsets([p1])[p1]))
    reader.close()


def commit_checks(admin):
    with check(N + 'offsets are committed and read back'):
        p0 = TopicPartition('kp', 0)
        consumer = KafkaConsumer(bootstrap_servers=B, group_id='kp-commits', enable_auto_commit=False)
        consumer.assign([p0])
        equal(None, consumer.committed(p0))
        consumer.commit({p0: OffsetAndMetadata(7, 'note', -1)})
        equal(7, consumer.committed(p0))
        consumer.close()
        again = KafkaConsumer(bootstrap_servers=B, group_id='kp-commits', enable_auto_commit=False)
        again.assign([p0])
        equal(7, again.position(p0))
        again.close()
        kept = admin.list_group_offsets('kp-commits')['kp-commits'][p0]
        equal((7, 'note'), (kept.offset, kept.metadata))
    with check(N + 'groups are listed, described and deleted'):
        assert 'kp-commits' in [g['group_id'] for g in admin.list_groups()]
        assert 'kp-commits' in admin.describe_groups(['kp-commits'])
        equal({'kp-commits': 'OK'}, admin.delete_groups(['kp-commits']))
        assert 'kp-commits' not in [g['group_id'] for g in admin.list_groups()]


def groups(admin):
    producer = KafkaProducer(bootstrap_servers=B)

    def produce(topic, partition, values):
        for v in values:
            producer.send(topic, value=v.encode(), partition=partition)
        producer.flush()

    for strategy in ASSIGNORS:
        admin.create_topics({'kp-' + strategy: {'num_partitions': 6}}, wait_for_metadata=True)
        group_of_three(B, N + strategy, strategy, 'kp-' + strategy, produce)
    static_members(B, N + 'eager', 'eager', 'kp-eager')
    producer.close()


if sys.argv[2:3] == ['member']:
    member(*sys.argv[3:])
else:
    admin = KafkaAdminClient(bootstrap_servers=B)
    admin_checks(admin)
    data_checks()
    commit_checks(admin)
    groups(admin)
    finish()
