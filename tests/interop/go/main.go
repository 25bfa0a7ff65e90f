// franz-go against our broker. use: franz BOOTSTRAP
// Prints `ok - what` or `not ok - what` for each check. `franz BOOTSTRAP member TOPIC GROUP STRATEGY INSTANCE` is one
// consumer of a group: a process of its own, so that it can be killed. It prints "partitions 0 1" and "message VALUE".
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	bootstrap = kgo.SeedBrokers(strings.Split(os.Args[1], ",")...)
	ctx       = context.Background()
	failed    = false
)

func check(name string, f func() error) {
	if err := f(); err != nil {
		failed = true
		fmt.Printf("not ok - franz-go: %s: %v\n", name, err)
		return
	}
	fmt.Printf("ok - franz-go: %s\n", name)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func equal(expected, found any) error {
	if e, f := fmt.Sprintf("%v", expected), fmt.Sprintf("%v", found); e != f {
		return fmt.Errorf("expected %.200s, found %.200s", e, f)
	}
	return nil
}

func waitFor(what string, condition func() bool) error {
	for deadline := time.Now().Add(45 * time.Second); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("no %s within 45 s", what)
		}
	}
	return nil
}

func client(options ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append(options, bootstrap)...))
}

// take reads count records of one partition from an offset on.
func take(topic string, partition int32, from int64, count int) ([]*kgo.Record, error) {
	c := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))
	defer c.Close()
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var found []*kgo.Record
	for len(found) < count {
		fetches := c.PollFetches(limited)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		found = append(found, fetches.Records()...)
	}
	return found, nil
}

func adminChecks(admin *kadm.Client) {
	check("topics are created, listed and described", func() error {
		retention := "86400000"
		must(admin.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": &retention}, "fg"))
		must(admin.CreateTopic(ctx, 1, 1, nil, "fg-going"))
		topics := must(admin.ListTopics(ctx))
		if !topics.Has("fg") || !topics.Has("fg-going") {
			return errors.New("not listed")
		}
		return equal(3, len(topics["fg"].Partitions))
	})
	check("an existing topic is refused", func() error {
		_, err := admin.CreateTopic(ctx, 1, 1, nil, "fg")
		return equal(kerr.TopicAlreadyExists, err)
	})
	check("partitions are added", func() error {
		must(admin.CreatePartitions(ctx, 1, "fg"))
		return waitFor("fourth partition", func() bool { return len(must(admin.ListTopics(ctx))["fg"].Partitions) == 4 })
	})
	check("configs are described and altered", func() error {
		value := "3600000"
		must(admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, "fg"))
		return waitFor("new value", func() bool {
			for _, config := range must(admin.DescribeTopicConfigs(ctx, "fg"))[0].Configs {
				if config.Key == "retention.ms" {
					return config.MaybeValue() == value
				}
			}
			return false
		})
	})
	check("a topic is deleted", func() error {
		must(admin.DeleteTopic(ctx, "fg-going"))
		return waitFor("deletion", func() bool { return !must(admin.ListTopics(ctx)).Has("fg-going") })
	})
}

func dataChecks(admin *kadm.Client) {
	end := func() int64 { offset, _ := must(admin.ListEndOffsets(ctx, "fg")).Lookup("fg", 0); return offset.Offset }
	produce := func(name string, options ...kgo.Opt) {
		check(name, func() error {
			first := end()
			c := client(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("fg"))...)
			var sent []*kgo.Record
			for i := range 100 {
				sent = append(sent, &kgo.Record{
					Key: []byte(strconv.Itoa(i)), Value: []byte(strings.Repeat(name, 20)), Timestamp: time.UnixMilli(1700000000000 + int64(i)),
					Headers: []kgo.RecordHeader{{Key: "name", Value: []byte(name)}, {Key: "empty", Value: []byte{}}},
				})
			}
			if err := c.ProduceSync(ctx, sent...).FirstErr(); err != nil {
				return err
			}
			c.Close()
			found, err := take("fg", 0, first, 100)
			if err != nil {
				return err
			}
			for i, r := range found {
				if err := equal([]any{first + int64(i), sent[i].Key, sent[i].Value, sent[i].Headers, sent[i].Timestamp.UnixMilli()},
					[]any{r.Offset, r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli()}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		produce(name+", idempotent, acks=all", kgo.ProducerBatchCompression(codecs[i]))
	}
	produce("acks=0", kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	produce("acks=1", kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	check("offsets for times", func() error {
		c := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		defer c.Close()
		for i := range 10 {
			r := &kgo.Record{Topic: "fg", Partition: 1, Value: []byte("v"), Timestamp: time.UnixMilli(1600000000000 + 1000*int64(i))}
			if err := c.ProduceSync(ctx, r).FirstErr(); err != nil {
				return err
			}
		}
		offset, _ := must(admin.ListOffsetsAfterMilli(ctx, 1600000004500, "fg")).Lookup("fg", 1)
		return equal([]int64{5, 1600000005000}, []int64{offset.Offset, offset.Timestamp})
	})
	check("offsets are committed and read back, the group deleted", func() error {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: "fg", Partition: 0, At: 7, LeaderEpoch: -1, Metadata: "note"})
		must(0, admin.CommitAllOffsets(ctx, "fg-commits", offsets))
		kept, _ := must(admin.FetchOffsets(ctx, "fg-commits")).Lookup("fg", 0)
		if err := equal("7 note", fmt.Sprint(kept.At, " ", kept.Metadata)); err != nil {
			return err
		}
		if !slices.Contains(must(admin.ListGroups(ctx)).Groups(), "fg-commits") {
			return errors.New("the group is not listed")
		}
		must(admin.DeleteGroup(ctx, "fg-commits"))
		return nil
	})
}

func consume(topic, group, strategy, instance string) {
	var has []int
	var lock sync.Mutex
	change := func(gained bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			lock.Lock()
			defer lock.Unlock()
			for _, p := range partitions[topic] {
				if gained {
					has = append(has, int(p))
				} else {
					has = slices.DeleteFunc(has, func(q int) bool { return q == int(p) })
				}
			}
			slices.Sort(has)
			fmt.Println("partitions", strings.Trim(fmt.Sprint(has), "[]"))
		}
	}
	balancer := kgo.RangeBalancer()
	if strategy == "cooperative" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	options := []kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.Balancers(balancer), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.AutoCommitInterval(200 * time.Millisecond), kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6 * time.Second)}
	if instance != "" {
		options = append(options, kgo.InstanceID(instance), kgo.SessionTimeout(20*time.Second))
	}
	c := client(options...)
	stopping, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	for stopping.Err() == nil {
		limited, cancel := context.WithTimeout(stopping, 200*time.Millisecond)
		fetches := c.PollFetches(limited)
		cancel()
		fetches.EachRecord(func(r *kgo.Record) { fmt.Println("message", string(r.Value)) })
	}
	c.Close()
}

type member struct {
	sync.Mutex
	command    *exec.Cmd
	partitions []string
	messages   []string
	changes    int
}

func start(topic, group, strategy, instance string) *member {
	m := &member{command: exec.Command(os.Args[0], os.Args[1], "member", topic, group, strategy, instance)}
	m.command.Stderr = os.Stderr
	out := must(m.command.StdoutPipe())
	must(0, m.command.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			words := strings.Fields(lines.Text())
			m.Lock()
			if words[0] == "message" {
				m.messages = append(m.messages, words[1])
			} else {
				m.partitions, m.changes = words[1:], m.changes+1
			}
			m.Unlock()
		}
	}()
	return m
}

func (m *member) stop(s os.Signal) {
	m.command.Process.Signal(s)
	m.command.Wait()
}

func (m *member) state() ([]string, []string, int) {
	m.Lock()
	defer m.Unlock()
	return slices.Clone(m.partitions), slices.Clone(m.messages), m.changes
}

// shared tells whether the six partitions are given away, once, each member having `each`.
func shared(members []*member, each int) func() bool {
	return func() bool {
		seen := map[string]bool{}
		for _, m := range members {
			partitions, _, _ := m.state()
			if len(partitions) != each {
				return false
			}
			for _, p := range partitions {
				seen[p] = true
			}
		}
		return len(seen) == 6
	}
}

func received(members []*member, prefix string) (found []string) {
	for _, m := range members {
		_, messages, _ := m.state()
		for _, v := range messages {
			if strings.HasPrefix(v, prefix) {
				found = append(found, v)
			}
		}
	}
	slices.Sort(found)
	return found
}

func groupChecks(admin *kadm.Client) {
	c := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer c.Close()
	send := func(topic, prefix string, each int) (sent []string) {
		for i := range 6 * each {
			v := fmt.Sprintf("%s-%d", prefix, i)
			sent = append(sent, v)
			must(0, c.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: int32(i % 6), Value: []byte(v)}).FirstErr())
		}
		slices.Sort(sent)
		return sent
	}
	for _, strategy := range []string{"eager", "cooperative"} {
		topic := "fg-" + strategy
		must(admin.CreateTopic(ctx, 6, 1, nil, topic))
		members := []*member{}
		for range 3 {
			members = append(members, start(topic, topic, strategy, ""))
		}
		rest := []*member{members[0], members[2]}
		check(strategy+": three members share six partitions", func() error { return waitFor("even assignment", shared(members, 2)) })
		check(strategy+": each message once", func() error {
			sent := send(topic, "first", 10)
			waitFor("sixty messages", func() bool { return len(received(members, "first")) >= len(sent) })
			return equal(sent, received(members, "first"))
		})
		check(strategy+": a member is killed, the others take over", func() error {
			members[1].stop(syscall.SIGKILL)
			if err := waitFor("takeover", shared(rest, 3)); err != nil {
				return err
			}
			sent := send(topic, "second", 1)
			return waitFor("messages of all partitions", func() bool { return len(slices.Compact(received(rest, "second"))) == len(sent) })
		})
		for _, m := range rest {
			m.stop(syscall.SIGTERM)
		}
	}
	static := func(i int) *member { return start("fg-eager", "fg-static", "eager", fmt.Sprint("instance-", i)) }
	members := []*member{static(0), static(1), static(2)}
	check("a static member restarts without a rebalance", func() error {
		if err := waitFor("even assignment", shared(members, 2)); err != nil {
			return err
		}
		had, _, _ := members[1].state()
		_, _, changes0 := members[0].state()
		_, _, changes2 := members[2].state()
		members[1].stop(syscall.SIGTERM)
		members[1] = static(1)
		if err := waitFor("the member back", func() bool { p, _, _ := members[1].state(); return len(p) > 0 }); err != nil {
			return err
		}
		time.Sleep(2 * time.Second) // four heartbeats of the others: a rebalance would have reached them
		has, _, _ := members[1].state()
		_, _, after0 := members[0].state()
		_, _, after2 := members[2].state()
		return equal(fmt.Sprint(had, changes0, changes2), fmt.Sprint(has, after0, after2))
	})
	for _, m := range members {
		m.stop(syscall.SIGTERM)
	}
}

func main() {
	if len(os.Args) > 2 {
		consume(os.Args[3], os.Args[4], os.Args[5], os.Args[6])
		return
	}
	admin := kadm.NewClient(client())
	adminChecks(admin)
	dataChecks(admin)
	groupChecks(admin)
	if failed {
		os.Exit(1)
	}
}
