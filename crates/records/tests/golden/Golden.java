// Writes golden record batches with Apache Kafka's own classes, or reads batches that ours wrote.
//   java -cp "$KAFKA_LIBS/*" Golden.java > batches.tsv       the same on every run
//   java -cp "$KAFKA_LIBS/*" Golden.java --read FILE         prints what a segment file holds
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

public class Golden {
    static final long NOW = 1_700_000_000_000L;
    static final HexFormat HEX = HexFormat.of();

    static byte[] utf8(String s) { return s == null ? null : s.getBytes(StandardCharsets.UTF_8); }

    static String hex(byte[] b) { return b == null ? "-" : HEX.formatHex(b); }

    static void print(String name, ByteBuffer batches) {
        StringBuilder records = new StringBuilder();
        for (RecordBatch batch : MemoryRecords.readableRecords(batches.duplicate()).batches())
            for (org.apache.kafka.common.record.internal.Record r : batch) {
                StringJoiner headers = new StringJoiner(";");
                for (Header h : r.headers()) headers.add(hex(utf8(h.key())) + "=" + hex(h.value()));
                records.append(records.length() == 0 ? "" : " ").append(r.offset()).append(',').append(r.timestamp()).append(',')
                    .append(r.hasKey() ? hex(bytes(r.key())) : "-").append(',').append(r.hasValue() ? hex(bytes(r.value())) : "-").append(',').append(headers);
            }
        byte[] all = new byte[batches.remaining()];
        batches.duplicate().get(all);
        System.out.println(name + "\t" + hex(all) + "\t" + records);
    }

    static byte[] bytes(ByteBuffer b) { byte[] out = new byte[b.remaining()]; b.duplicate().get(out); return out; }

    static void fill(MemoryRecordsBuilder b) {
        b.append(NOW, utf8("key"), utf8("value"), new Header[] {
            new RecordHeader("h", utf8("1")), new RecordHeader("h", null), new RecordHeader("ž", utf8("")) });
        b.append(NOW + 5, (byte[]) null, utf8("x".repeat(300)));
        b.append(NOW - 7, utf8("tombstone"), (byte[]) null);
        for (int i = 0; i < 40; i++) b.append(NOW + i, utf8("k" + i), utf8("line " + i % 3 + " of the same text again and again"));
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 2 && args[0].equals("--read")) {
            MemoryRecords all = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(Path.of(args[1]))));
            for (MutableRecordBatch batch : all.batches()) {
                batch.ensureValid();
                print(batch.compressionType().name, ByteBuffer.wrap(serialize(batch)));
            }
            return;
        }
        System.out.println("name\thex\trecords");
        Map<String, Compression> kinds = new LinkedHashMap<>();
        kinds.put("none", Compression.NONE);
        kinds.put("gzip", Compression.gzip().build());
        kinds.put("snappy", Compression.snappy().build());
        kinds.put("lz4", Compression.lz4().build());
        kinds.put("zstd", Compression.zstd().build());
        for (var kind : kinds.entrySet())
            for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
                MemoryRecordsBuilder b = MemoryRecords.builder(ByteBuffer.allocate(8192), RecordBatch.MAGIC_VALUE_V2, kind.getValue(),
                    type, 1000, type == TimestampType.LOG_APPEND_TIME ? NOW + 1234 : RecordBatch.NO_TIMESTAMP, 77L, (short) 3, 2147483640, type == TimestampType.CREATE_TIME, 9);
                fill(b);
                print(kind.getKey() + "-" + type.name, b.build().buffer());
            }
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT})
            print("marker-" + type.name().toLowerCase(Locale.ROOT), MemoryRecords.withEndTransactionMarker(50, NOW, 4, 77L, (short) 3, new EndTransactionMarker(type, 12)).buffer());
    }

    static byte[] serialize(MutableRecordBatch batch) { ByteBuffer b = ByteBuffer.allocate(batch.sizeInBytes()); batch.writeTo(b); return b.array(); }
}
